// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("A pre-bind that fails", func() {
	It("[partial-gang] [no-backoff] for one member below the minimum leaves no pod bound and nothing behind", func(ctx SpecContext) {
		w := newTestEnv(ctx, "below", 1, "8")
		w.start(ctx, w.conf("first", "second", "third"))
		g := gang{name: "g", size: 8, min: 8}
		culprit := g.member(3)
		w.plugins.order("second", culprit, control.Fail)
		w.submit(ctx, g)

		By("saying which plugin failed, for which pod, on which node, and why")
		w.seen.eventuallyFailed(g, "PreBindFailed", "plugin second", w.name+"/"+culprit, w.node(0), "told to fail")
		for _, pod := range g.pods() {
			Eventually(func() int { return w.seen.eventCount("Pod", pod, "PreBindFailed") }).Should(Equal(1), "events of pod %s", pod)
			Eventually(func() corev1.ConditionStatus { return w.seen.scheduled(pod).Status }).Should(Equal(corev1.ConditionFalse), pod)
		}
		Expect(w.seen.scheduled(culprit).Message).To(And(ContainSubstring("second"), ContainSubstring("told to fail")))
		w.seen.expectNoLeaks(ctx, "first", "second", "third")

		By("trying again ever more rarely, and writing nothing while nothing changes")
		versions := w.seen.versions(g)
		tries := func() int { return w.plugins.calls(control.PreBind, "second", culprit) }
		Consistently(func(check Gomega) {
			check.Expect(w.seen.versions(g)).To(Equal(versions))
			check.Expect(tries()).To(BeNumerically("<=", 4))
		}, 5*time.Second).Should(Succeed())
		Expect(tries()).To(BeNumerically(">=", 3))
		Expect(w.seen.eventCount("PodGroup", g.name, "PreBindFailed")).To(Equal(1))
		for _, pod := range g.pods() {
			Expect(w.seen.eventCount("Pod", pod, "PreBindFailed")).To(Equal(1), "events of pod %s", pod)
		}

		By("holding no resources: another gang takes all of the room")
		other := gang{name: "other", size: 8, min: 8}
		w.submit(ctx, other)
		w.seen.eventuallyBound(other, 8)
		Expect(w.seen.everBound(g)).To(BeZero())

		By("being bound when the cause has gone and there is room")
		w.plugins.revoke("second", culprit, control.Fail)
		w.deleteGang(ctx, other)
		w.seen.eventuallyBound(g, 8)
		w.seen.eventuallyRunning(g)
		Eventually(func() any { return w.seen.unschedulable(g) }).Should(BeNil())
		w.seen.expectNoLeaks(ctx, "first", "second", "third")
	})

	It("on one node is reported once, whichever of the gang's equal pods meets it", func(ctx SpecContext) {
		w := newTestEnv(ctx, "equal", 2, "2")
		w.start(ctx, w.conf("first"))
		g := gang{name: "g", size: 4, min: 4}
		w.plugins.order("first", w.node(1), control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "plugin first", w.node(1))
		for _, pod := range g.pods() {
			Eventually(func() int { return w.seen.eventCount("Pod", pod, "PreBindFailed") }).Should(Equal(1), "events of pod %s", pod)
			Eventually(func() corev1.ConditionStatus { return w.seen.scheduled(pod).Status }).Should(Equal(corev1.ConditionFalse), pod)
		}
		versions := w.seen.versions(g)
		Consistently(func() map[string]uint64 { return w.seen.versions(g) }, 5*time.Second).Should(Equal(versions))
		Expect(w.plugins.calls(control.PreBind, "first", g.member(0))).To(BeNumerically(">=", 3), "it was tried again meanwhile")
		Expect(w.seen.eventCount("PodGroup", g.name, "PreBindFailed")).To(Equal(1))
		for _, pod := range g.pods() {
			Expect(w.seen.eventCount("Pod", pod, "PreBindFailed")).To(Equal(1), "events of pod %s", pod)
		}
	})

	It("for one member above the minimum leaves that one out", func(ctx SpecContext) {
		w := newTestEnv(ctx, "above", 1, "8")
		w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 5, min: 3}
		culprit := g.member(1)
		w.plugins.order("second", culprit, control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
		Eventually(func() int { return w.seen.eventCount("Pod", culprit, "PreBindFailed") }).Should(Equal(1))
		Expect(w.seen.EverBound()).NotTo(HaveKey(culprit))
		w.seen.expectNoLeaks(ctx, "first", "second")
		w.plugins.revoke("second", culprit, control.Fail)
		w.seen.eventuallyBound(g, 5)
		w.seen.expectStagedAtomically(g, "first", "second")
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("[map-order] [no-self-rollback] is rolled back in reverse order, the step that failed too", func(ctx SpecContext) {
		w := newTestEnv(ctx, "order", 1, "8")
		w.start(ctx, w.conf("third", "first", "second"))
		g := gang{name: "g", size: 6, min: 6}
		w.plugins.order("second", g.member(0), control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "plugin second", g.member(0))
		Expect(w.plugins.journalOf(g.member(0))[:6]).To(Equal([]string{
			"prebind third", "prebind first", "prebind second", "rollback second", "rollback first", "rollback third",
		}))
		order := []string{"third", "first", "second"}
		for _, pod := range g.pods() {
			w.plugins.expectUndone(pod, order)
		}
		w.seen.expectNoLeaks(ctx, order...)
	})

	It("by a panic fails that member and not the scheduler", func(ctx SpecContext) {
		w := newTestEnv(ctx, "panic", 1, "8")
		scheduler := w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 3, min: 3}
		w.plugins.order("second", g.member(2), control.Panic)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "plugin second", g.member(2), "panic")
		Expect(w.seen.everBound(g)).To(BeZero())
		w.seen.expectNoLeaks(ctx, "first", "second")
		Expect(scheduler.Exited()).NotTo(BeClosed())
		w.plugins.revoke("second", g.member(2), control.Panic)
		w.seen.eventuallyBound(g, 3)
	})

	It("by its deadline is rolled back", func(ctx SpecContext) {
		w := newTestEnv(ctx, "deadline", 1, "8")
		w.start(ctx, w.confWith("enqueue, allocate, backfill", "      timeout: 500ms\n", "first"))
		g := gang{name: "g", size: 2, min: 2}
		w.plugins.order("first", g.member(0), control.Hang)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "plugin first", g.member(0), "deadline")
		Expect(w.seen.everBound(g)).To(BeZero())
		w.plugins.revoke("first", g.member(0), control.Hang)
		w.seen.eventuallyBound(g, 2)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("and whose rollback fails keeps its pod from being placed until the rollback succeeds", func(ctx SpecContext) {
		w := newTestEnv(ctx, "rollback", 1, "8")
		w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 2, min: 2}
		w.plugins.order("second", g.member(0), control.Fail)
		w.plugins.order("first", g.member(1), control.FailRollback)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.Rollback, "first", g.member(1)) }).Should(BeNumerically(">=", 3))
		w.plugins.revoke("second", g.member(0), control.Fail)
		Consistently(func() int { return w.seen.everBound(g) }).Should(BeZero())
		Expect(w.plugins.calls(control.PreBind, "first", g.member(1))).To(Equal(1))
		w.plugins.revoke("first", g.member(1), control.FailRollback)
		w.seen.eventuallyBound(g, 2)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("[prebind-blocks-session] a step that takes long delays no other gang", func(ctx SpecContext) {
		w := newTestEnv(ctx, "slow", 1, "8")
		w.start(ctx, w.conf("first"))
		slow, quick := gang{name: "slow", size: 2, min: 2}, gang{name: "quick", size: 2, min: 2}
		w.plugins.order("first", slow.member(0), control.Hang)
		w.submit(ctx, slow)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "first", slow.member(0)) }).Should(Equal(1))
		w.submit(ctx, quick)
		w.seen.eventuallyBound(quick, 2)
		Expect(w.seen.everBound(slow)).To(BeZero())
		w.plugins.revoke("first", slow.member(0), control.Hang)
		w.seen.eventuallyBound(slow, 2)
		Expect(w.plugins.calls(control.PreBind, "first", slow.member(0))).To(Equal(1))
	})
})

// scheduled returns the pod's PodScheduled condition, or an empty one.
func (o observed) scheduled(pod string) corev1.PodCondition {
	if current := o.Pod(pod); current != nil {
		for _, condition := range current.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				return condition
			}
		}
	}
	return corev1.PodCondition{}
}

// expectUndone expects that each try of the pod began steps in this order, and then rolled back the started steps in
// reverse, each once, before the next try.
func (p testPlugins) expectUndone(pod string, order []string) {
	GinkgoHelper()
	var begun []string
	undoing := false
	for _, call := range p.journalOf(pod) {
		switch {
		case !undoing && len(begun) < len(order) && call == "prebind "+order[len(begun)]:
			begun = append(begun, order[len(begun)])
		case len(begun) > 0 && call == "rollback "+begun[len(begun)-1]:
			begun = begun[:len(begun)-1]
			undoing = len(begun) > 0
		default:
			Fail(fmt.Sprintf("pod %s: %q while %v had begun", pod, call, begun))
		}
	}
	Expect(begun).To(BeEmpty(), "steps of pod %s that were not undone", pod)
}
