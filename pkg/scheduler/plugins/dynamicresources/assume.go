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

// assumedClaim is a claim that placed pods hold. All placed pods that share the claim hold the same assumedClaim. devices.mu
// guards the fields that change, and writes.mu the fields of writes.
type assumedClaim struct {
	claim *resourceapi.ResourceClaim
	// allocation is the allocation that this plugin chose for the claim; nil if the claim was already allocated. The allocation is
	// final once a pod that holds the claim has begun its pre-bind step.
	allocation *resourceapi.AllocationResult
	// selector matches the nodes that reach the claim's devices; nil for all nodes.
	selector *nodeaffinity.NodeSelector
	// home is the node of the first pod that held the claim.
	home    string
	holders map[types.UID]*holder
	// round is the number of the session in which a placed pod first held the claim. begun reports whether a pod that holds the
	// claim has begun its pre-bind step.
	round int64
	begun bool
	// waits reports whether the claim's devices are still in use by pods that leave the node.
	waits bool

	writes
}

// holder is a pod that holds a claim.
type holder struct {
	node string
	// begun reports whether the pod's pre-bind step has begun. leaving reports whether the pod's rollback has begun.
	begun, leaving bool
}

// writes are the writes of a claim that were sent to the API server.
type writes struct {
	// scheduler is the value that the plugin writes to the claim's annotation SchedulerAnnotation.
	scheduler string

	// mu is held during a write of the claim. It guards the fields below.
	mu sync.Mutex
	// tried reports whether a write that allocates the claim was sent, and not withdrawn. The API server may have applied this write
	// even if it returned an error.
	tried bool
	// reserved are the pods for which a step has reserved the claim.
	reserved map[types.UID]bool
}

// errChanged is the error for a plan that is no longer valid, because devices or claims have changed since the plan was made.
var errChanged = errors.New("the devices were allocated to another pod in the meantime")

// assume records that the pod holds its claims, with the devices of the plan. If it returns an error, it has changed nothing.
// round is the number of the session.
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
	valid := false
	d.ledger.without(p.leaving, func() { valid = d.takes(p) })
	if !valid {
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
			chosen := p.allocations[claim.UID]
			waits := chosen != nil && len(p.leaving) > 0 && (d.countsParts() || !d.ledger.free(chosen))
			held = d.assumeClaim(pod, claim.ResourceClaim, chosen, p.node)
			held.round, held.waits = round, waits
		}
		held.holders[pod.UID] = &holder{node: p.node}
		a.held = append(a.held, held)
	}
	d.assumed[pod.UID] = a
	return nil
}

// assumeClaim adds the claim to d.held, the claims that placed pods hold, and assumes the allocation in chosen. chosen is nil if
// the claim is already allocated. The caller holds d.mu.
func (d *devices) assumeClaim(pod *v1.Pod, claim *resourceapi.ResourceClaim, chosen *resourceapi.AllocationResult, node string) *assumedClaim {
	held := &assumedClaim{
		claim: claim, allocation: chosen, home: node, holders: map[types.UID]*holder{},
		writes: writes{scheduler: framework.OwnershipMark(pod.Spec.SchedulerName), reserved: map[types.UID]bool{}},
	}
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

// countsParts reports whether claims may use parts of a device, or devices may share resources. Then any allocation may change the
// free part of a device, so a plan is valid only until the next allocation or release.
func (d *devices) countsParts() bool {
	return d.catalog.features.ConsumableCapacity || d.catalog.features.PartitionableDevices
}

// move sets the assumed allocation of each claim in moves to the result of the function in the parameter to. A nil result removes
// the assumed allocation. moves are claims whose devices a plan exchanges for other devices. The caller holds d.mu.
func (d *devices) move(moves map[*assumedClaim]move, to func(move) *resourceapi.AllocationResult) {
	for held, m := range moves {
		d.ledger.assume(held.claim.UID, to(m))
	}
}

// takes reports whether the plan is still valid. The planned devices must be free. A placed pod that is not being rolled back must
// still hold each claim in p.shared. No placed pod may hold the plan's other claims. The caller holds d.mu. It has removed the
// assumed allocations of the claims in p.moves from d.ledger, and the claims in p.leaving, so that their devices are free.
func (d *devices) takes(p *plan) bool {
	for _, m := range p.moves {
		if !d.ledger.free(m.to) {
			return false
		}
	}
	for _, claim := range p.claims {
		allocation, held := p.allocations[claim.UID], d.held[claim.UID]
		switch {
		case held != p.shared[claim.UID], held != nil && (held.allLeave() || held.waits && p.leaving == nil), allocation != nil && !d.ledger.free(allocation):
			return false
		}
	}
	return true
}

// allLeave reports whether all pods that hold the claim are being rolled back.
func (h *assumedClaim) allLeave() bool {
	for _, one := range h.holders {
		if !one.leaving {
			return false
		}
	}
	return true
}

// movable reports whether the claim may still get other devices on the node. The plugin must have chosen the claim's devices in
// this session. All pods that hold the claim must be on the node, and none of them may have begun its pre-bind step or its
// rollback.
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

// movables returns the claims on the node that placed pods hold and that may still get other devices (see movable), sorted by
// namespace and name. It also returns their assumed allocations. round is the number of the session.
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

// drop records that the pod no longer holds its claims: the pod is bound, or the API server has no writes for the pod. Allocations
// at the API server remain unchanged.
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
		if len(held.holders) > 0 {
			continue
		}
		delete(d.held, held.claim.UID)
		d.ledger.assume(held.claim.UID, nil)
		if delete(d.chosen[held.home], held); len(d.chosen[held.home]) == 0 {
			delete(d.chosen, held.home)
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

// room returns an error if the maximum number of pods already use the claim, and the given pod does not use it yet.
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
