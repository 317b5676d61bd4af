// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// ledger records which devices are allocated, by stored and by assumed allocations. Each change of a claim updates the ledger, so
// it is never recomputed. devices.mu guards it.
type ledger struct {
	claims map[types.UID]*entry
	// users counts, for each device, the claims that have the device exclusively.
	users map[structured.DeviceID]int
	// shares are, for each device that several claims may share, the parts that claims use.
	shares map[structured.DeviceID]map[structured.SharedDeviceID]structured.DeviceConsumedCapacity
	// consumable reports whether the feature gate DRAConsumableCapacity is on. Only then several claims may share a device.
	consumable bool
	// changes counts how often the devices of any claim have changed.
	changes int64
}

// entry is the ledger's record of a claim. stored is the claim's last known allocation at the API server. assumed is the
// allocation that is assumed for placed pods. Both are nil if the allocation does not exist.
type entry struct{ stored, assumed *resourceapi.AllocationResult }

// has returns the claim's allocations: the assumed allocation, and also the stored allocation if it has other devices.
func (e *entry) has() []*resourceapi.AllocationResult {
	var has []*resourceapi.AllocationResult
	if e.assumed != nil {
		has = append(has, e.assumed)
	}
	if e.stored != nil && (e.assumed == nil || !sameDevices(e.stored, e.assumed)) {
		has = append(has, e.stored)
	}
	return has
}

func newLedger(consumable bool) *ledger {
	return &ledger{
		claims: map[types.UID]*entry{}, users: map[structured.DeviceID]int{}, consumable: consumable,
		shares: map[structured.DeviceID]map[structured.SharedDeviceID]structured.DeviceConsumedCapacity{},
	}
}

// change updates the claim's entry with the function mutate. If this changes the claim's devices, change also updates the counts
// of allocated devices.
func (l *ledger) change(claim types.UID, mutate func(*entry)) {
	e := l.claims[claim]
	if e == nil {
		e = &entry{}
	}
	before := e.has()
	mutate(e)
	if after := e.has(); !slices.EqualFunc(before, after, sameDevices) {
		l.changes++
		for _, allocation := range before {
			l.count(allocation, -1)
		}
		for _, allocation := range after {
			l.count(allocation, 1)
		}
	}
	l.claims[claim] = e
	if *e == (entry{}) {
		delete(l.claims, claim)
	}
}

// store sets the claim's last known allocation at the API server; nil if the claim is not allocated there, or was deleted.
func (l *ledger) store(claim types.UID, allocation *resourceapi.AllocationResult) {
	l.change(claim, func(e *entry) { e.stored = allocation })
}

// assume sets the claim's assumed allocation; nil removes it. It returns the previous assumed allocation.
func (l *ledger) assume(claim types.UID, allocation *resourceapi.AllocationResult) (before *resourceapi.AllocationResult) {
	l.change(claim, func(e *entry) { before, e.assumed = e.assumed, allocation })
	return before
}

func (l *ledger) count(allocation *resourceapi.AllocationResult, by int) {
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
	share := structured.MakeSharedDeviceID(id, result.ShareID)
	if l.shares[id] == nil {
		l.shares[id] = map[structured.SharedDeviceID]structured.DeviceConsumedCapacity{}
	}
	if l.shares[id][share] = structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity); by > 0 {
		return
	}
	if delete(l.shares[id], share); len(l.shares[id]) == 0 {
		delete(l.shares, id)
	}
}

// sameDevices reports whether both allocations have the same devices and node selector. Their timestamps may differ.
func sameDevices(l, r *resourceapi.AllocationResult) bool {
	return l == r || equality.Semantic.DeepEqual(l.Devices, r.Devices) && equality.Semantic.DeepEqual(l.NodeSelector, r.NodeSelector)
}

// state returns which of the devices in the parameter of are allocated. It ignores allocations that are assumed for the claims in
// the parameter without. The caller may change the result, because it is a copy.
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
		for share, consumed := range l.shares[id] {
			state.AllocatedSharedDeviceIDs.Insert(share)
			state.AggregatedCapacity.Insert(consumed)
		}
	}
	for i, held := range without {
		l.assume(held.claim.UID, assumed[i])
	}
	l.changes = changes // the ledger is as before, so the counter must not make plans invalid
	return state
}

// without calls f while the claims have no devices in the ledger. f must not change the ledger.
func (l *ledger) without(claims []types.UID, f func()) {
	entries, changes := map[types.UID]entry{}, l.changes
	for _, claim := range claims {
		l.change(claim, func(e *entry) { entries[claim], *e = *e, entry{} })
	}
	f()
	for claim, has := range entries {
		l.change(claim, func(e *entry) { *e = has })
	}
	l.changes = changes // the ledger is as before
}

// free reports whether no claim exclusively uses a device of the allocation. It ignores devices that the allocation shares with
// other claims, or has only for administrative access.
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
