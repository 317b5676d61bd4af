// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// ledger records which devices are allocated, both in allocations that informers show and in assumed allocations. It is updated
// with each change and never recomputed. The mutex of devices guards it.
type ledger struct {
	claims map[types.UID]*entry
	// users counts, for each device, the claims that have the device exclusively.
	users map[structured.DeviceID]int
	// consumed is the capacity that claims use of devices that several claims may share. shares are the parts of these devices
	// that claims have.
	consumed structured.ConsumedCapacityCollection
	shares   map[structured.DeviceID]sets.Set[structured.SharedDeviceID]
	// consumable reports whether the feature gate is on with which several claims may share a device.
	consumable bool
	// changes is increased each time a claim's devices change.
	changes int64
}

// entry is the record of a claim. shown is the allocation that informers last showed, assumed the assumed allocation; nil for
// none.
type entry struct {
	shown, assumed *resourceapi.AllocationResult
	// version is the resource version of the claim that informers last showed.
	version int64
	// written is the version of the claim that the plugin wrote last; nil once informers show this version or a later one.
	written *resourceapi.ResourceClaim
}

// stored returns the claim's last known allocation at the API server; nil if it is not allocated there.
func (e *entry) stored() *resourceapi.AllocationResult {
	if e.written != nil {
		return e.written.Status.Allocation
	}
	return e.shown
}

// has returns the claim's allocations: the assumed allocation, and the stored allocation if its devices differ.
func (e *entry) has() []*resourceapi.AllocationResult {
	var has []*resourceapi.AllocationResult
	if e.assumed != nil {
		has = append(has, e.assumed)
	}
	if stored := e.stored(); stored != nil && (e.assumed == nil || !sameDevices(stored, e.assumed)) {
		has = append(has, stored)
	}
	return has
}

func newLedger(consumable bool) *ledger {
	return &ledger{
		claims: map[types.UID]*entry{}, users: map[structured.DeviceID]int{}, consumed: structured.NewConsumedCapacityCollection(),
		shares: map[structured.DeviceID]sets.Set[structured.SharedDeviceID]{}, consumable: consumable,
	}
}

// change updates the claim's entry with the function mutate, and updates the counts of allocated devices if the claim's devices
// change.
func (l *ledger) change(claim types.UID, mutate func(*entry)) {
	e := l.claims[claim]
	if e == nil {
		e = &entry{}
	}
	before := e.has()
	mutate(e)
	if after := e.has(); !slices.EqualFunc(before, after, sameDevices) {
		l.changes++
		l.count(before, -1)
		l.count(after, 1)
	}
	l.claims[claim] = e
	if *e == (entry{}) {
		delete(l.claims, claim)
	}
}

// shows records the claim as informers show it. It ignores a version that is older than the recorded version.
func (l *ledger) shows(claim *resourceapi.ResourceClaim) {
	l.change(claim.UID, func(e *entry) {
		version := versionOf(claim)
		if version < e.version {
			return
		}
		e.shown, e.version = claim.Status.Allocation, version
		if e.written != nil && version >= versionOf(e.written) {
			e.written = nil
		}
	})
}

// gone records that the claim was deleted.
func (l *ledger) gone(claim types.UID) {
	l.change(claim, func(e *entry) { *e = entry{} })
}

// assume sets the claim's assumed allocation; nil removes it. It returns the previous assumed allocation.
func (l *ledger) assume(claim types.UID, allocation *resourceapi.AllocationResult) (before *resourceapi.AllocationResult) {
	l.change(claim, func(e *entry) { before, e.assumed = e.assumed, allocation })
	return before
}

// wrote records a version of the claim that the plugin wrote, unless informers have already shown this version or a later one.
func (l *ledger) wrote(claim *resourceapi.ResourceClaim) {
	l.change(claim.UID, func(e *entry) {
		if version := versionOf(claim); version > e.version && (e.written == nil || version > versionOf(e.written)) {
			e.written = claim
		}
	})
}

// latest returns the latest known version of the claim: the version that informers show, or a later version that the plugin
// wrote.
func (l *ledger) latest(shown *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	if e := l.claims[shown.UID]; e != nil && e.written != nil {
		return e.written
	}
	return shown
}

func versionOf(claim *resourceapi.ResourceClaim) int64 {
	version, err := strconv.ParseInt(claim.ResourceVersion, 10, 64)
	if err != nil {
		return 1 // without a valid version the order does not matter
	}
	return version
}

func (l *ledger) count(allocations []*resourceapi.AllocationResult, by int) {
	for _, allocation := range allocations {
		l.countResults(allocation, by)
	}
}

func (l *ledger) countResults(allocation *resourceapi.AllocationResult, by int) {
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if l.consumable && result.ShareID != nil {
			l.countShare(id, result, by)
			continue
		}
		if l.users[id] += by; l.users[id] == 0 {
			delete(l.users, id)
		}
	}
}

func (l *ledger) countShare(id structured.DeviceID, result *resourceapi.DeviceRequestAllocationResult, by int) {
	share, consumed := structured.MakeSharedDeviceID(id, result.ShareID), structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity)
	if by > 0 {
		if l.shares[id] == nil {
			l.shares[id] = sets.New[structured.SharedDeviceID]()
		}
		l.shares[id].Insert(share)
		l.consumed.Insert(consumed)
		return
	}
	if l.shares[id].Delete(share); l.shares[id].Len() == 0 {
		delete(l.shares, id)
	}
	l.consumed.Remove(consumed)
}

// sameDevices reports whether both allocations have the same devices and node selector. They may differ in the time of the
// allocation.
func sameDevices(l, r *resourceapi.AllocationResult) bool {
	return l == r || equality.Semantic.DeepEqual(l.Devices, r.Devices) && equality.Semantic.DeepEqual(l.NodeSelector, r.NodeSelector)
}

// state returns which of the given devices are allocated, as if the held claims in without had no assumed allocations. The caller
// may change the result.
func (l *ledger) state(of []structured.DeviceID, without []*assumedClaim) structured.AllocatedState {
	assumed, changes := make([]*resourceapi.AllocationResult, len(without)), l.changes
	for i, held := range without {
		assumed[i] = l.assume(held.claim.UID, nil)
	}
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, id := range of {
		if l.users[id] > 0 {
			state.AllocatedDevices.Insert(id)
		}
		if consumed, ok := l.consumed[id]; ok {
			state.AggregatedCapacity[id] = consumed.Clone()
		}
		for share := range l.shares[id] {
			state.AllocatedSharedDeviceIDs.Insert(share)
		}
	}
	for i, held := range without {
		l.assume(held.claim.UID, assumed[i])
	}
	l.changes = changes // the assumed allocations are as they were
	return state
}

// free reports whether no claim has one of the allocation's devices exclusively.
func (l *ledger) free(allocation *resourceapi.AllocationResult) bool {
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		if ptr.Deref(result.AdminAccess, false) || l.consumable && result.ShareID != nil {
			continue
		}
		if l.users[structured.MakeDeviceID(result.Driver, result.Pool, result.Device)] > 0 {
			return false
		}
	}
	return true
}
