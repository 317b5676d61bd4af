// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

var _ = Describe("A volume that an administrator keeps for the next claim of a name, for its data", func() {
	It("is kept for it when the claim's pod is not bound, and no other claim gets it", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-data", 1)
		w.addVolume(ctx, "v", w.node(0))
		volume := func() corev1.PersistentVolume { return w.volumes(ctx)[0] }
		is := func(phase corev1.PersistentVolumePhase) {
			GinkgoHelper()
			Eventually(func() corev1.PersistentVolumePhase { return volume().Status.Phase }, controllersPatience).WithPolling(pollVolumes).Should(Equal(phase))
		}
		w.schedule(ctx, shortBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.local(), "g", 1)
		w.seen.eventuallyBound(g, 1)
		w.deleteGang(ctx, g)
		Expect(kube.CoreV1().PersistentVolumeClaims(w.name).Delete(ctx, "g-0", metav1.DeleteOptions{})).To(Succeed())
		is(corev1.VolumeReleased)
		_, err := kube.CoreV1().PersistentVolumes().Patch(ctx, volume().Name, types.MergePatchType,
			[]byte(`{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		is(corev1.VolumeAvailable)

		By("not binding it in time")
		resume := pauseControllers()
		g = w.submitWithClaims(ctx, w.local(), "g", 1)
		Eventually(func() types.UID { return volume().Spec.ClaimRef.UID }).WithPolling(pollVolumes).ShouldNot(BeEmpty())
		w.seen.eventuallyFailed(g, "PreBindFailed", `claim "g-0"`, "no volume was bound within 2s")
		w.deleteGang(ctx, g)
		Eventually(func() types.UID { return volume().Spec.ClaimRef.UID }).WithPolling(pollVolumes).Should(BeEmpty())
		Expect(volume().Spec.ClaimRef.Name).To(Equal("g-0"))
		resume()

		By("having another gang wait")
		next := w.submitWithClaims(ctx, w.local(), "next", 1)
		w.seen.eventuallyFailed(next, "NotEnoughResources", "can neither offer nor provision a volume", `claim "next-0"`)
		Expect(w.seen.everBound(next)).To(BeZero())
		g = required(withClaims(gang{name: "g", size: 1, min: 1}))
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 1)
		w.expectSettled(ctx, g, next)
	})
})
