// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("Two schedulers", func() {
	// elect starts a scheduler that takes part in leader election.
	elect := func(ctx context.Context, w *testEnv, args ...string) *controlplane.Scheduler {
		GinkgoHelper()
		return w.startWith(ctx, controlplane.SchedulerOptions{Conf: w.conf("first", "second"), LeaderElect: true, Args: args})
	}
	// led waits until this number of leaders have begun.
	led := func(w *testEnv, leaders int) {
		GinkgoHelper()
		Eventually(func() (n int, err error) {
			journal, err := w.plugins.Journal()
			for _, entry := range journal {
				if entry.Plugin == "second" && entry.Call == control.Recover && entry.Phase == control.OK {
					n++
				}
			}
			return n, err
		}).Should(Equal(leaders), "leaders that have recovered")
	}

	It("fail over after a kill -9: the standby undoes and completes what the leader began", func(ctx SpecContext) {
		w := newTestEnv(ctx, "failover", 1, "8")
		fast := leases(3*time.Second, 2*time.Second, 500*time.Millisecond)
		leader := elect(ctx, w, fast...)
		led(w, 1)
		standby := elect(ctx, w, fast...)
		g := gang{name: "g", size: 3, min: 3}
		w.plugins.order("second", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", g.member(0)) }).Should(Equal(1))
		Expect(leader.Kill9()).To(Succeed())
		w.plugins.revoke("second", g.member(0), control.Hang)
		w.seen.eventuallyBound(g, 3)
		led(w, 2)
		w.seen.expectNoLeaks(ctx, "first", "second")
		Expect(standby.Exited()).NotTo(BeClosed())
	})

	It("hand over at SIGTERM: the leader ends what is in flight, starts nothing, and lets go of the lease", func(ctx SpecContext) {
		w := newTestEnv(ctx, "handover", 1, "8")
		// maxWait would not suffice to wait for the expiry of a lease that is not released.
		slow := leases(2*maxWait, maxWait, 500*time.Millisecond)
		leader := elect(ctx, w, slow...)
		led(w, 1)
		elect(ctx, w, slow...)
		inFlight, later := gang{name: "in-flight", size: 3, min: 3}, gang{name: "later", size: 2, min: 2}
		w.plugins.order("second", inFlight.member(0), control.Hang)
		w.submit(ctx, inFlight)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", inFlight.member(0)) }).Should(Equal(1))
		Expect(leader.Terminate()).To(Succeed())
		w.submit(ctx, later)
		Consistently(leader.Exited()).ShouldNot(BeClosed(), "a transaction is in flight")
		Expect(w.seen.everBound(later)).To(BeZero())
		w.plugins.revoke("second", inFlight.member(0), control.Hang)
		w.seen.eventuallyBound(inFlight, 3)
		Expect(leader.Wait(ctx)).To(BeZero(), "exit code")
		w.seen.eventuallyBound(later, 2)
		led(w, 2)
		Expect(w.plugins.calls(control.PreBind, "second", inFlight.member(0))).To(Equal(1), "the transaction was ended by the leader that began it")
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("hand over at SIGTERM: what does not end within the grace period is rolled back", func(ctx SpecContext) {
		w := newTestEnv(ctx, "grace", 1, "8")
		args := append(leases(2*maxWait, maxWait, 500*time.Millisecond), "--drain-grace-period=1s")
		leader := elect(ctx, w, args...)
		g := gang{name: "g", size: 3, min: 3}
		w.plugins.order("second", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", g.member(0)) }).Should(Equal(1))
		Expect(leader.Terminate()).To(Succeed())
		Expect(leader.Wait(ctx)).To(BeZero(), "exit code")
		Expect(w.seen.everBound(g)).To(BeZero())
		w.seen.expectNoLeaks(ctx, "first", "second")
		w.plugins.revoke("second", g.member(0), control.Hang)
		elect(ctx, w, args...)
		w.seen.eventuallyBound(g, 3)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("do not both lead: one that slept through its lease ends, and binds nothing twice", func(ctx SpecContext) {
		w := newTestEnv(ctx, "asleep", 1, "8")
		fast := leases(3*time.Second, 2*time.Second, 500*time.Millisecond)
		leader := elect(ctx, w, fast...)
		led(w, 1)
		elect(ctx, w, fast...)
		g := gang{name: "g", size: 3, min: 3}
		w.plugins.order("second", g.member(0), control.Hang)
		w.submit(ctx, g)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", g.member(0)) }).Should(Equal(1))
		Expect(leader.Pause()).To(Succeed())
		led(w, 2)
		Eventually(func() int { return w.plugins.calls(control.PreBind, "second", g.member(0)) }).Should(Equal(2))
		Expect(leader.Resume()).To(Succeed())
		Expect(leader.Wait(ctx)).NotTo(BeZero(), "exit code of a leader that lost its lease")
		Eventually(cp.Dead()).Should(Receive(), "it ended by itself, as it should")
		Expect(w.seen.everBound(g)).To(BeZero())
		w.plugins.revoke("second", g.member(0), control.Hang)
		w.seen.eventuallyBound(g, 3)
		w.seen.eventuallyRunning(g)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})
})

// leases returns flags for a fast leader election.
func leases(duration, renew, retry time.Duration) []string {
	return []string{
		"--leader-elect-lease-duration=" + seconds(duration),
		"--leader-elect-renew-deadline=" + seconds(renew),
		"--leader-elect-retry-period=" + seconds(retry),
	}
}
