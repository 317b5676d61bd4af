package e2e

import (
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/test/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("Under random faults", func() {
	It("20 gangs of 20 end with nothing leaked and no partial gang", func(ctx SpecContext) {
		const gangs, size = 20, 20
		w := newWorld(ctx, "chaos", 20, "20")
		proxy := w.proxy()
		faults := w.randomFaults(proxy)
		w.order("first", control.Anything, control.Random)
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
				if w.bound(g) < size && w.unschedulable(g) == nil {
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
		w.revoke("first", control.Anything, control.Random)
		AddReportEntry("faults at the proxy", hits)

		By("trying again without faults")
		for _, g := range all {
			if w.bound(g) < size {
				w.touch(ctx, g)
			}
		}
		for _, g := range all {
			Eventually(func() int { return w.bound(g) }, time.Minute).Should(Equal(size), "bound pods of gang %s", g.name)
			w.expectStagedAtomically(g, "first")
		}
		for _, g := range all {
			w.eventuallyRunning(g)
		}
		w.expectNoLeaks(ctx, "first")
	})
})

// randomFaults breaks a tenth of the writes that bind, prepare and undo, each in one of five ways.
func (w *world) randomFaults(proxy *faultproxy.Proxy) []*faultproxy.ActiveRule {
	var rules []*faultproxy.ActiveRule
	add := func(rule faultproxy.Rule) {
		rule.Probability = 0.02
		rules = append(rules, proxy.Add(rule))
	}
	for _, action := range []faultproxy.Action{
		faultproxy.Answer(http.StatusInternalServerError, 0),
		faultproxy.Answer(http.StatusTooManyRequests, time.Second),
		faultproxy.Answer(http.StatusConflict, 0),
		faultproxy.DropBefore(),
		faultproxy.DropAfter(),
	} {
		for _, path := range []string{"/pods/[^/]+/binding$", "/configmaps"} {
			for _, method := range []string{http.MethodPost, http.MethodDelete} {
				add(faultproxy.Rule{Method: method, Path: "/namespaces/" + w.name + path, Action: action})
			}
		}
	}
	return rules
}
