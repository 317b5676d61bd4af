// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("A gang with claims", func() {
	It("has volumes made that live as long as its pods", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-ephemeral", 2)
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		g := required(gang{name: "g", size: 3, min: 3, pod: func(_ int, pod *corev1.Pod) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec(w.made())}},
			}})
		}})
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 3)
		w.seen.eventuallyRunning(g)
		w.expectSettled(ctx, g)
		Expect(w.claims(ctx)).To(HaveLen(3))
	})

	It("reports which claim keeps it from every node, and is placed when that changes", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-verdict", 1)
		w.class(ctx, "now", func(class *storagev1.StorageClass) {
			class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
		})
		w.class(ctx, "zoned", func(class *storagev1.StorageClass) { class.AllowedTopologies = hosts("elsewhere") })
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		waits := func(name string, words ...string) gang {
			g := withClaims(gang{name: name, size: 1, min: 1, cpu: "100m"})
			w.submit(ctx, g)
			Eventually(func() string {
				if condition := w.seen.unschedulable(g); condition != nil {
					return condition.Message
				}
				return ""
			}, atOnce).Should(And(containAll(words)...), "what gang %s is told", name)
			return g
		}

		By("missing claim")
		missing := waits("missing", `claim "missing-0"`, "does not exist")
		w.addClaims(ctx, w.made(), missing.pods()...)
		w.seen.eventuallyBound(missing, 1)

		By("missing class")
		w.addClaims(ctx, w.name+"-later", "classless-0")
		classless := waits("classless", `claim "classless-0"`, `storage class "`+w.name+`-later"`, "does not exist")
		w.class(ctx, "later", func(*storagev1.StorageClass) {})
		w.seen.eventuallyBound(classless, 1)

		By("a class that binds at once, and has nobody who does")
		w.addClaims(ctx, w.name+"-now", "immediate-0")
		immediate := waits("immediate", `claim "immediate-0"`, `storage class "`+w.name+`-now"`, "with Immediate binding to be bound")
		w.addVolumeOf(ctx, w.name+"-now", "now", w.node(0))
		w.seen.eventuallyBound(immediate, 1)

		By("a class for other nodes")
		w.addClaims(ctx, w.name+"-zoned", "zoned-0")
		zoned := waits("zoned", "volume")
		Eventually(func() error {
			class, err := kube.StorageV1().StorageClasses().Get(ctx, w.name+"-zoned", metav1.GetOptions{})
			if err != nil {
				return err
			}
			class.AllowedTopologies = hosts(w.node(0))
			_, err = kube.StorageV1().StorageClasses().Update(ctx, class, metav1.UpdateOptions{})
			return err
		}).Should(Succeed())
		w.seen.eventuallyBound(zoned, 1)

		By("a claim that has lost its volume")
		volume := ""
		for _, claim := range w.claims(ctx) {
			if claim.Name == "immediate-0" {
				volume = claim.Spec.VolumeName
			}
		}
		w.deleteGang(ctx, immediate)
		Expect(kube.CoreV1().PersistentVolumes().Delete(ctx, volume, metav1.DeleteOptions{})).To(Succeed())
		// The protecting finalizer is added again as long as the object is not being deleted.
		_, err := kube.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() corev1.PersistentVolumeClaimPhase {
			claim, err := kube.CoreV1().PersistentVolumeClaims(w.name).Get(ctx, "immediate-0", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return claim.Status.Phase
		}, controllersPatience).WithPolling(pollVolumes).Should(Equal(corev1.ClaimLost))
		waits("immediate", `claim "immediate-0"`, `storage class "`+w.name+`-now"`, "has lost its volume")

		By("a claim that is being deleted")
		Expect(kube.CoreV1().PersistentVolumeClaims(w.name).Delete(ctx, "zoned-0", metav1.DeleteOptions{})).To(Succeed())
		w.submit(ctx, withClaim(gang{name: "late", size: 1, min: 1, cpu: "100m"}, func(int) string { return "zoned-0" }))
		Eventually(func() string {
			if condition := w.seen.unschedulable(gang{name: "late"}); condition != nil {
				return condition.Message
			}
			return ""
		}, atOnce).Should(And(ContainSubstring(`claim "zoned-0"`), ContainSubstring(`storage class "`+w.name+`-zoned"`), ContainSubstring("is being deleted")))
	})

	It("lies where its class allows volumes to be made", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-allowed", 2, 2)
		w.class(ctx, "zoned", func(class *storagev1.StorageClass) { class.AllowedTopologies = hosts(w.node(2), w.node(3)) })
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.name+"-zoned", "g", 8)
		w.seen.eventuallyIn(g, 8, "b")
		next := w.submitWithClaims(ctx, w.name+"-zoned", "next", 4)
		w.seen.eventuallyFailed(next, "NotEnoughResources", "a 0/4", "b 0/4", `can neither offer nor provision a volume for claim "next-`, `storage class "`+w.name+`-zoned"`)
		w.deleteGang(ctx, g)
		w.seen.eventuallyIn(next, 4, "b")
		w.expectSettled(ctx, next)
	})

	It("lies anywhere with volumes of a class without topology, and again with the same volumes", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-network", 2, 2)
		for i := range 4 {
			w.addVolumeOf(ctx, w.local(), fmt.Sprint(i), "")
		}
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.local(), "g", 4)
		w.seen.eventuallyIn(g, 4, "a")
		w.expectSettled(ctx, g)
		next := w.submitWithClaims(ctx, w.local(), "next", 1)
		w.seen.eventuallyFailed(next, "NotEnoughResources", "b 0/1", `can neither offer nor provision a volume for claim "next-0" (storage class "`+w.local()+`")`)
		w.deleteGang(ctx, g)
		for i := range 2 {
			patchNode(ctx, w.node(i), `{"spec":{"unschedulable":true}}`)
		}
		again := required(withClaims(gang{name: "g", size: 4, min: 4}))
		w.submit(ctx, again)
		w.seen.eventuallyIn(again, 4, "b")
		w.expectSettled(ctx, again, next)
	})

	It("is bound in the time that the configuration gives now, and a bad one changes nothing", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-reload", 2)
		scheduler := w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		reloads := func(result string) func() (string, error) {
			return func() (string, error) {
				text, err := scheduler.Metrics(ctx)
				return metric(string(text), `volcano_scheduler_conf_reloads_total{result="`+result+`"}`), err
			}
		}
		w.seen.eventuallyBound(w.submitWithClaims(ctx, w.made(), "before", 1), 1) // by the configuration with which it began
		Expect(scheduler.ReplaceConf(w.confBinding(shortBinding))).To(Succeed())
		Eventually(reloads("ok")).Should(Equal("1"))
		Expect(scheduler.ReplaceConf(w.confBinding(0))).To(Succeed())
		Eventually(reloads("error")).Should(Equal("1"))
		Eventually(func() string { return refusals(ctx, w.name) }).Should(ContainSubstring("volumebinding.bindTimeoutSeconds: found 0, want a whole number from 1 to 86400"))
		w.plugins.order(control.Provisioner, control.Anything, control.Hang)
		g := w.submitWithClaims(ctx, w.made(), "g", 2)
		w.seen.eventuallyFailed(g, "PreBindFailed", "no volume was bound within 2s")
		Expect(scheduler.ReplaceConf(w.confBinding(longBinding))).To(Succeed())
		Eventually(reloads("ok")).Should(Equal("2"))
		w.plugins.revoke(control.Provisioner, control.Anything, control.Hang)
		w.seen.eventuallyBound(g, 2)
		w.expectSettled(ctx, g)
	})

	It("has no more volumes on a node than their driver can attach, and is placed once it can", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-limits", 2)
		driver := w.made() + "-csi"
		_, err := kube.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) error {
			return kube.StorageV1().CSIDrivers().Delete(ctx, driver, metav1.DeleteOptions{})
		})
		w.class(ctx, "limited", func(class *storagev1.StorageClass) { class.Provisioner = driver })
		for i, limit := range []int32{1, 2} {
			addDriver(ctx, w.node(i), driver, limit)
		}
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.name+"-limited", "g", 3)
		w.seen.eventuallyBound(g, 3)
		w.expectSettled(ctx, g)
		next := w.submitWithClaims(ctx, w.name+"-limited", "next", 1)
		w.seen.eventuallyFailed(next, "NotEnoughResources", "attachable-volumes-csi-"+driver)
		Expect(kube.StorageV1().CSINodes().Delete(ctx, w.node(0), metav1.DeleteOptions{})).To(Succeed())
		addDriver(ctx, w.node(0), driver, 3)
		w.seen.eventuallyBound(next, 1)
		Expect(w.seen.Pod(next.member(0)).Spec.NodeName).To(Equal(w.node(0)))
		w.expectSettled(ctx, g, next)
	})

	It("lies in the zone of a volume that says no more than that", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-zone", 2)
		for i, zone := range []string{"z1", "z2"} {
			patchNode(ctx, w.node(i), `{"metadata":{"labels":{"topology.kubernetes.io/zone":"`+zone+`"}}}`)
		}
		w.addVolume(ctx, "zoned", w.node(1))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "g-0"}, Spec: claimSpec(w.local())}
		claim.Spec.VolumeName = w.name + "-zoned"
		_, err := kube.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.StrategicMergePatchType,
			[]byte(`{"metadata":{"labels":{"topology.kubernetes.io/zone":"z1"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = kube.CoreV1().PersistentVolumeClaims(w.name).Create(ctx, claim, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		g := required(withClaims(gang{name: "g", size: 1, min: 1}))
		w.submit(ctx, g)
		// The node that reaches the volume is not in its zone.
		w.seen.eventuallyFailed(g, "NotEnoughResources", "volume zone", "cannot access the volume of claim")
		patchNode(ctx, w.node(1), `{"metadata":{"labels":{"topology.kubernetes.io/zone":"z1"}}}`)
		w.seen.eventuallyBound(g, 1)
		Expect(w.seen.Pod("g-0").Spec.NodeName).To(Equal(w.node(1)))
		w.expectSettled(ctx, g)
	})

	It("with one ReadWriteOncePod claim for two pods has them one after the other", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-rwop", 1)
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		spec := claimSpec(w.made())
		spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		_, err := kube.CoreV1().PersistentVolumeClaims(w.name).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: spec}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		own := func(int) string { return "own" }
		g := withClaim(gang{name: "g", size: 2, min: 1}, own)
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 1)
		Consistently(func() int { return w.seen.bound(g) }).Should(Equal(1))
		first := g.member(0)
		if w.seen.Pod(first).Spec.NodeName == "" {
			first = g.member(1)
		}
		w.deletePod(ctx, first)
		w.seen.eventuallyBound(g, 1)
		together := withClaim(gang{name: "together", size: 2, min: 2}, own)
		w.submit(ctx, together)
		w.seen.eventuallyFailed(together, "NotEnoughResources", "is ReadWriteOncePod and in use by pod")
		Expect(w.seen.everBound(together)).To(BeZero())
	})
})

func containAll(words []string) []OmegaMatcher {
	var all []OmegaMatcher
	for _, word := range words {
		all = append(all, ContainSubstring(word))
	}
	return all
}

// hosts returns a topology of these nodes.
func hosts(nodes ...string) []corev1.TopologySelectorTerm {
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelHostname, Values: nodes}}}}
}

func claimSpec(class string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class,
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// addDriver sets the number of volumes that the CSI driver can attach to the node.
func addDriver(ctx context.Context, node, driver string, limit int32) {
	GinkgoHelper()
	_, err := kube.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, NodeID: node, TopologyKeys: []string{corev1.LabelHostname}, Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
		}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) error {
		return ignoreGone(kube.StorageV1().CSINodes().Delete(ctx, node, metav1.DeleteOptions{}))
	})
}

// class creates another class of the testEnv's provisioner until the end of the spec.
func (w volumeEnv) class(ctx context.Context, name string, change func(*storagev1.StorageClass)) {
	GinkgoHelper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name}, Provisioner: w.made(), VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	change(class)
	if *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		class.Provisioner = "kubernetes.io/no-provisioner"
	}
	_, err := kube.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(kube.StorageV1().StorageClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})).To(Succeed())
	})
}
