// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestOutdatedPlan checks that no part of an outdated plan is assumed.
func TestOutdatedPlan(t *testing.T) {
	easy, onlyA := member("any", "made t"), member("only-a", "made t")
	changes := map[string]func(w *testCluster){
		"a device is taken":    func(w *testCluster) { w.plugin.devices.ledger.assume("another", allocationOf("n", "gpu-1")) },
		"what moves has begun": func(w *testCluster) { w.plugin.devices.beginPreBind(easy.Pod.UID, "n") },
		"what moves is gone":   func(w *testCluster) { w.take(easy) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), made(easy, "t", one()), made(onlyA, "t", one(modelA))), func(w *testCluster) {
				w.mustPlace(easy, "n")
				state, err := w.session.stateOf(onlyA.Pod)
				if err != nil {
					t.Fatal(err)
				}
				p, refused := w.session.planFor(onlyA.Pod, state, w.nodes["n"].Node, nil)
				if refused != nil || len(p.moves) != 1 {
					t.Fatalf("got %v, %v, want a plan with a move", p, refused)
				}
				change(w)
				if err := w.plugin.devices.assume(onlyA.Pod, p, w.session.round); err != errChanged {
					t.Errorf("got %v, want %v", err, errChanged)
				}
				want, gone := []string{"gpu-0"}, w.plugin.devices.assumed[easy.Pod.UID] == nil
				if gone {
					want = nil
				}
				if diff := cmp.Diff(want, w.devicesOf("any-t")); diff != "" {
					t.Errorf("devices (-want +got):\n%s", diff)
				}
				if free := w.plugin.devices.ledger.free(allocationOf("n", "gpu-0")); free != gone {
					t.Errorf("the devices of the member that should move are free: %v, want %v", free, gone)
				}
				w.plugin.devices.ledger.assume("another", nil)
				w.take(easy)
				w.nothingAssumed()
			})
		})
	}
}

// TestAPlanForAClaimThatOthersTakeOrLeave checks that a plan is rejected if another pod took or released the claim
// between the plan and the placement.
func TestAPlanForAClaimThatOthersTakeOrLeave(t *testing.T) {
	p0, p1 := member("p0", "c"), member("p1", "c")
	place := func(w *testCluster) { w.mustPlace(p0, "n") }
	cases := map[string]struct{ before, meanwhile func(w *testCluster) }{
		"who has it is leaving":  {place, func(w *testCluster) { w.plugin.devices.leave(p0.Pod.UID) }},
		"who had it is gone":     {place, func(w *testCluster) { w.take(p0) }},
		"somebody has it now":    {func(*testCluster) {}, place},
		"its device is taken":    {func(*testCluster) {}, func(w *testCluster) { w.plugin.devices.ledger.assume("another", allocationOf("n", "gpu-0")) }},
		"as it was, it is taken": {place, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), schedtest.DeviceClaim("c", one())), func(w *testCluster) {
				tc.before(w)
				state, err := w.session.stateOf(p1.Pod)
				if err != nil {
					t.Fatal(err)
				}
				p, refused := w.session.planFor(p1.Pod, state, w.nodes["n"].Node, nil)
				if refused != nil {
					t.Fatal(refused)
				}
				want := error(nil)
				if tc.meanwhile != nil {
					tc.meanwhile(w)
					want = errChanged
				}
				if err := w.plugin.devices.assume(p1.Pod, p, w.session.round); err != want {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		})
	}
}

// TestPartsThatOthersTakeMeanwhile checks that the remaining capacity of a device, or of the counters of its
// partitions, is computed again at the placement.
func TestPartsThatOthersTakeMeanwhile(t *testing.T) {
	amount := func(of string) map[resourceapi.QualifiedName]resource.Quantity {
		return map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(of)}
	}
	card := schedtest.NodeDevices("n", "card")
	card.Spec.Devices[0].AllowMultipleAllocations = new(true)
	card.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("10Gi")}}
	share := one()
	share.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: amount("4Gi")}
	taken := allocationOf("n", "card")
	taken.Devices.Results[0].ShareID, taken.Devices.Results[0].ConsumedCapacity = new(types.UID("share")), amount("8Gi")

	parts := schedtest.NodeDevices("n", "half-0", "half-1")
	for i := range parts.Spec.Devices {
		parts.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("5Gi")}}}}
	}
	parts.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("5Gi")}}}}
	cases := map[string]struct {
		slice   *resourceapi.ResourceSlice
		request resourceapi.DeviceRequest
		taken   *resourceapi.AllocationResult
	}{
		"of a device that several have":    {card, share, taken},
		"of counters that partitions have": {parts, one(), allocationOf("n", "half-1")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := member("p", "made t")
			run(t, append(someNodes("n"), schedtest.DeviceClass("gpu"), tc.slice, made(p, "t", tc.request)), func(w *testCluster) {
				d := w.plugin.devices
				d.catalog.features.ConsumableCapacity, d.catalog.features.PartitionableDevices, d.ledger.consumable = true, true, true
				state, err := w.session.stateOf(p.Pod)
				if err != nil {
					t.Fatal(err)
				}
				plan, refused := w.session.planFor(p.Pod, state, w.nodes["n"].Node, nil)
				if refused != nil {
					t.Fatal(refused)
				}
				d.ledger.assume("another", tc.taken)
				if err := d.assume(p.Pod, plan, w.session.round); err != errChanged {
					t.Errorf("got %v, want %v", err, errChanged)
				}
				if w.place(p, "n") == nil {
					t.Error("the task was placed without enough capacity")
				}
				d.ledger.assume("another", nil)
				w.mustPlace(p, "n")
				w.take(p)
				w.nothingAssumed()
			})
		})
	}
}
