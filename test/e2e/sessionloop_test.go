// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("The session loop", func() {
	It("writes nothing and runs no cycle while nothing waits and nothing changes", func(ctx SpecContext) {
		w := newTestEnv(ctx, "quiet", 1, "8")
		proxy := startProxy()
		scheduler := w.startBehind(ctx, proxy, w.conf("first"))
		g := gang{name: "g", size: 3, min: 3}
		w.submit(ctx, g)
		w.seen.eventuallyRunning(g)
		cycles := func() string {
			text, err := scheduler.Metrics(ctx)
			Expect(err).NotTo(HaveOccurred())
			return metric(string(text), `volcano_scheduling_cycles_total{result="ok"}`)
		}
		Eventually(func() bool { return settled(proxy) }).WithPolling(2 * time.Second).Should(BeTrue())
		before := cycles()
		proxy.ResetCounts()
		Consistently(proxy.Writes, 3*time.Second).Should(BeEmpty())
		Expect(cycles()).To(Equal(before))
	})

	It("says once why a gang does not fit, and binds it when it does", func(ctx SpecContext) {
		w := newTestEnv(ctx, "no-room", 1, "2")
		proxy := startProxy()
		w.startBehind(ctx, proxy, w.conf("first"))
		g := gang{name: "g", size: 4, min: 4}
		w.submit(ctx, g)
		Eventually(func() any { return w.seen.unschedulable(g) }).ShouldNot(BeNil())
		for _, pod := range g.pods() {
			Eventually(func() string { return string(w.seen.scheduled(pod).Status) }).Should(Equal("False"))
		}
		Eventually(func() bool { return settled(proxy) }).WithPolling(2 * time.Second).Should(BeTrue())
		versions := w.seen.versions(g)
		proxy.ResetCounts()
		Consistently(proxy.Writes, 3*time.Second).Should(BeEmpty(), "a gang that does not fit is looked at every period")
		Expect(w.seen.versions(g)).To(Equal(versions))
		w.addNodes(ctx, 1, 1, "2")
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
		Eventually(func() any { return w.seen.unschedulable(g) }).Should(BeNil())
	})

	It("[lock-stall] goes on while more Bindings wait for the API server than are sent at once", func(ctx SpecContext) {
		const stuck = 150
		w := newTestEnv(ctx, "stall", 2, "80")
		proxy := startProxy()
		held := proxy.Add(w.bindingsTo("big-.*", 0, faultproxy.Hold()))
		w.startBehind(ctx, proxy, w.conf("first"))
		big := gang{name: "big", size: stuck, min: stuck}
		w.submit(ctx, big)
		Eventually(held.Reached()).Should(BeClosed())
		other := gang{name: "other", size: 2, min: 2}
		w.plugins.order("first", other.member(0), control.Fail)
		w.submit(ctx, other)
		w.seen.eventuallyFailed(other, "PreBindFailed", other.member(0))
		Expect(w.seen.everBound(big) + w.seen.everBound(other)).To(BeZero())
		held.Release()
		w.plugins.revoke("first", other.member(0), control.Fail)
		w.seen.eventuallyBound(big, stuck)
		w.seen.eventuallyBound(other, 2)
		w.seen.expectNoLeaks(ctx, "first")
	})
})

// settled reports whether the scheduler has written nothing since the last call.
func settled(proxy *faultproxy.Proxy) bool {
	quiet := len(proxy.Writes()) == 0
	proxy.ResetCounts()
	return quiet
}
