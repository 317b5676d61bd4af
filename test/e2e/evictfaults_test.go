// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
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
	return w.confWith("enqueue, allocate, preempt, backfill", "", "first")
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

// keepAvailable keeps so many pods with label app running by a PodDisruptionBudget, and waits until the budget allows to evict
// the others of four pods.
func (w *testEnv) keepAvailable(ctx context.Context, app string, pods int) {
	GinkgoHelper()
	budgets, available := kube.PolicyV1().PodDisruptionBudgets(w.name), intstr.FromInt(pods)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: w.name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &available, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}
	if known, err := budgets.Get(ctx, app, metav1.GetOptions{}); err == nil {
		known.Spec = budget.Spec
		_, err = budgets.Update(ctx, known, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	} else {
		_, err = budgets.Create(ctx, budget, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() (int32, error) {
		known, err := budgets.Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		return known.Status.DisruptionsAllowed, nil
	}).Should(BeEquivalentTo(4 - pods))
}

var _ = Describe("Evictions for a whole gang", func() {
	high := gang{name: "high", size: 4, min: 4, priority: "e2e-high"}

	It("after a kill -9 between the evictions and the bind, the next leader gives the room to the gang and evicts no other pods", func(ctx SpecContext) {
		w, low := fullOf(ctx, "evict-kill", "low-a", "low-b", "low-c")
		w.submit(ctx, high)
		victim := w.seen.eventuallyEvicted(low)
		Expect(w.schedulers[0].Kill9()).To(Succeed())
		waits := gang{name: "waits", size: 4, min: 4, priority: "e2e-patient"} // goes before the gang, but for the evictions
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

	It("if the API server refuses an eviction half-way, the other pods stay", func(ctx SpecContext) {
		w := newTestEnv(ctx, "evict-refused", 1, "4")
		proxy := startProxy()
		held := proxy.Add(faultproxy.Rule{Method: http.MethodPost, Path: "/eviction$", Limit: 1, Action: faultproxy.Hold()})
		w.startBehind(ctx, proxy, strings.Replace(w.evicting(), "- name: priority\n", "- name: priority\n  - name: pdb\n", 1))
		low := gang{name: "low", size: 4, min: 0, priority: "e2e-low", pod: func(_ int, pod *corev1.Pod) { pod.Labels = map[string]string{"app": "low"} }}
		w.submit(ctx, low)
		w.seen.eventuallyBound(low, 4)
		w.seen.eventuallyRunning(low)
		w.keepAvailable(ctx, "low", 2)
		w.submit(ctx, gang{name: "high", size: 2, min: 2, priority: "e2e-high"})
		Eventually(held.Reached()).Should(BeClosed())
		w.keepAvailable(ctx, "low", 3) // the plan relies on two disruptions
		held.Release()
		Eventually(func() string { return w.seen.eventMessages("PodGroup", "high") }).Should(ContainSubstring("EvictionRefused"))
		Eventually(func() int { return w.seen.bound(low) }).Should(Equal(3), func() string { return w.seen.eventMessages("PodGroup", "high") })
		Consistently(func() int { return w.seen.bound(low) }).Should(Equal(3))
		Expect(w.seen.bound(gang{name: "high", size: 2})).To(BeZero())
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
