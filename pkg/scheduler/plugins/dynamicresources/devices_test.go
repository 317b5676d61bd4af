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

// TestAnAPIServerWithoutClaims: the configuration is refused, and says why.
func TestAnAPIServerWithoutClaims(t *testing.T) {
	kube := kubefake.NewClientset() // which serves nothing
	_, err := Spec().New(nil, handle{kube: kube, factory: informers.NewSharedInformerFactory(kube, time.Hour)})
	if err == nil || err.Error() != "plugin dynamicresources: the API server does not serve resource.k8s.io/v1, which needs Kubernetes 1.34 or later; remove the plugin from the configuration, or upgrade Kubernetes" {
		t.Errorf("got %v", err)
	}
}

// TestAssumedAllocationsOutliveAConfiguration: another plugin of the Spec knows of it.
func TestAssumedAllocationsOutliveAConfiguration(t *testing.T) {
	run(t, gpus("n"), func(w *world) {
		spec := Spec()
		if first := w.build(spec, nil); first.devices != w.build(spec, nil).devices {
			t.Error("it does not")
		}
	})
}

// TestBeforeAllIsRead: nothing is said of devices by half of what there is.
func TestBeforeAllIsRead(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), made(p, "t", one())), func(w *world) {
		late := w.build(Spec(), nil)
		late.devices.synced = append(late.devices.synced, func() bool { return false })
		w.session = newSession(late, nil, nil)
		if got, want := w.fits(p, "n"), errNotReady.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !w.session.couples("ns", w.claim("p-t")) {
			t.Error("claims of which nothing is known are equal")
		}
	})
}

// TestDevicesThatSeveralClaimsHave: each takes of a capacity, and gives it back.
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
	run(t, objects, func(w *world) {
		w.plugin.devices.catalog.features.ConsumableCapacity, w.plugin.devices.ledger.consumable = true, true
		w.mustPlace(p0, "n")
		w.mustPlace(p1, "n")
		if got := w.fits(p2, "n"); got == "" {
			t.Error("there is room for a third")
		}
		w.mustPreBind(p0)
		if got := w.fits(p3, "n"); got != "" {
			t.Errorf("what is written counts twice: %s", got)
		}
		w.plugin.bound(t.Context(), p0, "n")
		if got := w.fits(p2, "n"); got == "" {
			t.Error("what was written is counted no more")
		}
		w.rollBack(p1)
		w.mustPlace(p2, "n")
		w.take(p2)
		w.change("p0-t", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
		w.nothingAssumed()
	})
}

// TestDevicesThatCome: the next session has them, and this one goes by what it has begun with.
func TestDevicesThatCome(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), someNodes("m")[0], made(p, "t", one())), func(w *world) {
		if w.fits(p, "m") == "" {
			t.Fatal("there are devices")
		}
		if err := w.kube.Tracker().Add(schedtest.NodeDevices("m", "gpu-0")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w.fits(p, "m") == "" {
			t.Error("a verdict has changed within a session")
		}
		w.session = newSession(w.plugin, nil, nil) // of the same nodes
		if got := w.fits(p, "m"); got != "" {
			t.Errorf("the next session does not know of them: %s", got)
		}
	})
}

// TestAPoolThatHasADeviceTwice: nothing is allocated from it, and no claim gets all devices while the pool exists.
func TestAPoolThatHasADeviceTwice(t *testing.T) {
	broken := schedtest.NodeDevices("n", "gpu-7", "gpu-7")
	broken.Name, broken.Spec.Pool.Name = "broken", "broken"
	all := schedtest.DeviceRequest("r", "gpu", 0)
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	p0, p1, p2 := member("p0", "made t"), member("p1", "made t"), member("p2", "made t")
	run(t, append(gpus("n"), broken, made(p0, "t", schedtest.DeviceRequest("r", "gpu", 2)), made(p1, "t", all), made(p2, "t", schedtest.DeviceRequest("r", "gpu", 3))), func(w *world) {
		if got := w.fits(p1, "n"); !strings.Contains(got, "asks for all devices, but resource pool dra.example.com/broken is currently invalid") {
			t.Errorf("all devices: got %q", got)
		}
		if w.fits(p2, "n") == "" {
			t.Error("devices of the pool are allocated")
		}
		w.mustPlace(p0, "n")
	})
}

// TestANodeThatGetsALabel reaches what is for nodes with that.
func TestANodeThatGetsALabel(t *testing.T) {
	p := member("p", "made t")
	network := schedtest.NodeDevices("network", "nic")
	network.Spec.NodeName, network.Spec.NodeSelector = nil, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "wired", Operator: v1.NodeSelectorOpExists}}}}}
	run(t, append(someNodes("n"), schedtest.DeviceClass("gpu"), network, made(p, "t", one())), func(w *world) {
		if w.fits(p, "n") == "" {
			t.Fatal("it reaches what it has no label for")
		}
		w.open()
		wired := schedtest.MakeNode().Name("n").Label("wired", "yes").Obj()
		w.nodes["n"] = api.NewNodeInfo(wired)
		if got := w.fits(p, "n"); got != "" {
			t.Error(got)
		}
	})
}

// TestNodesThatComeAndGo: what they reached is not kept, though devices stay as they are.
func TestNodesThatComeAndGo(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), made(p, "t", one())), func(w *world) {
		for i := range 100 {
			w.open()
			node := api.NewNodeInfo(schedtest.MakeNode().Name(fmt.Sprint("n-", i)).Obj())
			if err := w.session.predicate(p, node); err == nil {
				t.Fatal("a node without devices has some")
			}
		}
		if n := len(w.plugin.devices.inventory.seen); n > 2 {
			t.Errorf("what %d nodes reach is kept", n)
		}
	})
}
