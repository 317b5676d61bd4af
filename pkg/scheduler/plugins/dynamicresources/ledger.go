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

// ledger records which devices are allocated, by allocations that informers show and by assumed allocations. Each change of a
// claim updates the ledger, so it is never recomputed. devices.mu guards it.
type ledger struct {
	claims map[types.UID]*entry
	// users counts, for each device, the claims that have the device exclusively.
	users map[structured.DeviceID]int
	// consumed is the used capacity of devices that several claims may share. shares are, for each of these devices, the IDs of
	// the parts that claims use.
	consumed structured.ConsumedCapacityCollection
	shares   map[structured.DeviceID]sets.Set[structured.SharedDeviceID]
	// consumable reports whether the feature gate DRAConsumableCapacity is on. Only then several claims may share a device.
	consumable bool
	// changes counts how often the devices of any claim have changed.
	changes int64
}

// entry is the ledger's record of a claim. shown is the allocation that informers last showed. assumed is the allocation that is
// assumed for placed pods. Both are nil if the allocation does not exist.
type entry struct {
	shown, assumed *resourceapi.AllocationResult
	// version is the resource version of the claim that informers last showed.
	version int64
	// written is the claim in the version that the plugin wrote last; nil once informers show this version or a later one.
	written *resourceapi.ResourceClaim
}

// stored returns the claim's last known allocation at the API server; nil if the claim is not allocated at the API server.
func (e *entry) stored() *resourceapi.AllocationResult {
	if e.written != nil {
		return e.written.Status.Allocation
	}
	return e.shown
}

// has returns the claim's allocations: the assumed allocation, and also the allocation at the API server if it has other devices.
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
		l.count(before, -1)
		l.count(after, 1)
	}
	l.claims[claim] = e
	if *e == (entry{}) {
		delete(l.claims, claim)
	}
}

// shows records the allocation of the claim that informers show. It ignores a version of the claim that is older than the version
// that informers showed before.
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

// gone removes the record of a claim that was deleted.
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
		return 1 // versions that are not numbers have no order, so they are equal here
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
	l.changes = changes // the ledger is as before, so the counter must not make plans invalid
	return state
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
