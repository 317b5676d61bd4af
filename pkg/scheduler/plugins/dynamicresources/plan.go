// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
)

// plan is the result of planFor: the devices that a pod's claims would get on a node.
type plan struct {
	node   string
	claims []podClaim
	// allocations are the planned allocations for claims that have no allocation yet. shared are the claims that other pods
	// already hold. The keys of both maps are UIDs of claims.
	allocations map[types.UID]*resourceapi.AllocationResult
	shared      map[types.UID]*assumedClaim
	// moves are claims of other pods on the node, and other devices for them. The plan exchanges the devices of these claims, so
	// that it finds devices for the pod's claims.
	moves map[*assumedClaim]move
	// leaving are the claims whose devices the plan takes to be free, because they are used only by pods that leave the node. It is
	// nil if the pod does not wait for that.
	leaving []types.UID
	// of is the value of the counter ledger.changes when the plan was made. A higher value now means that devices were
	// allocated or released since.
	of int64
}

type move struct{ from, to *resourceapi.AllocationResult }

// mostMoved is the maximum number of claims of placed pods on a node whose devices a plan may exchange for others. If the node
// has more claims that may still get other devices, a plan exchanges no devices.
const mostMoved = 32

// planFor plans devices for the pod's claims on the node. Devices of the claims in leaving count as free. If no plan is possible, it
// returns a status with the reason.
//
// Devices that the pod itself already holds count as used. The reason is that the filter result is cached for all pods with equal
// claims.
func (s *session) planFor(pod *v1.Pod, state *taskState, node *v1.Node, leaving []types.UID) (*plan, *api.Status) {
	p := &plan{node: node.Name, claims: state.claims, leaving: leaving, allocations: map[types.UID]*resourceapi.AllocationResult{}, shared: map[types.UID]*assumedClaim{}}
	var open []*resourceapi.ResourceClaim
	for i, claim := range state.claims {
		held, status := s.reaches(pod, claim, state.selectors[i], node, leaving != nil)
		switch {
		case status != nil:
			return nil, status
		case held != nil:
			p.shared[claim.UID] = held
		case claim.Status.Allocation == nil:
			open = append(open, claim.ResourceClaim)
		}
	}
	if len(open) == 0 {
		return p, nil
	}
	return p, s.open(p, pod, state, open, node)
}

// open plans devices for the claims in the parameter open, which are the pod's claims without an allocation, and adds their
// allocations to the plan p. If this is not possible, it returns a status with the reason.
func (s *session) open(p *plan, pod *v1.Pod, state *taskState, open []*resourceapi.ResourceClaim, node *v1.Node) *api.Status {
	ctx, end, err := s.budgets.Begin(pod.Namespace, s.filterTimeout)
	if err != nil {
		return unresolvable("%s", err)
	}
	defer end()
	needs, err := state.needsOf(&s.devices.catalog, open)
	if err != nil {
		return failed(open, err)
	}
	first, err := s.solve(ctx, p, node, open, needs, nil)
	if err != nil {
		return failed(open, err)
	}
	if first.allocations == nil {
		return s.planTogether(ctx, p, node, first, open)
	}
	for i, claim := range open {
		p.allocations[claim.UID] = &first.allocations[i]
	}
	return nil
}

// solve searches devices on the node for the claims, whose requests are the needs. Devices of other claims are not available, except
// those of the claims in p.leaving, and devices that are assumed for the claims in the parameter without. solve sets p.of to the
// current value of ledger.changes, which shows later changes of allocations.
func (s *session) solve(ctx context.Context, p *plan, node *v1.Node, claims []*resourceapi.ResourceClaim, needs []need, without []*assumedClaim) (found, error) {
	search, err := s.devices.catalog.newSearch(ctx, s.devices.inventory.reach(node), claims, needs)
	if err != nil {
		return found{}, err
	}
	s.devices.mu.Lock()
	var allocated structured.AllocatedState
	s.devices.ledger.without(p.leaving, func() { allocated = s.devices.ledger.state(search.ids, without) })
	p.of = s.devices.ledger.changes
	s.devices.mu.Unlock()
	return search.solve(claims, allocated)
}

// planTogether plans devices for the new claims in open. At the same time it plans devices again for claims of pods that were
// placed on the node in this session. It is called if the free devices do not suffice for the new claims. An earlier claim may
// have the only device that suits a new claim, although a free device would suit the earlier claim, too.
func (s *session) planTogether(ctx context.Context, p *plan, node *v1.Node, alone found, open []*resourceapi.ResourceClaim) *api.Status {
	movable, from := s.devices.movables(node.Name, s.round)
	if len(movable) == 0 || len(movable) > mostMoved {
		return none(open, alone)
	}
	claims := slices.Clone(open)
	for _, held := range movable {
		claims = append(claims, held.claim)
	}
	needs, err := s.devices.catalog.needsOf(claims)
	if err != nil {
		return failed(open, err)
	}
	if p.leaving != nil { // a claim that moves may be written before such devices are free
		p.leaving = []types.UID{}
	}
	both, err := s.solve(ctx, p, node, claims, needs, movable)
	switch {
	case err != nil:
		return failed(open, err)
	case both.allocations == nil:
		return none(open, alone)
	}
	p.moves = map[*assumedClaim]move{}
	for i := range both.allocations {
		if to := &both.allocations[i]; i < len(open) {
			p.allocations[open[i].UID] = to
		} else if k := i - len(open); !sameDevices(from[k], to) {
			p.moves[movable[k]] = move{from[k], to}
		}
	}
	return nil
}

// none returns the status for a node that lacks free devices for the claims in open. The status names the claim and the request
// in the parameter at, the result of the failed search.
func none(open []*resourceapi.ResourceClaim, at found) *api.Status {
	claim := open[at.claim]
	if len(claim.Spec.Devices.Requests) <= at.request {
		return unresolvable("%s: node(s) without a free device for it", describeFirst(claim))
	}
	return unresolvable("%s: node(s) without a free device for it", describe(claim, &claim.Spec.Devices.Requests[at.request]))
}

// failed returns the status for a node on which the search for devices failed with the error.
func failed(open []*resourceapi.ResourceClaim, err error) *api.Status {
	if errors.Is(err, workbudget.ErrSlow) {
		return unresolvable("%s: device search on the node timed out", describeFirst(open[0]))
	}
	return unresolvable("%s: device search failed: %s", describeFirst(open[0]), brief.Part(err.Error()))
}

func unresolvable(format string, args ...any) *api.Status {
	return &api.Status{Code: api.UnschedulableAndUnresolvable, Reason: fmt.Sprintf(format, args...)}
}
