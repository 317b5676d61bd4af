// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// fullOf returns a test with one node of 4 CPUs for each gang, each of which is filled by the gang. The pods of the gangs have
// low priority and a grace period of ten minutes, which they use up unless they are released. The scheduler evicts whole gangs
// for whole gangs.
func fullOf(ctx SpecContext, name string, gangs ...string) (*testEnv, []gang) {
	GinkgoHelper()
	w := newTestEnv(ctx, name, len(gangs), "4")
	w.start(ctx, w.evicting())
	var low []gang
	for _, name := range gangs {
		g := gang{name: name, size: 4, min: 4, priority: "e2e-low", pod: func(_ int, pod *corev1.Pod) {
			pod.Annotations[keepsGrace], pod.Spec.TerminationGracePeriodSeconds = "true", new(int64(600))
		}}
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
		low = append(low, g)
	}
	return w, low
}

// keepsGrace is the annotation of pods that kwok does not delete before the end of their grace period.
const keepsGrace = "sandbox.volcano-prebind.io/keeps-grace-period"

// evicting returns a configuration with this project's preempt.
func (w *testEnv) evicting() string {
	return w.confWith("enqueue, allocate, preempt, backfill", "", "first") + "configurations:\n- name: preempt\n  arguments: {wholeGangs: true}\n"
}

// release ends the gang's pods at once.
func (w *testEnv) release(ctx context.Context, g gang) {
	GinkgoHelper()
	for _, name := range g.pods() {
		w.deletePod(ctx, name)
	}
}

// evicted returns the gangs of which pods are, or were, being deleted.
func (o observed) evicted(gangs []gang) (names []string) {
	for _, g := range gangs {
		if slices.ContainsFunc(g.pods(), func(pod string) bool {
			return slices.ContainsFunc(o.PodVersions(pod), func(version *corev1.Pod) bool { return version.DeletionTimestamp != nil })
		}) {
			names = append(names, g.name)
		}
	}
	return names
}

// eventuallyEvicted waits until all pods of one of the gangs are being deleted, and returns this gang.
func (o observed) eventuallyEvicted(gangs []gang) (evicted gang) {
	GinkgoHelper()
	Eventually(func() bool {
		for _, g := range gangs {
			if !slices.ContainsFunc(g.pods(), func(pod string) bool { return o.Pod(pod) == nil || o.Pod(pod).DeletionTimestamp == nil }) {
				evicted = g
				return true
			}
		}
		return false
	}).Should(BeTrue(), "a gang is evicted")
	return evicted
}

var _ = Describe("Evictions for a whole gang", func() {
	high := gang{name: "high", size: 4, min: 4, priority: "e2e-high"}

	It("after a kill -9 between the evictions and the bind, the next leader binds the gang and evicts no other pods", func(ctx SpecContext) {
		w, low := fullOf(ctx, "evict-kill", "low-a", "low-b", "low-c")
		w.submit(ctx, high)
		victim := w.seen.eventuallyEvicted(low)
		Expect(w.schedulers[0].Kill9()).To(Succeed())
		waits := gang{name: "waits", size: 4, min: 4, priority: "e2e-low"}
		w.submit(ctx, waits)

		w.start(ctx, w.evicting())
		Eventually(func() bool { return w.seen.unschedulable(waits) != nil }).Should(BeTrue(), "the next leader has tried the gangs")
		Consistently(func() []string { return w.seen.evicted(low) }).Should(Equal([]string{victim.name}))
		w.release(ctx, victim)
		w.seen.eventuallyBound(high, 4)
		Expect(w.seen.evicted(low)).To(Equal([]string{victim.name}))
		Expect(w.seen.everBound(waits)).To(BeZero())
		w.seen.expectStagedAtomically(high, "first")
	})

	It("a preemptor that is deleted before its victims are gone holds no room", func(ctx SpecContext) {
		w, low := fullOf(ctx, "evict-deleted", "low-a", "low-b")
		w.submit(ctx, high)
		victim := w.seen.eventuallyEvicted(low)
		w.deleteGang(ctx, high)
		w.release(ctx, victim)
		next := gang{name: "next", size: 4, min: 4, priority: "e2e-low"}
		w.submit(ctx, next)
		w.seen.eventuallyBound(next, 4)
		Expect(w.seen.evicted(low)).To(Equal([]string{victim.name}))
	})

	It("pods that the victims' controller makes at once in their place do not take the room, and are not evicted", func(ctx SpecContext) {
		w, low := fullOf(ctx, "evict-again", "low-a", "low-b")
		w.submit(ctx, high)
		victim := w.seen.eventuallyEvicted(low)
		again := victim
		again.size, again.pod = 8, nil
		w.submitPods(ctx, again, 4, 8)
		w.release(ctx, victim)
		w.seen.eventuallyBound(high, 4)
		Consistently(func() []string { return w.seen.evicted([]gang{again, low[0], low[1]}) }).Should(HaveEach(victim.name))
		for i := 4; i < 8; i++ {
			Expect(w.seen.PodVersions(again.member(i))).To(HaveEach(HaveField("DeletionTimestamp", BeNil())), "pod %s", again.member(i))
			Expect(w.seen.Pod(again.member(i)).Spec.NodeName).To(BeEmpty())
		}
	})
})
