// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestVerdictsAreTheAllocators compares the plugin's search on a node, which uses only the slices that the node reaches
// and cached results, with Kubernetes' allocator over all slices. Each allocation found is verified: the allocator must
// find it, too, if no other device is free.
func TestVerdictsAreTheAllocators(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newRandomCluster(random)
		for range 6 {
			claims, node := w.someClaims(random), w.nodes[random.IntN(len(w.nodes))]
			state := w.allocated()
			want, wantErr := w.oracle(node, claims, state, w.slices)
			got, err := w.search(node, claims)
			sound := got.allocations != nil
			switch {
			case wantErr != nil && sound:
				// The allocator may fail because a pool has duplicate devices. Without that pool it must find an
				// allocation, too.
				if again, againErr := w.oracle(node, claims, state, w.withoutTwice(node)); againErr != nil || again == nil {
					t.Fatalf("seed %d: found %v, but the allocator found nothing: %v", seed, got, wantErr)
				}
				outcomes["other pools"]++
			case wantErr == nil && err != nil && want != nil:
				t.Fatalf("seed %d: got error %v, but the allocator found %v", seed, err, want)
			case wantErr == nil && sound != (want != nil):
				// The two results may also differ because of a pool with duplicate devices. Without that pool, the
				// allocator must find an allocation exactly if the search found one.
				if again, againErr := w.oracle(node, claims, state, w.withoutTwice(node)); againErr != nil || (again != nil) != sound {
					t.Fatalf("seed %d: got %+v, but the allocator found %+v for %+v", seed, got, want, claims)
				}
			case wantErr != nil:
				outcomes["errors"]++
			case sound:
				outcomes["found"]++
			default:
				outcomes["none"]++
			}
			if sound {
				w.take(t, seed, node, claims, got.allocations, state)
			}
		}
	}
	for outcome, least := range map[string]int{"found": 100, "none": 100, "errors": 100, "other pools": 1} {
		if outcomes[outcome] < least {
			t.Errorf("too few cases of one outcome: %v", outcomes)
		}
	}
}

type randomCluster struct {
	devices *devices
	nodes   []*v1.Node
	slices  []*resourceapi.ResourceSlice
	taken   []*resourceapi.AllocationResult
	number  int
}

func newRandomCluster(random *rand.Rand) *randomCluster {
	classes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	_ = classes.Add(schedtest.DeviceClass("gpu"))
	_ = classes.Add(schedtest.DeviceClass("a", modelA))
	features := structured.Features{AdminAccess: true, PrioritizedList: true, DeviceStatus: true}
	// Features partitionable devices and device taints are not enabled together: Kubernetes' allocator does not give back
	// the counters of a device that it rejects for its taints, and which device it then chooses depends on the order of a map.
	features.PartitionableDevices = random.IntN(2) == 0
	features.DeviceTaints = !features.PartitionableDevices && random.IntN(2) == 0
	w := &randomCluster{devices: &devices{
		catalog:   catalog{classes: classLister{resourcelisters.NewDeviceClassLister(classes)}, features: features, compiled: newSelectorCache(cel.Features{})},
		inventory: newInventory(features.PartitionableDevices), ledger: newLedger(false),
	}}
	for i := range 3 {
		w.nodes = append(w.nodes, schedtest.MakeNode().Name(fmt.Sprint("n", i)).Label("zone", fmt.Sprint(i%2)).Obj())
	}
	for i := range 2 + random.IntN(6) {
		w.slices = append(w.slices, w.someSlice(random, i))
	}
	w.devices.inventory.update(w.slices[:len(w.slices)/2]) // update the inventory with the other slices
	w.devices.inventory.update(w.slices)
	return w
}

// someSlice returns a random slice: of one node or several, alone or with others in its pool, current or outdated.
func (w *randomCluster) someSlice(random *rand.Rand, i int) *resourceapi.ResourceSlice {
	var list []string
	for range 1 + random.IntN(3) {
		list = append(list, fmt.Sprintf("d%d model=%c", random.IntN(8), 'a'+random.IntN(2)))
	}
	slices.Sort(list)
	list = slices.CompactFunc(list, func(l, r string) bool { return l[:2] == r[:2] })
	node := w.nodes[random.IntN(len(w.nodes))].Name
	s := schedtest.NodeDevices(node, list...)
	s.Name, s.UID = fmt.Sprint("s", i), types.UID(fmt.Sprint(i))
	pool, generation := random.IntN(5), random.IntN(2)
	s.Spec.Pool = resourceapi.ResourcePool{Name: fmt.Sprint("pool", pool), Generation: int64(1 + generation), ResourceSliceCount: int64(1 + (pool+generation)%2)}
	selector := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint(random.IntN(2))}}}}}}
	switch random.IntN(5) {
	case 0:
		s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
	case 1:
		s.Spec.NodeName, s.Spec.NodeSelector = nil, selector
	case 2:
		s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, new(true)
		for k := range s.Spec.Devices {
			s.Spec.Devices[k].NodeName = &w.nodes[random.IntN(len(w.nodes))].Name
			if random.IntN(3) == 0 {
				s.Spec.Devices[k].NodeName, s.Spec.Devices[k].NodeSelector = nil, selector
			}
		}
	}
	if random.IntN(3) == 0 {
		w.addCounters(random, s)
	}
	for k := range s.Spec.Devices {
		if random.IntN(5) == 0 {
			s.Spec.Devices[k].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
	}
	return s
}

func (w *randomCluster) addCounters(random *rand.Rand, s *resourceapi.ResourceSlice) {
	memory := func(n int) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}}
	}
	s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: memory(2)}}
	for k := range s.Spec.Devices {
		s.Spec.Devices[k].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: memory(1 + random.IntN(2))}}
	}
}

func (w *randomCluster) someClaims(random *rand.Rand) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for range 1 + random.IntN(2) {
		w.number++
		var requests []resourceapi.DeviceRequest
		for r := range 1 + random.IntN(2) {
			requests = append(requests, someRequest(random, fmt.Sprint("r", r)))
		}
		claim := schedtest.DeviceClaim(fmt.Sprint("c", w.number), requests...)
		if !w.devices.catalog.features.PartitionableDevices && random.IntN(4) == 0 {
			claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName(schedtest.DeviceDriver + "/model"))}}
		}
		claims = append(claims, claim)
	}
	return claims
}

func someRequest(random *rand.Rand, name string) resourceapi.DeviceRequest {
	classes, selectors := []string{"gpu", "gpu", "a"}, []string{"true", modelA, modelB}
	request := schedtest.DeviceRequest(name, classes[random.IntN(3)], int64(1+random.IntN(3)), selectors[random.IntN(3)])
	exactly := request.Exactly
	if random.IntN(3) == 0 {
		exactly.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	}
	switch random.IntN(8) {
	case 0:
		exactly.AllocationMode, exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	case 1:
		exactly.AdminAccess = new(true)
	case 2, 3:
		next := someRequest(random, "next")
		// No second alternative requests all devices: the allocator would apply it only to the first device, and the
		// first alternative to all others.
		if next.Exactly == nil || next.Exactly.AdminAccess != nil || next.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
			break
		}
		sub := func(name string, e *resourceapi.ExactDeviceRequest) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: e.DeviceClassName, AllocationMode: e.AllocationMode, Count: e.Count, Selectors: e.Selectors, Tolerations: e.Tolerations}
		}
		return resourceapi.DeviceRequest{Name: name, FirstAvailable: []resourceapi.DeviceSubRequest{sub("best", exactly), sub("next", next.Exactly)}}
	}
	return request
}

// allocated returns all allocated devices, computed from the list of allocations.
func (w *randomCluster) allocated() structured.AllocatedState {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for _, allocation := range w.taken {
		for _, result := range allocation.Devices.Results {
			if !ptr.Deref(result.AdminAccess, false) {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
			}
		}
	}
	return state
}

// oracle returns the result of Kubernetes' allocator.
func (w *randomCluster) oracle(node *v1.Node, claims []*resourceapi.ResourceClaim, state structured.AllocatedState, of []*resourceapi.ResourceSlice) ([]resourceapi.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, w.devices.catalog.features, state, w.devices.catalog.classes, of, w.devices.catalog.compiled.Cache)
	if err != nil {
		return nil, err
	}
	found, err := allocator.Allocate(ctx, node, claims)
	if len(found) != len(claims) {
		return nil, err
	}
	return found, err
}

func (w *randomCluster) search(node *v1.Node, claims []*resourceapi.ResourceClaim) (found, error) {
	needs, err := w.devices.catalog.needsOf(claims)
	if err != nil {
		return found{}, err
	}
	search, err := w.devices.catalog.newSearch(context.Background(), w.devices.inventory.reach(node), claims, needs)
	if err != nil {
		return found{}, err
	}
	return search.solve(claims, w.devices.ledger.state(search.ids, nil))
}

// withoutTwice returns the slices that the node reaches, without those of pools with duplicate devices.
func (w *randomCluster) withoutTwice(node *v1.Node) []*resourceapi.ResourceSlice {
	var list []*resourceapi.ResourceSlice
	for _, s := range w.devices.inventory.reach(node).sound() {
		list = append(list, s.ResourceSlice)
	}
	return list
}

// take records the allocations as used. It first checks that the allocator finds them if no other device is free.
func (w *randomCluster) take(t *testing.T, seed uint64, node *v1.Node, claims []*resourceapi.ResourceClaim, allocations []resourceapi.AllocationResult, state structured.AllocatedState) {
	t.Helper()
	chosen := sets.New[structured.DeviceID]()
	all := false
	for i := range allocations {
		for _, result := range allocations[i].Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if !ptr.Deref(result.AdminAccess, false) && state.AllocatedDevices.Has(id) {
				t.Fatalf("seed %d: %s is allocated twice", seed, id)
			}
			chosen.Insert(id)
			all = all || result.AdminAccess != nil // devices with admin access may also have other users
		}
		all = all || wantsAll(claims[i:i+1]) || len(claims[i].Spec.Devices.Requests) > 1
		w.devices.ledger.assume(claims[i].UID, &allocations[i])
		w.taken = append(w.taken, &allocations[i])
	}
	if all || w.devices.catalog.features.PartitionableDevices { // other allocated devices use the same counters
		return
	}
	only := structured.AllocatedState{AllocatedDevices: state.AllocatedDevices.Clone(), AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs, AggregatedCapacity: state.AggregatedCapacity}
	for _, s := range w.devices.inventory.reach(node).all() {
		for _, id := range s.ids {
			if !chosen.Has(id) {
				only.AllocatedDevices.Insert(id)
			}
		}
	}
	if len(w.oracleDevices(node, claims, only)) != chosen.Len() {
		t.Fatalf("seed %d: devices %v do not satisfy claims %v", seed, chosen, claims)
	}
}

func (w *randomCluster) oracleDevices(node *v1.Node, claims []*resourceapi.ResourceClaim, state structured.AllocatedState) sets.Set[structured.DeviceID] {
	found, err := w.oracle(node, claims, state, w.withoutTwice(node))
	ids := sets.New[structured.DeviceID]()
	if err != nil {
		return ids
	}
	for i := range found {
		for _, result := range found[i].Devices.Results {
			ids.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
		}
	}
	return ids
}
