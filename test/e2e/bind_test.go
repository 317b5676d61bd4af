// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"regexp"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/history"
)

// bindings returns the start of a rule for Bindings of the pods that match the regular expression.
func bindings(namespace, pods string) faultproxy.Rule {
	return faultproxy.Rule{Method: http.MethodPost, Path: "/namespaces/" + namespace + "/pods/(" + pods + ")/binding$"}
}

// bindingsTo returns bindings with an action that is taken limit times. Zero means always.
func (w *testEnv) bindingsTo(pods string, limit int, action faultproxy.Action) faultproxy.Rule {
	rule := bindings(w.name, pods)
	rule.Limit, rule.Action = limit, action
	return rule
}

// tally records the times of Bindings by pod.
type tally struct {
	mu    sync.Mutex
	times map[string][]time.Time
}

var bindingPath = regexp.MustCompile(`/pods/([^/]+)/binding$`)

// tallyAt returns a tally of the Bindings that reach the proxy. It must be called first, because its rule must be the
// proxy's first.
func tallyAt(namespace string, proxy *faultproxy.Proxy) *tally {
	t := &tally{times: map[string][]time.Time{}}
	rule := bindings(namespace, ".*")
	rule.Match = func(r faultproxy.Request) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		pod := bindingPath.FindStringSubmatch(r.Path)[1]
		t.times[pod] = append(t.times[pod], time.Now())
		return false
	}
	proxy.Add(rule)
	return t
}

func (t *tally) of(pod string) []time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]time.Time(nil), t.times[pod]...)
}

var _ = Describe("A bind", func() {
	It("that the API server may yet accept is sent again, and an unclear one is settled by a read", func(ctx SpecContext) {
		w := newTestEnv(ctx, "transient", 1, "8")
		proxy := startProxy()
		seen := tallyAt(w.name, proxy)
		g := gang{name: "g", size: 6, min: 6}
		const maxWait = 2 * time.Second
		proxy.Add(w.bindingsTo(g.member(0), 1, faultproxy.Answer(http.StatusInternalServerError, 0)))
		proxy.Add(w.bindingsTo(g.member(1), 1, faultproxy.Answer(http.StatusConflict, 0)))
		proxy.Add(w.bindingsTo(g.member(2), 1, faultproxy.DropAfter()))
		proxy.Add(w.bindingsTo(g.member(3), 1, faultproxy.Answer(http.StatusTooManyRequests, maxWait)))
		proxy.Add(w.bindingsTo(g.member(4), 1, faultproxy.DropBefore()))
		w.startBehind(ctx, proxy, w.conf("first"))
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 6)
		w.seen.eventuallyRunning(g)
		for _, pod := range g.pods() {
			Expect(w.plugins.journalOf(pod)).To(Equal([]string{"prebind first"}), "calls for pod %s", pod)
		}
		Expect(seen.of(g.member(0))).To(HaveLen(2))
		Expect(seen.of(g.member(2))).To(HaveLen(1), "the Binding that took place is not sent again")
		patient := seen.of(g.member(3))
		Expect(patient).To(HaveLen(2))
		Expect(patient[1].Sub(patient[0])).To(BeNumerically(">=", maxWait), "Retry-After")
		Expect(len(seen.of(g.member(4)))).To(BeNumerically(">=", 2))
		Expect(seen.of(g.member(5))).To(HaveLen(1))
		w.seen.expectStagedAtomically(g, "first")
		w.seen.expectNoLeaks(ctx, "first")
	})

	It("[stuck-binding] that the API server rejects for good is rolled back, and tried again later", func(ctx SpecContext) {
		w := newTestEnv(ctx, "refused", 1, "5")
		proxy := startProxy()
		g := gang{name: "g", size: 5, min: 4}
		refused := proxy.Add(w.bindingsTo(g.member(2), 0, faultproxy.Answer(http.StatusUnprocessableEntity, 0)))
		w.startBehind(ctx, proxy, w.conf("first", "second"))
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 4)
		w.seen.eventuallyRunning(g)
		Eventually(func() int { return w.seen.eventCount("Pod", g.member(2), "BindFailed") }).Should(Equal(1))
		Expect(w.plugins.journalOf(g.member(2))[:4]).To(Equal([]string{"prebind first", "prebind second", "rollback second", "rollback first"}))
		w.seen.expectNoLeaks(ctx, "first", "second")

		By("freeing the room it had")
		other := gang{name: "other", size: 1, min: 1}
		w.submit(ctx, other)
		w.seen.eventuallyBound(other, 1)
		w.deleteGang(ctx, other)

		By("being bound when it is let")
		refused.Remove()
		w.touch(ctx, g)
		w.seen.eventuallyBound(g, 5)
		w.seen.expectNoLeaks(ctx, "first", "second")
	})

	It("[running-while-pending] that is under way, or refused, keeps a PodGroup under its minimum from being Running", func(ctx SpecContext) {
		w := newTestEnv(ctx, "not-running", 1, "12")
		proxy := startProxy()
		slow := gang{name: "slow", size: 3, min: 3}
		g := gang{ // Two are enough for minMember, but one role would be missing.
			name: "g", size: 3, min: 2,
			podGroup: func(pg *v1beta1.PodGroup) { pg.Spec.MinTaskMember = map[string]int32{"ps": 1, "worker": 1} },
			pod:      func(i int, pod *corev1.Pod) { role(pod, []string{"ps", "worker", "worker"}[i]) },
		}
		held := proxy.Add(w.bindingsTo(slow.member(0), 0, faultproxy.Hold()))
		plain := gang{name: "plain", size: 3, min: 3}
		refused := proxy.Add(w.bindingsTo(g.member(0)+"|"+plain.member(0), 0, faultproxy.Answer(http.StatusUnprocessableEntity, 0)))
		w.startBehind(ctx, proxy, w.conf("first"))
		twoRun := func(g gang) {
			GinkgoHelper()
			for _, pod := range []string{g.member(1), g.member(2)} {
				Eventually(func() bool { return w.seen.Pod(pod) != nil && w.seen.Pod(pod).Status.Phase == corev1.PodRunning }).Should(BeTrue(), pod)
			}
			Consistently(func() v1beta1.PodGroupPhase { return w.seen.phase(g) }).ShouldNot(Equal(v1beta1.PodGroupRunning))
			Expect(w.seen.bound(g)).To(Equal(2))
		}
		// A PodGroup that was admitted before its pods existed needs no other write when they are placed.
		w.submitGroup(ctx, slow)
		Eventually(func() v1beta1.PodGroupPhase { return w.seen.phase(slow) }).Should(Equal(v1beta1.PodGroupInqueue))
		w.submitPods(ctx, slow, 0, slow.size)
		twoRun(slow)
		for _, g := range []gang{g, plain} {
			w.submit(ctx, g)
			twoRun(g)
			Expect(w.seen.eventCount("PodGroup", g.name, "PartiallyBound")).To(Equal(1))
		}

		By("writing nothing at each try that is refused again")
		Eventually(func() int32 { return w.seen.PodGroup(plain.name).Status.Running }).Should(Equal(int32(2)))
		told := w.seen.verdicts(plain)
		Consistently(func() []string { return w.seen.verdicts(plain) }, 4*time.Second).Should(Equal(told))

		By("being Running when all are bound")
		held.Release()
		refused.Remove()
		for _, g := range []gang{slow, g, plain} {
			w.touch(ctx, g)
			w.seen.eventuallyBound(g, 3)
			w.seen.eventuallyRunning(g)
			w.seen.expectRunningOnlyWhole(g)
		}
	})

	It("[scale-up-partial] of a gang that grew is held against the new minimum, though the watch lags behind", func(ctx SpecContext) {
		w := newTestEnv(ctx, "scale-up", 1, "3")
		proxy := startProxy()
		scheduler := w.startBehind(ctx, proxy, w.conf("first"))
		g := gang{name: "g", size: 2, min: 2}
		w.submit(ctx, g)
		w.seen.eventuallyRunning(g)

		By("making the scheduler's picture of PodGroups stale")
		Expect(scheduler.Kill9()).To(Succeed())
		stale := proxy.Add(faultproxy.Rule{
			Method: http.MethodGet, Path: "/podgroups$", Action: faultproxy.Hold(),
			Match: func(r faultproxy.Request) bool { return regexp.MustCompile(`watch=(true|1)`).MatchString(r.Query) },
		})
		w.startBehind(ctx, proxy, w.conf("first"))
		Eventually(stale.Reached()).Should(BeClosed())
		grown := gang{name: "g", size: 4, min: 4}
		w.grow(ctx, grown)
		w.submitPods(ctx, grown, 2, 4) // There is room for one of them.
		Eventually(func() int {
			return w.plugins.calls(control.PreBind, "first", grown.member(2)) + w.plugins.calls(control.PreBind, "first", grown.member(3))
		}).Should(BeNumerically(">", 0), "the stale minimum lets a session place a member")
		Consistently(func() int { return w.seen.everBound(grown) }).Should(Equal(2))

		By("letting the scheduler see, and making room")
		stale.Release()
		Consistently(func() int { return w.seen.everBound(grown) }).Should(Equal(2))
		w.addNodes(ctx, 1, 1, "3")
		w.seen.eventuallyBound(grown, 4)
		w.seen.expectNoLeaks(ctx, "first")
	})
})

// expectRunningOnlyWhole expects that no version of the PodGroup was Running before all pods were bound.
func (o observed) expectRunningOnlyWhole(g gang) {
	GinkgoHelper()
	for _, version := range o.PodGroupVersions(g.name) {
		if version.Status.Phase == v1beta1.PodGroupRunning {
			for _, pod := range g.pods() {
				at, ok := o.BoundAt(pod)
				Expect(ok && at < history.Version(version)).To(BeTrue(), "pod %s was not bound when its PodGroup ran", pod)
			}
		}
	}
}
