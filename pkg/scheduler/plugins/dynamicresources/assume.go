// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// assumedPod records the claims that a placed pod holds, and the pod's node.
type assumedPod struct {
	node string
	held []*assumedClaim
}

// assumedClaim is a claim that placed pods hold. Pods that share the claim hold it together. The mutex of devices guards the
// fields that change.
type assumedClaim struct {
	claim *resourceapi.ResourceClaim
	// allocation is the allocation that this plugin chose for the claim; nil if the claim was already allocated. The allocation
	// no longer changes once the pre-bind step of a holder has begun.
	allocation *resourceapi.AllocationResult
	// selector matches the nodes that reach the claim's devices; nil for all nodes.
	selector *nodeaffinity.NodeSelector
	// home is the node of the first pod that held the claim.
	home    string
	holders map[types.UID]*holder
	// round is the number of the session in which the allocation was chosen. begun reports whether the pre-bind step of a holder
	// has begun.
	round int64
	begun bool

	writes
}

// holder is a pod that holds a claim.
type holder struct {
	node string
	// begun reports whether the pod's pre-bind step has begun, and leaving whether its rollback has begun.
	begun, leaving bool
	// tried reports whether the API server may have accepted a reservation of the claim for the pod, even if it returned an
	// error.
	tried bool
}

// writes records the writes for a claim.
type writes struct {
	// scheduler is the value of SchedulerAnnotation on the claim.
	scheduler string

	// mu is held during a write, and guards the fields below.
	mu sync.Mutex
	// tried reports whether the API server may have accepted a write of the allocation, even if it returned an error.
	tried bool
	// last is the last written version of the claim.
	last *resourceapi.ResourceClaim
}

// heldByOthers returns the claim if pods other than this one hold it, or if this pod holds it and is being rolled back; nil
// otherwise. The caller holds the mutex.
func (d *devices) heldByOthers(pod types.UID, claim types.UID) *assumedClaim {
	held := d.held[claim]
	if held == nil || len(held.holders) == 1 && held.holders[pod] != nil && !held.holders[pod].leaving {
		return nil
	}
	return held
}

// errChanged is the error of a plan that is no longer valid, because devices or claims have changed since it was made.
var errChanged = errors.New("the devices were allocated to another pod in the meantime")

// assume records that the pod holds its claims with the devices of the plan. If it returns an error, nothing has changed. round
// is the number of the session.
func (d *devices) assume(pod *v1.Pod, p *plan, round int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.assumed[pod.UID]; a != nil {
		return fmt.Errorf("devices reserved for the pod on node %s are not released yet", a.node)
	}
	if d.countsParts() && len(p.allocations) > 0 && p.of != d.ledger.changes {
		return errChanged
	}
	for held, now := range p.moves {
		if !held.movable(p.node, round) || held.allocation != now.from {
			return errChanged
		}
	}
	d.move(p.moves, func(m move) *resourceapi.AllocationResult { return nil })
	if !d.takes(p) {
		d.move(p.moves, func(m move) *resourceapi.AllocationResult { return m.from })
		return errChanged
	}
	d.move(p.moves, func(m move) *resourceapi.AllocationResult { return m.to })
	for held, now := range p.moves {
		held.allocation = now.to
		held.selector, _ = selectorOf(now.to)
	}
	a := &assumedPod{node: p.node}
	for _, claim := range p.claims {
		held := d.held[claim.UID]
		if held == nil {
			held = d.assumeClaim(pod, claim.ResourceClaim, p.allocations[claim.UID], p.node)
			held.round = round
		}
		held.holders[pod.UID] = &holder{node: p.node}
		a.held = append(a.held, held)
	}
	d.assumed[pod.UID] = a
	return nil
}

// assumeClaim adds the claim to the held claims, with the allocation chosen for it; nil if the claim is already allocated. revert
// undoes this. The caller holds the mutex.
func (d *devices) assumeClaim(pod *v1.Pod, claim *resourceapi.ResourceClaim, chosen *resourceapi.AllocationResult, node string) *assumedClaim {
	held := &assumedClaim{claim: claim, allocation: chosen, home: node, holders: map[types.UID]*holder{}, writes: writes{scheduler: framework.OwnershipMark(pod.Spec.SchedulerName)}}
	d.held[claim.UID] = held
	held.selector, _ = selectorOf(cmp.Or(chosen, claim.Status.Allocation))
	if chosen == nil {
		return held
	}
	d.ledger.assume(claim.UID, chosen)
	if d.chosen[node] == nil {
		d.chosen[node] = map[*assumedClaim]bool{}
	}
	d.chosen[node][held] = true
	return held
}

func (d *devices) revert(held *assumedClaim) {
	delete(d.held, held.claim.UID)
	if delete(d.chosen[held.home], held); len(d.chosen[held.home]) == 0 {
		delete(d.chosen, held.home)
	}
}

// countsParts reports whether claims may use parts of a device, or devices may share resources. The free part of a device may
// then change with any allocation, so a plan is valid only until the next allocation or release.
func (d *devices) countsParts() bool {
	return d.catalog.features.ConsumableCapacity || d.catalog.features.PartitionableDevices
}

// move sets the devices of the moved claims in the ledger. The function to returns the allocation to set; nil for none. The
// caller holds the mutex.
func (d *devices) move(moves map[*assumedClaim]move, to func(move) *resourceapi.AllocationResult) {
	for held, m := range moves {
		d.ledger.assume(held.claim.UID, to(m))
	}
}

// takes reports whether the plan's devices are free and its claims have not changed. The caller holds the mutex, and has removed
// the devices of moved claims from the ledger.
func (d *devices) takes(p *plan) bool {
	for _, m := range p.moves {
		if !d.ledger.free(m.to) {
			return false
		}
	}
	for _, claim := range p.claims {
		allocation, held := p.allocations[claim.UID], d.held[claim.UID]
		switch {
		case held != p.shared[claim.UID], held != nil && held.allLeave(), allocation != nil && !d.ledger.free(allocation):
			return false
		}
	}
	return true
}

// allLeave reports whether all holders of the claim are being rolled back.
func (h *assumedClaim) allLeave() bool {
	for _, one := range h.holders {
		if !one.leaving {
			return false
		}
	}
	return true
}

// movable reports whether the claim may get other devices on the node: its devices were chosen in this session, all of its
// holders are on the node, and the API server cannot have got a write for it.
func (h *assumedClaim) movable(node string, round int64) bool {
	if h.allocation == nil || h.begun || h.round != round || len(h.holders) == 0 {
		return false
	}
	for _, one := range h.holders {
		if one.leaving || one.node != node {
			return false
		}
	}
	return true
}

// movables returns the claims that may get other devices on the node, sorted by name, and their allocations.
func (d *devices) movables(node string, round int64) (claims []*assumedClaim, have []*resourceapi.AllocationResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for held := range d.chosen[node] {
		if held.movable(node, round) {
			claims = append(claims, held)
		}
	}
	slices.SortFunc(claims, func(l, r *assumedClaim) int {
		return cmp.Or(cmp.Compare(l.claim.Namespace, r.claim.Namespace), cmp.Compare(l.claim.Name, r.claim.Name))
	})
	for _, held := range claims {
		have = append(have, held.allocation)
	}
	return claims, have
}

// drop ends the pod's hold on its claims, because the pod is bound, or no writes for it remain. Allocations that are written for
// the claims remain.
func (d *devices) drop(pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.assumed[pod]
	if a == nil {
		return
	}
	delete(d.assumed, pod)
	for _, held := range slices.Backward(a.held) {
		delete(held.holders, pod)
		if len(held.holders) == 0 {
			d.revert(held)
			d.ledger.assume(held.claim.UID, nil)
		}
	}
}

func selectorOf(allocation *resourceapi.AllocationResult) (*nodeaffinity.NodeSelector, error) {
	if allocation == nil || allocation.NodeSelector == nil {
		return nil, nil
	}
	selector, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the node selector of its allocation: %w", err)
	}
	return selector, nil
}

// room returns an error if the pod does not use the claim yet, and the claim is used by the maximum number of pods.
func (d *devices) room(pod types.UID, claim *resourceapi.ResourceClaim) error {
	users := map[types.UID]bool{}
	for i := range claim.Status.ReservedFor {
		users[claim.Status.ReservedFor[i].UID] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.held[claim.UID]; held != nil {
		for uid := range held.holders {
			users[uid] = true
		}
	}
	if !users[pod] && len(users) >= resourceapi.ResourceClaimReservedForMaxSize {
		return fmt.Errorf("claim %s is used by %d pods, which is the maximum", brief.Value(claim.Name), len(users))
	}
	return nil
}
