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
)

// assumption is what is assumed for a pod on a node: the claims that it holds.
type assumption struct {
	node string
	held []*heldClaim
}

// heldClaim is a claim that pods are placed by. Pods that share it hold it together. The mutex of devices guards what changes.
type heldClaim struct {
	claim *resourceapi.ResourceClaim
	// allocation is what was chosen for it; nil for a claim that was allocated already. It does not change any more once a holder's
	// step has begun.
	allocation *resourceapi.AllocationResult
	// selector are the nodes that reach it; nil for all.
	selector *nodeaffinity.NodeSelector
	// home is the node of the pod that held it first.
	home    string
	holders map[types.UID]*holder
	// round is of the session in which it was chosen, and begun true once a holder's step has.
	round int64
	begun bool

	writes
}

// holder is a pod that holds a claim.
type holder struct {
	node string
	// begun is true once its step has, leaving once its rollback has.
	begun, leaving bool
	// tried is true once a write that names it may have been taken, whatever its answer was.
	tried bool
}

// writes are what was written for a claim.
type writes struct {
	// scheduler is what the claim is marked with.
	scheduler string

	// mu has writes follow each other. It guards what is below.
	mu sync.Mutex
	// tried is true once a write of the allocation may have been taken, whatever its answer was.
	tried bool
	// last is the claim as it was written last.
	last *resourceapi.ResourceClaim
}

// heldByOthers returns the claim as others than the pod hold it, or the pod for which it is being given back; nil when none does. The
// mutex is held.
func (d *devices) heldByOthers(pod types.UID, claim types.UID) *heldClaim {
	held := d.held[claim]
	if held == nil || len(held.holders) == 1 && held.holders[pod] != nil && !held.holders[pod].leaving {
		return nil
	}
	return held
}

// errChanged is of a plan that does not hold any more.
var errChanged = errors.New("its devices were allocated to another meanwhile")

// assume has the pod hold its claims as planned. An error leaves everything as it was.
func (d *devices) assume(pod *v1.Pod, p *plan, round int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.assumed[pod.UID]; a != nil {
		return fmt.Errorf("what is reserved for the pod on node %s is not given back yet", a.node)
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
	a := &assumption{node: p.node}
	for _, claim := range p.claims {
		held := d.held[claim.UID]
		if held == nil {
			held = d.hold(pod, claim.ResourceClaim, p.allocations[claim.UID], p.node)
			held.round = round
		}
		held.holders[pod.UID] = &holder{node: p.node}
		a.held = append(a.held, held)
	}
	d.assumed[pod.UID] = a
	return nil
}

// hold has the claim held, with an allocation that was chosen for it, or with what it has; letGo undoes it. The mutex is held.
func (d *devices) hold(pod *v1.Pod, claim *resourceapi.ResourceClaim, chosen *resourceapi.AllocationResult, node string) *heldClaim {
	held := &heldClaim{claim: claim, allocation: chosen, home: node, holders: map[types.UID]*holder{}, writes: writes{scheduler: schedulerOf(pod)}}
	d.held[claim.UID] = held
	held.selector, _ = selectorOf(cmp.Or(chosen, claim.Status.Allocation))
	if chosen == nil {
		return held
	}
	d.ledger.assume(claim.UID, chosen)
	if d.chosen[node] == nil {
		d.chosen[node] = map[*heldClaim]bool{}
	}
	d.chosen[node][held] = true
	return held
}

func (d *devices) letGo(held *heldClaim) {
	delete(d.held, held.claim.UID)
	if delete(d.chosen[held.home], held); len(d.chosen[held.home]) == 0 {
		delete(d.chosen, held.home)
	}
}

// countsParts is true if what is free of a device may depend on what others have of it, or of what it draws on with its neighbours. A plan
// holds then only as long as nobody takes or gives back anything.
func (d *devices) countsParts() bool {
	return d.catalog.features.ConsumableCapacity || d.catalog.features.PartitionableDevices
}

// move has the ledger show other devices for claims that are moved. The mutex is held.
func (d *devices) move(moves map[*heldClaim]move, to func(move) *resourceapi.AllocationResult) {
	for held, m := range moves {
		d.ledger.assume(held.claim.UID, to(m))
	}
}

// takes is true if nobody has any of the devices that the plan gives, and the claims are as they were. The mutex is held, and what is
// moved has no devices.
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

// allLeave is true of a claim that is being given back.
func (h *heldClaim) allLeave() bool {
	for _, one := range h.holders {
		if !one.leaving {
			return false
		}
	}
	return true
}

// movable is true of a claim that may be given other devices on the node: of one that was chosen in this session, whose holders are all
// there, and of which nothing can have been written.
func (h *heldClaim) movable(node string, round int64) bool {
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

// movables are the claims that may be given other devices on the node, by name, and what they have.
func (d *devices) movables(node string, round int64) (claims []*heldClaim, have []*resourceapi.AllocationResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for held := range d.chosen[node] {
		if held.movable(node, round) {
			claims = append(claims, held)
		}
	}
	slices.SortFunc(claims, func(l, r *heldClaim) int {
		return cmp.Or(cmp.Compare(l.claim.Namespace, r.claim.Namespace), cmp.Compare(l.claim.Name, r.claim.Name))
	})
	for _, held := range claims {
		have = append(have, held.allocation)
	}
	return claims, have
}

// drop has the pod hold nothing any more: it is bound, or nothing is written for it. What others wrote for claims that it held alone, or
// itself, is there to stay.
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
			d.letGo(held)
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
		return nil, fmt.Errorf("reading which nodes reach its devices: %w", err)
	}
	return selector, nil
}

// room is an error if no more pods can be told to use the claim.
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
		return fmt.Errorf("claim %s is used by %d pods, and can be by no more", brief.Value(claim.Name), len(users))
	}
	return nil
}
