// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

var _ = Describe("A gang with GPUs and NICs", func() {
	It("is placed in the one cluster that has them together, and gets their names in the write that binds it", func(ctx SpecContext) {
		// By numbers the first cluster has enough: 35 of 40 GPUs and 20 NICs. But on 5 of its 20 PCIe switches a GPU
		// is in use.
		w := newBoardEnv(ctx, "board-gang", 5, 4)
		proxy := startProxy()
		writes := writesTo(proxy, "(g|filler-[0-9])-[0-9]+")
		w.schedule(ctx, proxy)
		for i := range 5 {
			filler := withGPU(fmt.Sprintf("filler-%d", i), w.node(i))
			w.submit(ctx, filler)
			w.seen.eventuallyBound(filler, 1)
		}
		g := onSwitches("g", 16)
		w.submit(ctx, g)
		w.seen.eventuallyIn(g, 16, "b")
		w.seen.eventuallyRunning(g)
		w.expectSwitches(g)
		w.expectNoDeviceTwice(ctx)
		w.expectDevicesWithNode(g)
		Expect(writes()).To(BeZero(), "writes beside the Bindings")

		By("waiting while all are taken, saying how many members fit where")
		next := onSwitches("next", 16)
		w.submit(ctx, next)
		w.seen.eventuallyFailed(next, "NotEnoughResources", "a 15/16", "b 0/16")
		w.deleteGang(ctx, g)
		w.seen.eventuallyIn(next, 16, "b")
		w.expectSwitches(next)
		w.expectNoDeviceTwice(ctx)
	})

	It("has none after a pre-bind that failed, and the next gang gets them", func(ctx SpecContext) {
		w := newBoardEnv(ctx, "board-failed", 1)
		w.schedule(ctx, nil, "first")
		g := onSwitches("g", 4)
		w.plugins.order("first", g.member(0), control.Fail)
		w.submit(ctx, g)
		w.seen.eventuallyFailed(g, "PreBindFailed", "pre-bind plugin first", g.member(0))
		Expect(w.seen.everBound(g)).To(BeZero())
		w.expectDevicesWithNode(g)
		w.deleteGang(ctx, g)

		next := onSwitches("next", 4) // all devices of the node
		w.submit(ctx, next)
		w.seen.eventuallyBound(next, 4)
		w.expectSwitches(next)
		w.expectNoDeviceTwice(ctx)
		w.expectDevicesWithNode(next)
	})

	It("moves when a GPU turns unhealthy between the decision and the bind", func(ctx SpecContext) {
		w := newBoardEnv(ctx, "board-unhealthy", 1, 1)
		w.schedule(ctx, nil, "first")
		g := onSwitches("g", 4)
		w.plugins.order("first", control.Anything, control.Hang)
		w.submit(ctx, g)
		for _, pod := range g.pods() {
			Eventually(func() int { return w.plugins.calls(control.PreBind, "first", pod) }).Should(Equal(1))
		}
		node := w.plugins.nodeOf(g.member(0))
		w.turnUnhealthy(ctx, node, 3)
		probe := withGPU("probe", node) // The pod shows when the scheduler has seen the change.
		w.submit(ctx, probe)
		Eventually(func() string { return w.seen.scheduled(probe.member(0)).Message }).Should(ContainSubstring("1 unhealthy"))
		w.plugins.revoke("first", control.Anything, control.Hang)

		w.seen.eventuallyBound(g, 4)
		Expect(w.seen.eventMessages("PodGroup", g.name)).To(And(ContainSubstring("pre-bind plugin deviceshare"), ContainSubstring("device gpu 3"), ContainSubstring("is unhealthy")))
		Expect(w.seen.clustersOf(g)).To(HaveLen(1))
		Expect(w.seen.EverBound()[g.member(0)]).NotTo(Equal(node))
		w.expectSwitches(g)
		w.expectDevicesWithNode(g)
	})
})

var _ = Describe("After a kill -9 of the scheduler, GPUs and NICs", func() {
	It("are those of the pods that were bound, and of no other pod", func(ctx SpecContext) {
		w := newBoardEnv(ctx, "board-kill", 2)
		proxy := startProxy()
		g := onSwitches("g", 8) // all devices of the nodes
		rule := w.bindingsTo("g-.*", 0, faultproxy.Hold())
		rule.Skip = 4
		held := proxy.Add(rule)
		scheduler := w.schedule(ctx, proxy)
		w.submit(ctx, g)
		w.seen.eventuallyBound(g, 4)
		Eventually(held.Hits).Should(Equal(4))
		// The proxy still holds the requests: a killed scheduler's requests must not arrive.
		Expect(scheduler.Kill9()).To(Succeed())
		other := onSwitches("other", 4)
		other.priority = "e2e-high"
		w.submit(ctx, other)
		Expect(w.seen.bound(g)).To(Equal(4))

		w.schedule(ctx, nil)
		w.seen.eventuallyBound(g, 8)
		w.seen.eventuallyRunning(g)
		w.expectSwitches(g)
		w.expectNoDeviceTwice(ctx)
		w.expectDevicesWithNode(g)
		Expect(w.seen.everBound(other)).To(BeZero())
		w.deleteGang(ctx, g)
		w.seen.eventuallyBound(other, 4)
		w.expectSwitches(other)
		w.expectNoDeviceTwice(ctx)
	})
})

var _ = Describe("A cluster without Device objects", func() {
	It("has pods scheduled that need none, reports to those that do, and has them scheduled when some exist", func(ctx SpecContext) {
		removeDeviceCRD(ctx)
		w := boardEnv{newTestEnv(ctx, "board-none", 1, "8"), deviceClient()}
		w.schedule(ctx, nil)
		plain, g := gang{name: "plain", size: 2, min: 2}, gang{name: "g", size: 4, min: 4, pod: onSwitches("", 0).pod}
		w.submit(ctx, g)
		w.submit(ctx, plain)
		w.seen.eventuallyBound(plain, 2)
		w.seen.eventuallyFailed(g, "NotEnoughResources", "without a Device object")
		Expect(w.seen.everBound(g)).To(BeZero())

		Expect(cp.InstallCRDs(ctx)).To(Succeed())
		w.publish(ctx, 1)
		// The scheduler requests an unserved kind again after pauses that grow.
		Eventually(func() int { return w.seen.bound(g) }, time.Minute).Should(Equal(4))
		w.expectSwitches(g)
	})
})

// removeDeviceCRD removes the CRD until the end of the spec.
func removeDeviceCRD(ctx context.Context) {
	GinkgoHelper()
	client, err := dynamic.NewForConfig(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "devices.scheduling.koordinator.sh"
	DeferCleanup(func(ctx SpecContext) { Expect(cp.InstallCRDs(ctx)).To(Succeed()) })
	Expect(crds.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	Eventually(func() bool {
		_, err := deviceClient().SchedulingV1alpha1().Devices().List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "Device objects are not served any more")
}
