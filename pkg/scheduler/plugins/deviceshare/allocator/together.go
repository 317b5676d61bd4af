// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// maxTries bounds how many members are placed, over all tries, in a plan for members that get in one another's way; for others one try each is enough.
const maxTries = 512

// AllocateTogether chooses the devices for the members of a gang that lie on one node, in the order of their ranks, from what is free: none takes what only another
// can use. Members that ask for the same get devices on parts of the node of the same scope where there is such a plan, the narrowest, and of those the lower rank
// has the lower numbers. It looks at a bounded number of plans, so of many members that are hard to place together it may refuse some that could be.
func AllocateTogether(s *State, requests []*Request, o Options) ([]*Allocation, *Refusal) {
	if len(requests) == 0 {
		return nil, nil
	}
	p := &gangPlan{start: s, requests: requests, o: &o, tries: maxTries}
	placed, failed, f := p.solve(make([]limit, len(requests)))
	if placed == nil {
		return nil, p.refusal(failed, f)
	}
	for from := range requests {
		if members := p.shapeOf(from); len(members) > 1 && members[0] == from {
			placed = p.level(placed, members)
		}
	}
	allocations := make([]*Allocation, len(placed))
	for m := range placed {
		allocations[m] = placed[m].allocation
	}
	p.sortByRank(allocations)
	return allocations, nil
}

// gangPlan is the search for devices for several requests on one node.
type gangPlan struct {
	start    *State
	requests []*Request
	o        *Options
	tries    int
	// limits are the members' in the plan that was found last.
	limits []limit
}

// placement is what one member has in a plan.
type placement struct {
	allocation *Allocation
	chosen     [numTypes]uint64
}

// solve places all members under the limits; nil beside the member that could not be. Members are placed one after another. One that finds nothing goes first in the
// next try; if that does not help, each device of each member before it is forbidden in turn. As in any plan there is one of them must be without one of those
// devices, that finds a plan if the tries last.
func (p *gangPlan) solve(limits []limit) (placed []placement, failed int, f failure) {
	order := make([]int, len(p.requests))
	for m := range order {
		order[m] = m
	}
	for range order {
		placed, failed, f = p.try(order, limits)
		if placed != nil || order[0] == failed {
			break
		}
		at := slices.Index(order, failed)
		order = slices.Insert(slices.Delete(order, at, at+1), 0, failed)
	}
	if placed != nil {
		p.limits = limits
		return placed, 0, failure{}
	}
	if p.haveRoom() {
		if placed = p.solveByBans(order, limits); placed != nil {
			return placed, 0, failure{}
		}
	}
	return nil, failed, f
}

// haveRoom is false if all free devices together have less than all members ask for, so that no plan can be.
func (p *gangPlan) haveRoom() bool {
	for t := range p.start.Devices {
		var free, asked Amounts
		var freeWhole, askedWhole int
		for i := range p.start.Devices[t] {
			left := p.start.Free(Type(t), i)
			free = free.Add(left)
			if !left.IsZero() && !p.start.isUsed(Type(t), i) {
				freeWhole++
			}
		}
		for _, r := range p.requests {
			want := &r.of[t]
			for a, amount := range want.amounts {
				asked[a] += amount * int64(min(want.count, maxDevices+1))
			}
			if want.exclusive != NotExclusive || want.amounts[MemoryRatio] == 100 || want.amounts[RDMAShare] == 100 || want.amounts[FPGAShare] == 100 {
				askedWhole += min(want.count, maxDevices+1)
			}
		}
		if !asked.Within(free) || askedWhole > freeWhole {
			return false
		}
	}
	return true
}

// solveByBans looks at plans with the fewest bans first.
func (p *gangPlan) solveByBans(order []int, limits []limit) []placement {
	queue := [][]limit{limits}
	for len(queue) > 0 && p.tries > 0 {
		at := queue[0]
		queue = queue[1:]
		placed, _, f, partial := p.tryPartly(order, at)
		if f.why == found {
			p.limits = at
			return placed
		}
		for n := partial - 1; n >= 0 && len(queue) < maxTries; n-- {
			m := order[n]
			for t := range placed[m].chosen {
				for left := placed[m].chosen[t]; left != 0; left &= left - 1 {
					next := slices.Clone(at)
					next[m].banned[t] |= left & -left
					queue = append(queue, next)
				}
			}
		}
	}
	return nil
}

func (p *gangPlan) try(order []int, limits []limit) ([]placement, int, failure) {
	placed, failed, f, _ := p.tryPartly(order, limits)
	if f.why != found {
		return nil, failed, f
	}
	return placed, 0, f
}

// tryPartly places members in the order until one fails, and returns how many of the order were placed.
func (p *gangPlan) tryPartly(order []int, limits []limit) (placed []placement, failed int, f failure, partial int) {
	placed = make([]placement, len(order))
	s := p.start
	for n, m := range order {
		p.tries--
		x := newSearch(s, p.requests[m], p.o)
		x.limit = &limits[m]
		f = x.run()
		if f.why == found {
			placed[m] = placement{x.allocation(), x.chosen}
		}
		x.done()
		if f.why != found {
			return placed, m, f, n
		}
		s = s.With(placed[m].allocation)
	}
	return placed, 0, f, len(order)
}

// shapeOf are the members that ask for the same as this one.
func (p *gangPlan) shapeOf(m int) (members []int) {
	for other, r := range p.requests {
		if r == p.requests[m] || r.key == p.requests[m].key {
			members = append(members, other)
		}
	}
	return members
}

// level gives members of one shape devices of the same scope: the narrowest for which there is a plan. Without one, the widest that any has is as narrow as can be.
func (p *gangPlan) level(placed []placement, members []int) []placement {
	t, ok := p.requests[members[0]].leading()
	if !ok || p.areLevel(placed, members, t) {
		return placed
	}
	before := p.limits
	for scope := ScopePCIe; scope <= ScopeNode; scope++ {
		for _, exact := range []bool{true, false} {
			if p.tries <= 0 {
				return placed
			}
			limits := slices.Clone(before)
			for _, m := range members {
				limits[m].of, limits[m].scope, limits[m].exact = t, scope, exact
			}
			if better, _, f := p.solve(limits); f.why == found {
				return better
			}
		}
	}
	return placed
}

// leading is the first type that is placed, if of more than one device.
func (r *Request) leading() (Type, bool) {
	if len(r.joint) > 0 {
		return r.joint[0], r.of[r.joint[0]].count > 1
	}
	for t := range r.of {
		if r.of[t].asked() {
			return Type(t), r.of[t].count > 1
		}
	}
	return 0, false
}

func (p *gangPlan) areLevel(placed []placement, members []int, t Type) bool {
	first := p.scopeOf(t, placed[members[0]].chosen[t])
	return !slices.ContainsFunc(members, func(m int) bool { return p.scopeOf(t, placed[m].chosen[t]) != first })
}

// scopeOf is the narrowest scope that the devices share.
func (p *gangPlan) scopeOf(t Type, devices uint64) Scope {
	first := &p.start.Devices[t][bits.TrailingZeros64(devices)]
	scope := ScopePCIe
	for left := devices; left != 0; left &= left - 1 {
		d := &p.start.Devices[t][bits.TrailingZeros64(left)]
		switch {
		case d.NUMA != first.NUMA || d.NUMA < 0:
			return ScopeNode
		case d.PCIe != first.PCIe || d.PCIe < 0:
			scope = ScopeNUMANode
		}
	}
	return scope
}

// sortByRank gives, of members that ask for the same, the lower rank what is first on the node.
func (p *gangPlan) sortByRank(allocations []*Allocation) {
	for from := range p.requests {
		members := p.shapeOf(from)
		if members[0] != from || len(members) == 1 {
			continue
		}
		of := make([]*Allocation, len(members))
		for n, m := range members {
			of[n] = allocations[m]
		}
		slices.SortStableFunc(of, p.compareByPlace)
		for n, m := range members {
			allocations[m] = of[n]
		}
	}
}

// compareByPlace compares by the first device: its NUMA node, its PCIe root, its minor.
func (p *gangPlan) compareByPlace(a, b *Allocation) int {
	for t := range a {
		if len(a[t]) == 0 || len(b[t]) == 0 {
			continue
		}
		c, d := p.start.Device(Type(t), a[t][0].Minor), p.start.Device(Type(t), b[t][0].Minor)
		if by := cmp.Or(cmp.Compare(c.NUMA, d.NUMA), cmp.Compare(c.PCIe, d.PCIe), cmp.Compare(c.Minor, d.Minor)); by != 0 {
			return by
		}
	}
	return 0
}

// refusal tells of the member that could not be placed: why it cannot be alone, or beside the others.
func (p *gangPlan) refusal(failed int, f failure) *Refusal {
	if _, refusal := Allocate(p.start, p.requests[failed], *p.o); refusal != nil {
		if !refusal.Unresolvable {
			refusal.Unresolvable = p.isUnresolvable()
		}
		return refusal
	}
	reason := fmt.Sprintf("Insufficient %s devices for %d members together, for each alone there are", f.what, len(p.requests))
	return &Refusal{Reason: reason, Unresolvable: p.isUnresolvable()}
}

// isUnresolvable asks the same of the node with nobody on it.
func (p *gangPlan) isUnresolvable() bool {
	if p.start == p.start.empty {
		return true
	}
	alone := &gangPlan{start: p.start.empty, requests: p.requests, o: p.o, tries: maxTries}
	placed, _, _ := alone.solve(make([]limit, len(p.requests)))
	return placed == nil
}
