// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
)

var _ = Describe("A gang with a device each", func() {
	It("is bound with claims that were made from a template, or nothing of it is left allocated or reserved", func(ctx SpecContext) {
		w := newDeviceEnv(ctx, "dra", 2, 2)
		proxy := startProxy()
		refused := proxy.Add(faultproxy.Rule{
			Method: http.MethodPut, Path: "/resourceclaims/g-1-" + deviceTemplate + "-[a-z0-9]+/status", Action: faultproxy.Answer(http.StatusForbidden, 0),
		})
		w.schedule(ctx, controlplane.SchedulerOptions{Server: proxy.URL()})
		g := withDevice(gang{name: "g", size: 3, min: 3, cpu: "500m"})
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", `claim "g-1-`, `request "gpu"`, `class "`+w.name+`"`)
		Expect(refused.Hits()).NotTo(BeZero())
		Eventually(func() []string { return w.leftOf(ctx) }).WithPolling(pollVolumes).Should(BeEmpty())
		Expect(w.seen.everBound(g)).To(BeZero())

		By("being bound once the claim can be written")
		proxy.Clear()
		w.seen.eventuallyBound(g, 3)
		w.seen.eventuallyRunning(g)
		w.expectDevicesOf(ctx, g)

		By("saying which claims there is no device for, until there is one")
		next := withDevice(gang{name: "next", size: 2, min: 2, cpu: "500m"})
		w.submit(ctx, next)
		w.seen.eventuallyFailed(next, "NotEnoughResources", `claim "next-`, `request "gpu"`, `class "`+w.name+`"`, "without a free device")
		w.deleteGang(ctx, g)
		w.seen.eventuallyBound(next, 2)
		w.expectDevicesOf(ctx, next)
	})
})

var _ = Describe("A gang whose devices others have", func() {
	It("gets those of as many pods of low priority as it needs", func(ctx SpecContext) {
		w := newDeviceEnv(ctx, "dra-evict", 2, 2)
		w.startWith(ctx, controlplane.SchedulerOptions{Conf: w.confWith("enqueue, allocate, preempt, backfill", "", "first") + "- plugins:\n  - name: dynamicresources\n"})
		low := withDevice(gang{name: "low", size: 4, min: 1, cpu: "500m", priority: "e2e-low"})
		w.submit(ctx, low)
		w.seen.eventuallyBound(low, 4)
		w.seen.eventuallyRunning(low)
		high := withDevice(gang{name: "high", size: 2, min: 2, cpu: "500m", priority: "e2e-high"})
		w.submit(ctx, high)
		w.seen.eventuallyBound(high, 2)
		w.seen.eventuallyRunning(high)
		w.expectDevicesOf(ctx, high)
		Expect(w.seen.bound(low)).To(Equal(2))
		w.seen.expectStagedAtomically(high, "first")
	})
})

// deviceTemplate is the name of the claim template, and of the claim in the pod.
const deviceTemplate = "gpu"

// deviceEnv is a testEnv with devices on its nodes, and a template of claims for one device.
type deviceEnv struct{ *testEnv }

func newDeviceEnv(ctx context.Context, name string, nodes, devices int) deviceEnv {
	GinkgoHelper()
	w := deviceEnv{newTestEnv(ctx, name, nodes, "4")}
	resources := kube.ResourceV1()
	driver := w.name + ".example.com"
	_, err := resources.DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range nodes {
		slice := &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: w.node(i)},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: driver, NodeName: new(w.node(i)), Pool: resourcev1.ResourcePool{Name: w.node(i), ResourceSliceCount: 1},
			},
		}
		for k := range devices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", k)})
		}
		_, err := resources.ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = resources.ResourceClaimTemplates(w.name).Create(ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: deviceTemplate},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: w.name}}}}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		for i := range nodes {
			Expect(resources.ResourceSlices().Delete(ctx, w.node(i), metav1.DeleteOptions{})).To(Succeed())
		}
		Expect(resources.DeviceClasses().Delete(ctx, w.name, metav1.DeleteOptions{})).To(Succeed())
	})
	return w
}

// schedule runs the test's scheduler with dynamicresources.
func (w deviceEnv) schedule(ctx context.Context, opts controlplane.SchedulerOptions) *controlplane.Scheduler {
	GinkgoHelper()
	opts.Conf = w.conf() + "- plugins:\n  - name: dynamicresources\n"
	return w.startWith(ctx, opts)
}

// withDevice gives each pod of the gang a claim from the template.
func withDevice(g gang) gang {
	g.pod = func(_ int, pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: deviceTemplate, ResourceClaimTemplateName: new(deviceTemplate)}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: deviceTemplate}}
	}
	return g
}

func (w deviceEnv) deviceClaims(ctx context.Context) []resourcev1.ResourceClaim {
	GinkgoHelper()
	list, err := kube.ResourceV1().ResourceClaims(w.name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return list.Items
}

// leftOf returns the names of claims that are allocated, reserved or protected by a finalizer.
func (w deviceEnv) leftOf(ctx context.Context) []string {
	var left []string
	for _, claim := range w.deviceClaims(ctx) {
		if claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 || len(claim.Finalizers) > 0 {
			left = append(left, fmt.Sprintf("%s: allocation %v, reserved for %v, finalizers %v", claim.Name, claim.Status.Allocation, claim.Status.ReservedFor, claim.Finalizers))
		}
	}
	return left
}

// expectDevicesOf expects each pod of the gang to have a device of its node that no other claim has.
func (w deviceEnv) expectDevicesOf(ctx context.Context, g gang) {
	GinkgoHelper()
	owners := map[string]string{}
	has := map[string]bool{}
	for _, claim := range w.deviceClaims(ctx) {
		if claim.Status.Allocation == nil {
			continue
		}
		Expect(claim.Status.Allocation.Devices.Results).To(HaveLen(1))
		result := claim.Status.Allocation.Devices.Results[0]
		device := result.Pool + "/" + result.Device
		Expect(owners).NotTo(HaveKey(device), "claim %s has the device of claim %s", claim.Name, owners[device])
		owners[device] = claim.Name
		for _, user := range claim.Status.ReservedFor {
			has[user.Name+" on "+result.Pool] = true
		}
	}
	for _, pod := range g.pods() {
		Expect(has).To(HaveKey(pod + " on " + w.seen.Pod(pod).Spec.NodeName))
	}
}
