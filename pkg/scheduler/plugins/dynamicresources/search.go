// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
)

// searches is the work of this plugin whose time is limited.
var searches = workbudget.Work{Kind: "device ", One: "search", Many: "searches", Remedy: "; fewer requests per claim make them faster"}

// search is one search for devices on a node, for given claims.
type search struct {
	catalog *catalog
	ctx     context.Context
	reach   *reach
	needs   []need
	// offered are the slices among which devices are searched. Slices that only this node reaches come first.
	offered []*slice
	ids     []structured.DeviceID
	raw     []*resourceapi.ResourceSlice
}

// newSearch prepares a search for devices for the claims, whose requests are the needs. It searches the slices that the node
// reaches and from which the claims may be allocated.
func (c *catalog) newSearch(ctx context.Context, r *reach, claims []*resourceapi.ResourceClaim, needs []need) (*search, error) {
	if err := c.compiled.compileAll(ctx, needs); err != nil {
		return nil, err
	}
	s := &search{catalog: c, ctx: ctx, reach: r, needs: needs}
	if wantsAll(claims) {
		s.offered = r.all()
	} else {
		for _, part := range []*part{r.own, r.shared} {
			kept, err := part.suitingAny(ctx, c.compiled, needs)
			if err != nil {
				return nil, err
			}
			s.offered = append(s.offered, kept...)
		}
	}
	for _, one := range s.offered {
		s.ids = append(s.ids, one.ids...)
		s.raw = append(s.raw, one.ResourceSlice)
	}
	return s, nil
}

// suitsAny reports whether a device of the slice suits one of the needs.
func (s *slice) suitsAny(ctx context.Context, compiled *selectorCache, needs []need) (bool, error) {
	for i := range needs {
		suits, err := s.suitingAny(ctx, compiled.Cache, needs[i].choices)
		if err != nil || slices.Contains(suits, true) {
			return err == nil, err
		}
	}
	return false, nil
}

// found is the result of a search: an allocation for each claim. If devices are lacking, claim and request are instead the indexes
// of a claim, and of its request that lacks a device.
type found struct {
	allocations    []resourceapi.AllocationResult
	claim, request int
}

// solve finds devices for the claims among the devices that are free in the given state. If the free devices do not suffice, the
// result has no allocations.
func (s *search) solve(claims []*resourceapi.ResourceClaim, state structured.AllocatedState) (found, error) {
	// If the claims request one device, and the node reaches one pool, no matching of requests with devices is needed. The
	// allocator alone is fast then, and its choice is deterministic.
	if s.reach.pools() == 1 && s.asksForOne() {
		allocations, err := s.allocate(claims, state)
		return found{allocations: allocations}, err
	}
	m := newSupply(s.offered, state, s.catalog.features)
	d, err := s.demandOn(m, claims)
	if err != nil {
		return found{}, err
	}
	given, short, ok := match(s.ctx, d.units, len(m.devices))
	switch {
	case s.ctx.Err() != nil:
		return found{}, context.Cause(s.ctx)
	case !ok:
		return found{claim: d.units[short].claim, request: d.units[short].request}, nil
	}
	if d.simple {
		if allocations := s.guided(claims, state, m, d.units, given); allocations != nil {
			return found{allocations: allocations}, nil
		}
	}
	allocations, err := s.allocate(claims, state)
	return found{allocations: allocations}, err
}

// asksForOne reports whether the claims request exactly one device, without alternatives.
func (s *search) asksForOne() bool {
	if len(s.needs) != 1 || len(s.needs[0].choices) != 1 {
		return false
	}
	only := s.needs[0].choices[0].DeviceSubRequest
	return !isAll(only) && only.Count == 1
}

// guided calls the allocator once for each claim, with only the devices that the matching of requests with devices assigned to
// the claim. It returns nil if the allocator refuses these devices.
func (s *search) guided(claims []*resourceapi.ResourceClaim, state structured.AllocatedState, m *deviceSupply, units []deviceRequest, given []int) []resourceapi.AllocationResult {
	allocations := make([]resourceapi.AllocationResult, 0, len(claims))
	for i, claim := range claims {
		others := state
		others.AllocatedDevices = sets.New(m.devices...)
		for k := range units {
			if units[k].claim == i {
				others.AllocatedDevices.Delete(m.devices[given[k]])
			}
		}
		allocation, err := s.allocate([]*resourceapi.ResourceClaim{claim}, others)
		if err != nil || allocation == nil {
			return nil
		}
		allocations = append(allocations, allocation...)
	}
	return allocations
}

// allocate calls Kubernetes' allocator. If the allocator panics, it returns an error. It returns no allocations unless all claims
// can be allocated together.
func (s *search) allocate(claims []*resourceapi.ResourceClaim, state structured.AllocatedState) (allocations []resourceapi.AllocationResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			allocations, err = nil, fmt.Errorf("the allocator panicked: %v", p)
		}
	}()
	allocator, err := structured.NewAllocator(s.ctx, s.catalog.features, state, s.catalog.classes, s.raw, s.catalog.compiled.Cache)
	if err != nil {
		return nil, err
	}
	allocations, err = allocator.Allocate(s.ctx, s.reach.node, claims)
	// If the context ends while a selector is evaluated, the allocator returns an error that hides the cause.
	if cause := context.Cause(s.ctx); cause != nil {
		return nil, cause
	}
	if len(allocations) != len(claims) {
		return nil, err
	}
	return allocations, err
}
