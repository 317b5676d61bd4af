// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("After a kill -9 of the scheduler", func() {
	It("between pre-bind and bind the next one undoes what was prepared and binds the gang", func(ctx SpecContext) {
		w := newTestEnv(ctx, "kill-prebind", 1, "8")
		proxy := startProxy()
		held := proxy.Add(w.bindingsTo(".*", 0, faultproxy.Hold()))
		scheduler := w.startBehind(ctx, proxy, w.conf("first", "second"))
		stays, goes := gang{name: "stays", size: 3, min: 3}, gang{name: "goes", size: 3, min: 3}
		w.submit(ctx, stays)
		w.submit(ctx, goes)
		Eventually(held.Hits).Should(Equal(6))
		// The proxy still holds the requests: a killed scheduler's requests must not arrive.
		Expect(scheduler.Kill9()).To(Succeed())
		Expect(w.seen.everBound(stays) + w.seen.everBound(goes)).To(BeZero())
		// Only the next leader can know the preparations for this pod.
		w.deleteGang(ctx, goes)

		w.start(ctx, w.conf("first", "second"))
		w.seen.eventuallyBound(stays, 3)
		w.seen.eventuallyRunning(stays)
		w.seen.expectNoLeaks(ctx, "first", "second")
		w.seen.expectStagedAtomically(stays, "first", "second")
	})

	It("in the middle of a gang's binds the next one completes that gang before any other", func(ctx SpecContext) {
		w := newTestEnv(ctx, "kill-bind", 1, "4")
		proxy := startProxy()
		g := gang{name: "g", size: 4, min: 4}
		rule := w.bindingsTo("g-.*", 0, faultproxy.Hold())
		rule.Skip = 2
		held := proxy.Add(rule)
		scheduler := w.startBehind(ctx, proxy, w.conf("first"))
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 2)
		Eventually(held.Hits).Should(Equal(2))
		// The proxy still holds the requests: a killed scheduler's requests must not arrive.
		Expect(scheduler.Kill9()).To(Succeed())
		// These pods need the remaining room, and would be first in any order of jobs.
		urgent := gang{name: "a", size: 2, min: 2, priority: "e2e-high"}
		lone := gang{name: "b", size: 1, min: 1, priority: "e2e-high"}
		w.submit(ctx, urgent)
		w.submit(ctx, lone)
		Expect(w.seen.bound(g)).To(Equal(2))

		w.start(ctx, w.conf("first"))
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
		Eventually(func() int { return w.seen.eventCount("PodGroup", g.name, "PartiallyBound") }).Should(Equal(1))
		Consistently(func() int { return w.seen.everBound(urgent) + w.seen.everBound(lone) }).Should(BeZero())
		w.addNodes(ctx, 1, 1, "3")
		w.seen.eventuallyBound(urgent, 2)
		w.seen.eventuallyBound(lone, 1)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("no session opens before every plugin has recovered", func(ctx SpecContext) {
		w := newTestEnv(ctx, "recover", 1, "8")
		proxy := startProxy()
		broken := proxy.Add(faultproxy.Rule{
			Method: http.MethodGet, Path: "/configmaps$", Limit: 4, Action: faultproxy.Answer(http.StatusInternalServerError, 0),
		})
		g := gang{name: "g", size: 2, min: 2}
		w.submit(ctx, g)
		w.startBehind(ctx, proxy, w.conf("first", "second"))
		w.seen.eventuallyBound(g, 2)
		Expect(broken.Hits()).To(Equal(4))
		journal, err := w.plugins.Journal()
		Expect(err).NotTo(HaveOccurred())
		recovered := map[string]bool{}
		for _, entry := range journal {
			if entry.Call == control.Recover && entry.Phase == control.OK {
				recovered[entry.Plugin] = true
			}
			if entry.Call == control.PreBind {
				Expect(recovered).To(HaveLen(2), "plugins that had recovered before the first step")
			}
		}
	})

	It("a gang that stays bound in part is evicted after evictPartiallyBoundAfter, if the conf asks for it", func(ctx SpecContext) {
		w := newTestEnv(ctx, "evict", 1, "3")
		conf := w.conf("first") + "configurations:\n- name: binding\n  arguments:\n    evictPartiallyBoundAfter: 2s\n"
		proxy := startProxy()
		g := gang{name: "g", size: 3, min: 3}
		proxy.Add(w.bindingsTo(g.member(2), 0, faultproxy.Answer(http.StatusUnprocessableEntity, 0)))
		w.startBehind(ctx, proxy, conf)
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 2)
		Eventually(func() int { return w.seen.eventCount("PodGroup", g.name, "PartiallyBound") }).Should(Equal(1))
		other := gang{name: "other", size: 3, min: 3}
		w.submit(ctx, other)
		Eventually(func() []any {
			return []any{w.seen.Pod(g.member(0)) == nil, w.seen.Pod(g.member(1)) == nil, w.seen.Pod(g.member(2)) == nil}
		}).Should(Equal([]any{true, true, false}), "the bound members are gone, the other is not")
		w.seen.eventuallyBound(other, 3)
	})
})

var _ = Describe("In the middle of a transaction", func() {
	It("the API server may be killed and come back", func(ctx SpecContext) {
		DeferCleanup(renewControllers)
		w := newTestEnv(ctx, "apiserver", 1, "8")
		proxy := startProxy()
		binding, preparing := gang{name: "binding", size: 3, min: 3}, gang{name: "preparing", size: 3, min: 3}
		held := proxy.Add(w.bindingsTo("binding-.*", 0, faultproxy.Hold()))
		w.plugins.order("second", preparing.member(0), control.Hang)
		w.startBehind(ctx, proxy, w.conf("first", "second"))
		w.submit(ctx, binding)
		w.submit(ctx, preparing)
		Eventually(held.Hits).Should(Equal(3))
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", preparing.member(0)) }).Should(Equal(1))
		Expect(cp.Kill(controlplane.APIServer)).To(Succeed())
		held.Release()
		w.plugins.revoke("second", preparing.member(0), control.Hang)
		Expect(cp.Restart(ctx, controlplane.APIServer)).To(Succeed())
		w.seen.eventuallyBound(binding, 3)
		w.seen.eventuallyBound(preparing, 3)
		w.seen.eventuallyRunning(binding)
		w.seen.eventuallyRunning(preparing)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("a pod may be deleted", func(ctx SpecContext) {
		w := newTestEnv(ctx, "pod-deleted", 1, "8")
		w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 3, min: 3}
		w.plugins.order("second", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", g.member(0)) }).Should(Equal(1))
		w.deletePod(ctx, g.member(1))
		Eventually(func() []string { return w.plugins.journalOf(g.member(1)) }).Should(HaveLen(4), "it is rolled back")
		Eventually(func() []string { return w.plugins.journalOf(g.member(0)) }).Should(Equal(
			[]string{"prebind first", "prebind second", "rollback second", "rollback first"}), "the gang is below its minimum")
		w.seen.expectNoLeaks(ctx, "first", "second")
		w.plugins.revoke("second", g.member(0), control.Hang)
		Consistently(func() int { return w.seen.everBound(g) }).Should(BeZero())
		w.submitPods(ctx, g, 1, 2)
		w.seen.eventuallyBound(g, 3)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("a pod may be deleted and made again while it is being bound", func(ctx SpecContext) {
		w := newTestEnv(ctx, "pod-replaced", 1, "8")
		proxy := startProxy()
		g := gang{name: "g", size: 3, min: 2}
		held := proxy.Add(w.bindingsTo(g.member(0), 0, faultproxy.Hold()))
		w.startBehind(ctx, proxy, w.conf("first"))
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 2)
		Eventually(held.Reached()).Should(BeClosed())
		w.deletePod(ctx, g.member(0))
		w.submitPods(ctx, g, 0, 1)
		held.Release()
		w.seen.eventuallyBound(g, 3)
		w.seen.eventuallyRunning(g)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("a PodGroup may be deleted and made again", func(ctx SpecContext) {
		w := newTestEnv(ctx, "group-deleted", 1, "8")
		w.start(ctx, w.conf("first"))
		g := gang{name: "g", size: 3, min: 3}
		w.plugins.order("first", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "first", g.member(0)) }).Should(Equal(1))
		Expect(vc.SchedulingV1beta1().PodGroups(w.name).Delete(ctx, g.name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() any { return w.seen.PodGroup(g.name) }).Should(BeNil())
		w.plugins.revoke("first", g.member(0), control.Hang)
		for _, pod := range g.pods() {
			Eventually(func() []string { return w.plugins.journalOf(pod) }).Should(Equal([]string{"prebind first", "rollback first"}))
		}
		Expect(w.seen.everBound(g)).To(BeZero())
		w.submitGroup(ctx, g)
		w.seen.eventuallyBound(g, 3)
		w.seen.eventuallyRunning(g)
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("a node may be deleted", func(ctx SpecContext) {
		w := newTestEnv(ctx, "node-deleted", 3, "2")
		w.start(ctx, w.conf("first", "second"))
		g := gang{name: "g", size: 4, min: 4}
		w.plugins.order("second", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", g.member(0)) }).Should(Equal(1))
		node := w.plugins.nodeOf(g.member(0))
		Expect(kube.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() []string { return w.plugins.journalOf(g.member(0)) }).Should(ContainElement("rollback first"))
		w.plugins.revoke("second", g.member(0), control.Hang)
		w.seen.eventuallyBound(g, 4)
		Expect(w.seen.EverBound()).NotTo(ContainElement(node))
		w.seen.eventuallyRunning(g)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})
})

// nodeOf returns the node of the pod's last preparation.
func (p testPlugins) nodeOf(pod string) string {
	GinkgoHelper()
	journal, err := p.Journal()
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range journal {
		if entry.Pod == pod {
			return entry.Node
		}
	}
	Fail("pod " + pod + " was not prepared for any node")
	return ""
}
