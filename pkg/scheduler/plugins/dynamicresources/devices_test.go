// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAnAPIServerWithoutClaims checks that the configuration is rejected if the API server does not serve
// ResourceClaims.
func TestAnAPIServerWithoutClaims(t *testing.T) {
	kube := kubefake.NewClientset() // serves no API group
	_, err := Spec().New(nil, handle{kube: kube, factory: informers.NewSharedInformerFactory(kube, time.Hour)})
	if err == nil || err.Error() != "plugin dynamicresources: the API server does not serve resource.k8s.io/v1, which needs Kubernetes 1.34 or later; remove the plugin from the configuration, or upgrade Kubernetes" {
		t.Errorf("got %v", err)
	}
}

// TestAssumedAllocationsOutliveAConfiguration checks that all plugins of one Spec share the assumed allocations.
func TestAssumedAllocationsOutliveAConfiguration(t *testing.T) {
	run(t, gpus("n"), func(w *testCluster) {
		spec := Spec()
		if first := w.build(spec, nil); first.devices != w.build(spec, nil).devices {
			t.Error("two plugins of one Spec do not share their devices")
		}
	})
}

// TestBeforeAllIsRead checks that the plugin rejects pods with claims before all informers have synced.
func TestBeforeAllIsRead(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), made(p, "t", one())), func(w *testCluster) {
		late := w.build(Spec(), nil)
		late.devices.synced = append(late.devices.synced, func() bool { return false })
		w.session = newSession(late, nil, nil, waitsNever)
		if got, want := w.fits(p, "n"), errNotReady.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !w.session.couples("ns", w.claim("p-t")) {
			t.Error("before informers have synced, a result is cached for equal claims")
		}
	})
}

// TestDevicesThatSeveralClaimsHave checks that each claim uses a part of the device's capacity, and releases it.
func TestDevicesThatSeveralClaimsHave(t *testing.T) {
	card := schedtest.NodeDevices("n", "card")
	card.Spec.Devices[0].AllowMultipleAllocations = new(true)
	card.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	part := one()
	part.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")}}
	rest := *part.DeepCopy()
	rest.Exactly.Capacity.Requests["memory"] = resource.MustParse("2Gi")
	p0, p1, p2, p3 := member("p0", "made t"), member("p1", "made t"), member("p2", "made t"), member("p3", "made t")
	objects := append(someNodes("n"), schedtest.DeviceClass("gpu"), runtime.Object(card), made(p0, "t", part), made(p1, "t", part), made(p2, "t", part), made(p3, "t", rest))
	run(t, objects, func(w *testCluster) {
		w.plugin.devices.catalog.features.ConsumableCapacity, w.plugin.devices.ledger.consumable = true, true
		w.mustPlace(p0, "n")
		w.mustPlace(p1, "n")
		if got := w.fits(p2, "n"); got == "" {
			t.Error("a third claim fits, want it rejected")
		}
		w.mustPreBind(p0)
		if got := w.fits(p3, "n"); got != "" {
			t.Errorf("a written allocation counts twice: %s", got)
		}
		w.plugin.bound(t.Context(), p0, "n")
		if got := w.fits(p2, "n"); got == "" {
			t.Error("a written allocation no longer counts")
		}
		w.rollBack(p1)
		w.mustPlace(p2, "n")
		w.take(p2)
		w.change("p0-t", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
		w.nothingAssumed()
	})
}

// TestDevicesThatCome checks that new devices are used by the next session, and that the current session's result does
// not change.
func TestDevicesThatCome(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), someNodes("m")[0], made(p, "t", one())), func(w *testCluster) {
		if w.fits(p, "m") == "" {
			t.Fatal("node m has devices, want none")
		}
		if err := w.kube.Tracker().Add(schedtest.NodeDevices("m", "gpu-0")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w.fits(p, "m") == "" {
			t.Error("the filter's result changed within a session")
		}
		w.session = newSession(w.plugin, nil, nil, waitsNever) // a session of the same nodes
		if got := w.fits(p, "m"); got != "" {
			t.Errorf("the next session does not use the new devices: %s", got)
		}
	})
}

// TestAPoolThatHasADeviceTwice checks that no device of a pool with duplicate devices is allocated, and that no claim
// gets all devices while such a pool exists.
func TestAPoolThatHasADeviceTwice(t *testing.T) {
	broken := schedtest.NodeDevices("n", "gpu-7", "gpu-7")
	broken.Name, broken.Spec.Pool.Name = "broken", "broken"
	all := schedtest.DeviceRequest("r", "gpu", 0)
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	p0, p1, p2 := member("p0", "made t"), member("p1", "made t"), member("p2", "made t")
	run(t, append(gpus("n"), broken, made(p0, "t", schedtest.DeviceRequest("r", "gpu", 2)), made(p1, "t", all), made(p2, "t", schedtest.DeviceRequest("r", "gpu", 3))), func(w *testCluster) {
		if got := w.fits(p1, "n"); !strings.Contains(got, "asks for all devices, but resource pool dra.example.com/broken is currently invalid") {
			t.Errorf("for a claim of all devices, got %q", got)
		}
		if w.fits(p2, "n") == "" {
			t.Error("devices of the invalid pool are allocated")
		}
		w.mustPlace(p0, "n")
	})
}

// TestANodeThatGetsALabel checks that a node with a new label reaches devices for nodes with that label.
func TestANodeThatGetsALabel(t *testing.T) {
	p := member("p", "made t")
	network := schedtest.NodeDevices("network", "nic")
	network.Spec.NodeName, network.Spec.NodeSelector = nil, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "wired", Operator: v1.NodeSelectorOpExists}}}}}
	run(t, append(someNodes("n"), schedtest.DeviceClass("gpu"), network, made(p, "t", one())), func(w *testCluster) {
		if w.fits(p, "n") == "" {
			t.Fatal("the node reaches devices for nodes with another label")
		}
		w.open()
		wired := schedtest.MakeNode().Name("n").Label("wired", "yes").Obj()
		w.nodes["n"] = api.NewNodeInfo(wired)
		if got := w.fits(p, "n"); got != "" {
			t.Error(got)
		}
	})
}

// TestNodesThatComeAndGo checks that the cached reach of deleted nodes is dropped, even if no device changes.
func TestNodesThatComeAndGo(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), made(p, "t", one())), func(w *testCluster) {
		for i := range 100 {
			w.open()
			node := api.NewNodeInfo(schedtest.MakeNode().Name(fmt.Sprint("n-", i)).Obj())
			if err := w.session.predicate(p, node); err == nil {
				t.Fatal("a pod with a claim fits a node without devices")
			}
		}
		if n := len(w.plugin.devices.inventory.views); n > 2 {
			t.Errorf("the reach of %d nodes is cached, want at most 2", n)
		}
	})
}
