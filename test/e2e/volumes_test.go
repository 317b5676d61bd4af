// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

const (
	// pollVolumes is how often specs list claims and volumes.
	pollVolumes = 100 * time.Millisecond
	// longBinding and shortBinding are timeouts of volume binding in seconds. The first is longer than any spec, the
	// second is short.
	longBinding, shortBinding = 600, 2
	// atOnce is the time in which a gang must be retried after its cause to wait has ended. It is less than a period
	// or a heartbeat.
	atOnce = 5 * time.Second
)

var _ = Describe("A gang with a claim each", func() {
	It("lands whole in the InfiniBand cluster that has the volumes, and waits for them otherwise", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-local", 2, 3)
		// Cluster a is the tighter one, and lacks a volume.
		for i, node := range []int{0, 0, 1, 2, 2, 3, 4} {
			w.addVolume(ctx, fmt.Sprint(i), w.node(node))
		}
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{Args: []string{"--schedule-period=1m"}})
		g := w.submitWithClaims(ctx, w.local(), "g", 4)
		w.seen.eventuallyIn(g, 4, "b")
		w.seen.eventuallyRunning(g)

		By("saying which claims there is no volume for")
		next := w.submitWithClaims(ctx, w.local(), "next", 4)
		w.seen.eventuallyFailed(next, "NotEnoughResources", "a 3/4", "b 0/4", "can neither offer nor provision a volume", `claim "next-`, `(storage class "`+w.local()+`")`)
		w.expectSettled(ctx, g, next)

		By("being tried again at once when the last volume is there")
		w.addVolume(ctx, "last", w.node(1))
		Eventually(func() int { return w.seen.bound(next) }, atOnce).Should(Equal(4))
		Expect(w.seen.clustersOf(next)).To(Equal([]string{"a"}))
		w.expectSettled(ctx, g, next)
	})

	It("moves to another cluster when its volumes cannot be made in the first, and nothing is left selected", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-move", 2, 3)
		for _, node := range []int{0, 1} {
			w.plugins.order(control.Provisioner, w.node(node), control.Fail)
		}
		w.schedule(ctx, shortBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.made(), "g", 6)
		w.seen.eventuallyIn(g, 6, "b")
		w.seen.eventuallyRunning(g)
		for _, nodes := range w.plugins.provisioned(control.OK) {
			Expect(w.seen.clustersOfNodes(nodes)).To(Equal([]string{"b"}))
		}
		Expect(w.plugins.provisioned(control.Error)).NotTo(BeEmpty(), "claims that were refused in cluster a")
		w.expectSettled(ctx, g)
	})

	It("stays in the cluster of the volumes that were made when those of some members cannot be made on their node", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-node", 3, 4)
		w.plugins.order(control.Provisioner, w.node(1), control.Fail)
		w.schedule(ctx, shortBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.made(), "g", 8)
		w.seen.eventuallyIn(g, 8, "a")
		w.expectSettled(ctx, g)
	})

	It("reports what it waits for in the cluster that has some of its volumes, and is placed there once the others can be created", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-part", 2, 2)
		w.plugins.order(control.Provisioner, w.node(1), control.Fail)
		w.schedule(ctx, shortBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.made(), "g", 8)
		w.seen.eventuallyFailed(g, "PreBindFailed", "node "+w.node(1), `claim "g-`, `storage class "`+w.made()+`"`, "no volume was bound within 2s")

		By("saying that the other cluster does not reach the volumes when that one has no room")
		patchNode(ctx, w.node(1), `{"spec":{"unschedulable":true}}`)
		w.seen.eventuallyFailed(g, "NotEnoughResources", "a 4/8", "b 4/8", "cannot access the volume of claim \"g-", `storage class "`+w.made()+`"`)
		Expect(w.seen.everBound(g)).To(BeZero())
		w.expectSettled(ctx, g)

		w.plugins.revoke(control.Provisioner, w.node(1), control.Fail)
		patchNode(ctx, w.node(1), `{"spec":{"unschedulable":false}}`)
		w.seen.eventuallyIn(g, 8, "a")
		w.expectSettled(ctx, g)
	})

	It("is tried on other nodes at once when the provisioner asks for that", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-ask", 2, 3)
		for _, node := range []int{0, 1} {
			w.plugins.order(control.Provisioner, w.node(node), control.Reschedule)
		}
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.made(), "g", 6)
		w.seen.eventuallyIn(g, 6, "b")
		w.expectSettled(ctx, g)
	})

	It("follows the volumes that are ready after it was rolled back", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-late", 4)
		w.plugins.order(control.Provisioner, control.Anything, control.Hang)
		w.schedule(ctx, shortBinding, controlplane.SchedulerOptions{})
		g := w.submitWithClaims(ctx, w.made(), "g", 4)
		w.seen.eventuallyFailed(g, "PreBindFailed", `claim "g-`, `storage class "`+w.made(), "no volume was bound within 2s")
		begun := w.plugins.provisioned(control.Begin)
		Expect(begun).To(HaveLen(4))

		w.plugins.revoke(control.Provisioner, control.Anything, control.Hang)
		w.seen.eventuallyBound(g, 4)
		for _, pod := range g.pods() {
			Expect(w.plugins.provisioned(control.OK)[pod]).To(Equal(begun[pod][:1]), "nodes that volumes of claim %s were made on", pod)
			Expect(w.seen.Pod(pod).Spec.NodeName).To(Equal(begun[pod][0]), "node of pod %s", pod)
		}
		w.expectSettled(ctx, g)
	})
})

var _ = Describe("A claim that a gang shares", func() {
	It("is bound once", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-shared", 3)
		w.addVolume(ctx, "only", w.node(1))
		// A write of the volume controller after the scheduler has read the volume would make the scheduler write
		// again.
		w.eventuallyAvailable(ctx, 1)
		proxy := startProxy()
		var mu sync.Mutex
		var writes []string
		proxy.Add(faultproxy.Rule{
			Method: http.MethodPut, Path: "/" + w.name + "/persistentvolumeclaims/|/persistentvolumes/" + w.name,
			Match: func(r faultproxy.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				writes = append(writes, r.Path)
				return true
			},
		})
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{Server: proxy.URL()})
		for i, class := range []string{w.made(), w.local()} {
			claim := fmt.Sprintf("shared-%d", i)
			w.addClaims(ctx, class, claim)
			g := withClaim(gang{name: fmt.Sprintf("g%d", i), size: 3, min: 3, cpu: "500m"}, func(int) string { return claim })
			w.submit(ctx, g)
			w.seen.eventuallyBound(g, 3)
			w.seen.eventuallyRunning(g)
			w.expectSettled(ctx, g)
			mu.Lock()
			written := slices.Clone(writes)
			mu.Unlock()
			Expect(written).To(HaveLen(i+1), "writes of claims and volumes; history of the PodGroup: %v", w.seen.verdicts(g))
		}
		Expect(w.plugins.provisioned(control.Begin)["shared-0"]).To(HaveLen(1))
	})
})

var _ = Describe("A volume that is reserved for a claim which is deleted", func() {
	It("stays released when the volume controller has released it, which an event says, and is used again when an administrator frees it", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-released", 1)
		proxy := startProxy()
		w.addVolume(ctx, "v", w.node(0))
		is := func(phase corev1.PersistentVolumePhase, reserved bool) {
			GinkgoHelper()
			Eventually(func() bool {
				v := w.volumes(ctx)[0]
				return v.Status.Phase == phase && (v.Spec.ClaimRef != nil) == reserved
			}, controllersPatience).WithPolling(pollVolumes).Should(BeTrue(), "volume is %s, reserved %v", phase, reserved)
		}
		is(corev1.VolumeAvailable, false)
		// The volume controller returns without its memory. Otherwise it would bind the volume to the claim in its
		// former state.
		Expect(cp.Kill(controlplane.ControllerManager)).To(Succeed())
		restart := sync.OnceFunc(func() { Expect(cp.Restart(context.WithoutCancel(ctx), controlplane.ControllerManager)).To(Succeed()) })
		DeferCleanup(restart)
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{Server: proxy.URL()})
		g := w.submitWithClaims(ctx, w.local(), "g", 1)
		is(corev1.VolumeAvailable, true)

		By("keeping the scheduler from taking the reservation back until the controller is done")
		away := proxy.Add(faultproxy.Rule{Method: http.MethodGet, Path: "/persistentvolumes/" + w.name, Action: faultproxy.Answer(http.StatusInternalServerError, 0)})
		claims := kube.CoreV1().PersistentVolumeClaims(w.name)
		Expect(claims.Delete(ctx, "g-0", metav1.DeleteOptions{})).To(Succeed())
		_, err := claims.Patch(ctx, "g-0", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(away.Hits).Should(BeNumerically(">", 0))
		restart()
		is(corev1.VolumeReleased, true)
		away.Remove()
		name := w.volumes(ctx)[0].Name
		Eventually(func() []string { return eventsOn(ctx, name, "VolumeReleased") }).WithPolling(pollVolumes).Should(
			ConsistOf(SatisfyAll(ContainSubstring("claim "+w.name+"/g-0 was deleted"), ContainSubstring("remove spec.claimRef"))))
		is(corev1.VolumeReleased, true)

		By("having the administrator free it")
		_, err = kube.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		is(corev1.VolumeAvailable, false)
		w.addClaims(ctx, w.local(), "g-0")
		w.seen.eventuallyBound(g, 1)
		w.expectSettled(ctx, g)
	})
})

var _ = Describe("After a kill -9 of the scheduler", func() {
	It("between volumes being bound and pods being bound the next one binds the pods where their volumes are", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-kill-bind", 4)
		proxy := startProxy()
		held := proxy.Add(w.bindingsTo(".*", 0, faultproxy.Hold()))
		scheduler := w.schedule(ctx, longBinding, controlplane.SchedulerOptions{Server: proxy.URL()})
		g := w.submitWithClaims(ctx, w.made(), "g", 4)
		Eventually(held.Hits).Should(Equal(4))
		// The proxy still holds the requests: a killed scheduler's requests must not arrive.
		Expect(scheduler.Kill9()).To(Succeed())
		Expect(w.seen.everBound(g)).To(BeZero())
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		w.seen.eventuallyBound(g, 4)
		for claim, nodes := range w.plugins.provisioned(control.Begin) {
			Expect(nodes).To(Equal([]string{w.seen.Pod(claim).Spec.NodeName}), "nodes that claim %s was provisioned on", claim)
		}
		w.expectSettled(ctx, g)
	})

	It("while volumes are made the next one withdraws what it selected", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-kill-made", 4)
		w.plugins.order(control.Provisioner, control.Anything, control.Hang)
		scheduler := w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		stays, goes := w.submitWithClaims(ctx, w.made(), "stays", 4), w.submitWithClaims(ctx, w.made(), "goes", 4)
		Eventually(func() int { return len(w.plugins.provisioned(control.Begin)) }).Should(Equal(8))
		Expect(scheduler.Kill9()).To(Succeed())
		w.deleteGang(ctx, goes)
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		Eventually(func() (selected []string) {
			for _, claim := range w.claims(ctx) {
				if node := claim.Annotations[volume.AnnSelectedNode]; node != "" && claim.Spec.VolumeName == "" {
					selected = append(selected, claim.Name)
				}
			}
			return selected
		}).WithPolling(pollVolumes).ShouldNot(ContainElement(HavePrefix(goes.name)))
		w.plugins.revoke(control.Provisioner, control.Anything, control.Hang)
		w.seen.eventuallyBound(stays, 4)
		w.expectSettled(ctx, stays)
	})

	It("while volumes are reserved the next one frees them for others", func(ctx SpecContext) {
		w := newVolumeEnv(ctx, "vol-kill-local", 4)
		for i := range 4 {
			w.addVolume(ctx, fmt.Sprint(i), w.node(i))
		}
		reserved := func() (n int) {
			for _, v := range w.volumes(ctx) {
				if v.Spec.ClaimRef != nil {
					n++
				}
			}
			return n
		}
		w.eventuallyAvailable(ctx, 4)
		resume := pauseControllers()
		scheduler := w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		goes := w.submitWithClaims(ctx, w.local(), "goes", 4)
		Eventually(reserved).WithPolling(pollVolumes).Should(Equal(4))
		Expect(scheduler.Kill9()).To(Succeed())
		w.deleteGang(ctx, goes)
		w.schedule(ctx, longBinding, controlplane.SchedulerOptions{})
		Eventually(reserved).WithPolling(pollVolumes).Should(BeZero())
		resume()
		next := w.submitWithClaims(ctx, w.local(), "next", 4)
		w.seen.eventuallyBound(next, 4)
		w.expectSettled(ctx, next)
	})
})

// submitWithClaims creates a gang that requires one cluster, and a claim of the class for each of its pods.
func (w volumeEnv) submitWithClaims(ctx SpecContext, class, name string, size int) gang {
	GinkgoHelper()
	g := required(withClaims(gang{name: name, size: size, min: size}))
	w.addClaims(ctx, class, g.pods()...)
	w.submit(ctx, g)
	return g
}
