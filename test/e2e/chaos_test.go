// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("Under random faults", func() {
	It("20 gangs of 20 end with nothing leaked and no partial gang", func(ctx SpecContext) {
		const gangs, size = 20, 20
		w := newTestEnv(ctx, "chaos", 20, "20")
		proxy := startProxy()
		faults := randomFaults(w.name, proxy)
		w.plugins.order("first", control.Anything, control.Random)
		arguments := fmt.Sprintf("      failPercent: 10\n      seed: %d\n", GinkgoRandomSeed())
		w.startBehind(ctx, proxy, w.confWith("enqueue, allocate, backfill", arguments, "first"))
		all := make([]gang, gangs)
		for i := range all {
			all[i] = gang{name: fmt.Sprintf("g%02d", i), size: size, min: size}
			w.submit(ctx, all[i])
		}

		By("letting every gang fail or be bound while faults last")
		Eventually(func() (untried int) {
			for _, g := range all {
				if w.seen.bound(g) < size && w.seen.unschedulable(g) == nil {
					untried++
				}
			}
			return untried
		}).Should(BeZero())
		hits := 0
		for _, fault := range faults {
			hits += fault.Hits()
			fault.Remove()
		}
		w.plugins.revoke("first", control.Anything, control.Random)
		AddReportEntry("faults at the proxy", hits)

		By("trying again without faults")
		for _, g := range all {
			if w.seen.bound(g) < size {
				w.touch(ctx, g)
			}
		}
		for _, g := range all {
			Eventually(func() int { return w.seen.bound(g) }, time.Minute).Should(Equal(size), "bound pods of gang %s", g.name)
			w.seen.expectStagedAtomically(g, "first")
			w.plugins.expectOnceEach(g)
		}
		for _, g := range all {
			w.seen.eventuallyRunning(g)
		}
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("10 gangs of 10 end with nothing leaked and no partial gang when the scheduler is killed again and again", func(ctx SpecContext) {
		const gangs, size = 10, 10
		w := newTestEnv(ctx, "killed", 10, "10")
		proxy := startProxy()
		all := make([]gang, gangs)
		for i := range all {
			all[i] = gang{name: fmt.Sprintf("g%d", i), size: size, min: size}
			w.submit(ctx, all[i])
		}
		// Each scheduler process ends at another point of the binding of its gangs.
		for _, rule := range []faultproxy.Rule{
			{Method: http.MethodPost, Path: "/configmaps$", Skip: 35},
			{Method: http.MethodPost, Path: "/binding$", Skip: 3},
			{Method: http.MethodPost, Path: "/binding$", Skip: 27},
			{Method: http.MethodDelete, Path: "/configmaps/", Skip: 5},
			{Method: http.MethodPost, Path: "/binding$", Skip: 14},
		} {
			rule.Path, rule.Action = "/namespaces/"+w.name+"/.*"+rule.Path, faultproxy.Hold()
			gate := proxy.Add(rule)
			scheduler := w.startBehind(ctx, proxy, w.conf("first"))
			Eventually(func() bool { return gate.Hits() > 0 || allBound(w.seen, all) }).Should(BeTrue())
			Expect(scheduler.Kill9()).To(Succeed())
			gate.Release()
		}
		w.start(ctx, w.conf("first"))
		for _, g := range all {
			w.seen.eventuallyBound(g, size)
			w.seen.eventuallyRunning(g)
			w.seen.expectStagedAtomically(g, "first")
		}
		w.seen.expectNoLeaks(ctx, "first")
	})
})

func allBound(o observed, gangs []gang) bool {
	for _, g := range gangs {
		if o.bound(g) < g.size {
			return false
		}
	}
	return true
}

// randomFaults breaks a tenth of the calls for objects of the namespace, reads and writes, each in one of five ways.
// Lists and watches of the whole cluster are not affected.
func randomFaults(namespace string, proxy *faultproxy.Proxy) []*faultproxy.ActiveRule {
	var rules []*faultproxy.ActiveRule
	for _, action := range []faultproxy.Action{
		faultproxy.Answer(http.StatusInternalServerError, 0),
		faultproxy.Answer(http.StatusTooManyRequests, time.Second),
		faultproxy.Answer(http.StatusConflict, 0),
		faultproxy.DropBefore(),
		faultproxy.DropAfter(),
	} {
		rules = append(rules, proxy.Add(faultproxy.Rule{Path: "/namespaces/" + namespace + "/", Probability: 0.02, Action: action}))
	}
	return rules
}

// expectOnceEach expects, for each pod and one plugin, that each step that began was rolled back successfully exactly
// once before the next step began. The last step, after which the pod is bound, must not be rolled back.
func (p testPlugins) expectOnceEach(g gang) {
	GinkgoHelper()
	journal, err := p.Journal()
	Expect(err).NotTo(HaveOccurred())
	prepared := map[string]bool{}
	for _, entry := range journal {
		switch {
		case entry.Call == control.PreBind && entry.Phase == control.Begin:
			Expect(prepared[entry.Pod]).To(BeFalse(), "pod %s is prepared again before it was undone", entry.Pod)
			prepared[entry.Pod] = true
		case entry.Call == control.Rollback:
			Expect(prepared[entry.Pod]).To(BeTrue(), "pod %s is undone and was not prepared", entry.Pod)
			prepared[entry.Pod] = entry.Phase != control.OK
		}
	}
	for _, pod := range g.pods() {
		Expect(prepared[pod]).To(BeTrue(), "pod %s is bound and not prepared", pod)
	}
}
