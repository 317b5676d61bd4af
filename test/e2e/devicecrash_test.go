// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
)

var _ = Describe("A device that a gang shares", func() {
	It("is allocated once, and its members are where it is", func(ctx SpecContext) {
		w := newDeviceEnv(ctx, "dra-shared", 2, 1)
		proxy := startProxy()
		writes := proxy.Add(faultproxy.Rule{Method: http.MethodPut, Path: "/resourceclaims/shared-[ab]/status"})
		w.schedule(ctx, controlplane.SchedulerOptions{Server: proxy.URL()})
		a, b := w.submitSharing(ctx, "a", 3), w.submitSharing(ctx, "b", 3)
		for _, g := range []gang{a, b} {
			w.seen.eventuallyBound(g, 3)
			w.seen.eventuallyRunning(g)
			w.expectDevicesOf(ctx, g)
			Expect(w.deviceClaim(ctx, "shared-"+g.name).Status.ReservedFor).To(HaveLen(3))
		}
		Expect(w.nodesOfClaims(ctx)).To(ConsistOf(w.node(0), w.node(1)))
		Expect(writes.Hits()).To(Equal(6), "writes of two claims, one of which allocates, for three pods each")

		By("waiting while all are taken, and following when one is free")
		c := w.submitSharing(ctx, "c", 3)
		w.seen.eventuallyFailed(c, "NotEnoughResources", `claim "shared-c"`, `request "gpu"`, "without a free device")
		w.deleteGang(ctx, a)
		w.seen.eventuallyBound(c, 3)
		w.expectDevicesOf(ctx, c)
	})

	It("keeps no gang of which a member cannot reserve it, and is free again", func(ctx SpecContext) {
		w := newDeviceEnv(ctx, "dra-refused", 1, 1)
		proxy := startProxy()
		// The first write allocates the claim, and the next two add members.
		refused := proxy.Add(faultproxy.Rule{
			Method: http.MethodPut, Path: "/resourceclaims/shared-g/status", Skip: 1, Action: faultproxy.Answer(http.StatusForbidden, 0), Limit: 1,
		})
		w.schedule(ctx, controlplane.SchedulerOptions{Server: proxy.URL()})
		g := w.submitSharing(ctx, "g", 3)
		w.seen.eventuallyFailed(g, "PreBindFailed", `claim "shared-g"`)
		Expect(refused.Hits()).To(Equal(1))
		w.seen.eventuallyBound(g, 3)
		w.expectDevicesOf(ctx, g)
	})
})

var _ = Describe("After a kill -9 of the scheduler, devices", func() {
	It("that were allocated to pods that were not bound yet are those of the pods that the next one binds", func(ctx SpecContext) {
		w := newDeviceEnv(ctx, "dra-kill-bind", 2, 2)
		proxy := startProxy()
		held := proxy.Add(w.bindingsTo(".*", 0, faultproxy.Hold()))
		scheduler := w.schedule(ctx, controlplane.SchedulerOptions{Server: proxy.URL()})
		g := withDevice(gang{name: "g", size: 4, min: 4, cpu: "500m"})
		w.submit(ctx, g)
		Eventually(held.Hits).Should(Equal(4))
		// The proxy still holds the requests: a killed scheduler's requests must not arrive.
		Expect(scheduler.Kill9()).To(Succeed())
		Expect(w.seen.everBound(g)).To(BeZero())
		w.schedule(ctx, controlplane.SchedulerOptions{})
		w.seen.eventuallyBound(g, 4)
		w.expectDevicesOf(ctx, g)
	})

	It("that were allocated to a part of a gang are taken back when the gang finds no room any more", func(ctx SpecContext) {
		w := newDeviceEnv(ctx, "dra-kill-part", 2, 2)
		proxy := startProxy()
		held := proxy.Add(faultproxy.Rule{
			Method: http.MethodPut, Path: "/resourceclaims/g-3-" + deviceTemplate + "-[a-z0-9]+/status", Action: faultproxy.Hold(),
		})
		scheduler := w.schedule(ctx, controlplane.SchedulerOptions{Server: proxy.URL()})
		g := withDevice(gang{name: "g", size: 4, min: 4, cpu: "500m"})
		w.submit(ctx, g)
		Eventually(held.Hits).Should(Equal(1))
		Eventually(func() int { return len(w.nodesOfClaims(ctx)) }).WithPolling(pollVolumes).Should(Equal(3), "claims that are allocated")
		Expect(scheduler.Kill9()).To(Succeed())
		patchNode(ctx, w.node(0), `{"spec":{"unschedulable":true}}`)
		w.schedule(ctx, controlplane.SchedulerOptions{})
		w.seen.eventuallyFailed(g, "NotEnoughResources")
		Eventually(func() []string { return w.leftOf(ctx) }).WithPolling(pollVolumes).Should(BeEmpty())

		patchNode(ctx, w.node(0), `{"spec":{"unschedulable":null}}`)
		w.seen.eventuallyBound(g, 4)
		w.expectDevicesOf(ctx, g)
	})
})

// submitSharing submits a gang whose pods share a claim, which has the gang's name.
func (w deviceEnv) submitSharing(ctx context.Context, name string, size int) gang {
	GinkgoHelper()
	claim := "shared-" + name
	_, err := kube.ResourceV1().ResourceClaims(w.name).Create(ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: w.name}},
		}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	g := gang{name: name, size: size, min: size, cpu: "500m"}
	g.pod = func(_ int, pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new(claim)}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
	w.submit(ctx, g)
	return g
}

func (w deviceEnv) deviceClaim(ctx context.Context, name string) *resourcev1.ResourceClaim {
	GinkgoHelper()
	claim, err := kube.ResourceV1().ResourceClaims(w.name).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return claim
}

// nodesOfClaims returns the nodes of the allocated devices, one for each claim.
func (w deviceEnv) nodesOfClaims(ctx context.Context) []string {
	GinkgoHelper()
	var nodes []string
	for _, claim := range w.deviceClaims(ctx) {
		if claim.Status.Allocation != nil {
			nodes = append(nodes, claim.Status.Allocation.Devices.Results[0].Pool)
		}
	}
	return nodes
}
