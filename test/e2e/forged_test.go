// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

var _ = Describe("The minimum that a pod was bound for", func() {
	It("is not for tenants to write, so a gang that ran whole does not pass for one that is bound in part", func(ctx SpecContext) {
		w := newTestEnv(ctx, "forged", 1, "2")
		scheduler := w.start(ctx, w.conf())
		g := gang{name: "g", size: 1, min: 1}
		w.submit(ctx, g)
		w.seen.eventuallyRunning(g)
		Expect(scheduler.Kill9()).To(Succeed())

		// The policy needs a moment to take effect.
		Eventually(func() error { return claimMinimum(ctx, w.name, g.member(0), "1000", metav1.DryRunAll) }).Should(refused())
		Expect(claimMinimum(ctx, w.name, g.member(0), "1000")).To(refused())
		grow := []byte(`{"spec": {"minMember": 2}}`)
		_, err := vc.SchedulingV1beta1().PodGroups(w.name).Patch(ctx, g.name, types.MergePatchType, grow, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		w.submitPods(ctx, g, 1, 2)
		rival := gang{name: "rival", size: 1, min: 1, priority: "e2e-high"}
		w.submit(ctx, rival)
		w.start(ctx, w.conf())
		w.seen.eventuallyBound(rival, 1)
		Expect(w.seen.bound(g)).To(Equal(1))
		Expect(w.seen.eventCount("PodGroup", g.name, "PartiallyBound")).To(BeZero())
	})

	It("is left alone on pods that wait for the chart's schedulers, and may be removed", func(ctx SpecContext) {
		w := newTestEnv(ctx, "minimum", 1, "2")
		create := func(scheduler, node string) error {
			pod := w.podOf(gang{name: "p"}, 0)
			pod.Annotations[binding.MinimumAnnotation] = "1000"
			pod.Spec.SchedulerName, pod.Spec.NodeName = scheduler, node
			_, err := kube.CoreV1().Pods(w.name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		Eventually(func() error { return create("volcano", w.node(0)) }).Should(refused(), "a pod that comes with its node")
		Expect(create(corev1.DefaultSchedulerName, "")).To(refused(), "a pod that another scheduler binds")
		Expect(create("volcano", "")).To(Succeed(), "a copy of a pod of ours, whose annotation the bind replaces")

		w.start(ctx, w.conf())
		g := gang{name: "g", size: 2, min: 2}
		w.submit(ctx, g)
		w.seen.eventuallyRunning(g)
		minimum := func() string { return w.seen.Pod(g.member(0)).Annotations[binding.MinimumAnnotation] }
		Expect(minimum()).To(Equal("2"))
		Expect(claimMinimum(ctx, w.name, g.member(0), "3")).To(refused())
		label := []byte(`{"metadata": {"labels": {"any": "label"}}}`)
		_, err := kube.CoreV1().Pods(w.name).Patch(ctx, g.member(0), types.MergePatchType, label, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred(), "other changes go through")
		remove := []byte(fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, binding.MinimumAnnotation))
		_, err = kube.CoreV1().Pods(w.name).Patch(ctx, g.member(0), types.MergePatchType, remove, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(minimum).Should(BeEmpty())
		Expect(claimMinimum(ctx, w.name, g.member(0), "2")).To(refused())
	})
})

var _ = Describe("The group that a pod was bound with", func() {
	annotations := []string{gangs.BindGroupAnnotation, gangs.BindMembersAnnotation, gangs.OldBindGroupAnnotation, gangs.OldBindMembersAnnotation}

	It("is not for tenants to write on a pod that has its node", func(ctx SpecContext) {
		w := newTestEnv(ctx, "forged-group", 1, "4")
		w.start(ctx, w.conf())
		bare := gang{name: "bare", size: 1, min: 1}
		w.submit(ctx, bare)
		group := together(w.name, []gang{{name: "x", size: 1, min: 1}, {name: "y", size: 1, min: 1}})
		w.submit(ctx, group[0])
		w.submit(ctx, group[1])
		w.seen.eventuallyRunning(bare)
		w.seen.eventuallyRunning(group[0])
		annotate := func(pod, annotation, value string) error {
			patch := []byte(fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, annotation, value))
			_, err := kube.CoreV1().Pods(w.name).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}
		for _, annotation := range annotations {
			create := func(scheduler, node string) error {
				pod := w.podOf(gang{name: "p"}, 0)
				pod.Annotations[annotation] = "2"
				pod.Spec.SchedulerName, pod.Spec.NodeName = scheduler, node
				_, err := kube.CoreV1().Pods(w.name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
			Eventually(func() error { return create("volcano", w.node(0)) }).Should(refused(), "a pod that comes with its node")
			Expect(create(corev1.DefaultSchedulerName, "")).To(refused(), "a pod that another scheduler binds")
			Expect(create("volcano", "")).To(Succeed(), "a copy of a pod of ours, whose annotation the bind replaces")

			Expect(annotate(bare.member(0), annotation, `"2"`)).To(MatchError(ContainSubstring(annotation)))
			member := group[0].member(0)
			Expect(w.seen.Pod(member).Annotations).To(HaveKey(annotation))
			Expect(annotate(member, annotation, `"3"`)).To(refused())
			Expect(annotate(member, "any", `"note"`)).To(Succeed(), "other changes go through")
			Expect(annotate(member, annotation, "null")).To(Succeed(), "it may be removed")
		}
	})
})

var _ = Describe("The devices that a pod was given", func() {
	It("are not for tenants to write on a pod that has its node", func(ctx SpecContext) {
		w := newTestEnv(ctx, "devices", 1, "2")
		const annotation = schedulingv1alpha1.DeviceAllocatedAnnotation
		create := func(scheduler, node string) error {
			pod := w.podOf(gang{name: "p"}, 0)
			pod.Annotations[annotation] = `{"gpu":[{"minor":0}]}`
			pod.Spec.SchedulerName, pod.Spec.NodeName = scheduler, node
			_, err := kube.CoreV1().Pods(w.name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		Eventually(func() error { return create("volcano", w.node(0)) }).Should(refused(), "a pod that comes with its node")
		Expect(create(corev1.DefaultSchedulerName, "")).To(refused(), "a pod that another scheduler binds")
		Expect(create("volcano", "")).To(Succeed(), "a copy of a pod of ours, whose annotation the bind replaces")

		annotate := func(pod, value string) error {
			patch := []byte(fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, annotation, value))
			_, err := kube.CoreV1().Pods(w.name).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}
		waiting := w.podOf(gang{name: "waiting"}, 0)
		waiting.Annotations[annotation] = `{"gpu":[{"minor":0}]}`
		waiting.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test/not-yet"}}
		waiting.Spec.SchedulerName = "volcano"
		_, err := kube.CoreV1().Pods(w.name).Create(ctx, waiting, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(annotate(waiting.Name, `"{}"`)).To(refused(), "another value while it waits")
		Expect(annotate(waiting.Name, "null")).To(Succeed(), "it may be removed while it waits")
		Expect(annotate(waiting.Name, `"{}"`)).To(refused(), "a value while it waits")

		w.start(ctx, w.conf())
		g := gang{name: "g", size: 1, min: 1}
		w.submit(ctx, g)
		w.seen.eventuallyRunning(g)
		Expect(annotate(g.member(0), `"{}"`)).To(refused())
		Expect(annotate(g.member(0), "null")).To(Succeed(), "what is not there")
	})
})

// claimMinimum annotates a pod as if it had been bound with that minimum.
func claimMinimum(ctx context.Context, namespace, pod, minimum string, dryRun ...string) error {
	patch := []byte(fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, binding.MinimumAnnotation, minimum))
	_, err := kube.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun})
	return err
}

// refused matches the rejection by the chart's policy.
func refused() OmegaMatcher {
	return MatchError(ContainSubstring("can be written by the scheduler only; leave it"))
}
