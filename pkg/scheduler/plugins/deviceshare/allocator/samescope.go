// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"math/bits"
	"slices"
)

// equalMembers returns the members whose requests are equal to the request of member m, including m itself.
func (p *gangPlan) equalMembers(m int) (members []int) {
	for other := range p.requests {
		if p.equalRequests(m, other) {
			members = append(members, other)
		}
	}
	return members
}

// levelTries limits the work of sameScope. It is how often sameScope may compute devices for one member while it tries
// one scope, in addition to once for each member.
const levelTries = 128

// sameScope moves the given members, which have equal requests, to other devices, so that the same kind of scope holds
// the devices of each member. For example, each member's devices are within one NUMA node, which may be another one for
// each member. sameScope chooses the narrowest kind of scope that has a plan. It returns the given placements unchanged
// if the scope is already the same for all members, or if no such plan is found.
func (p *gangPlan) sameScope(placed []placement, members []int) []placement {
	t, ok := p.requests[members[0]].leading()
	if !ok || p.areLevel(placed, members, t) {
		return placed
	}
	before := p.limits
	for _, within := range []limit{{scope: ScopePCIe, exact: true}, {scope: ScopeNUMANode, exact: true}, {scope: ScopeNUMANode}, {scope: ScopeNode, exact: true}} {
		if !p.hasRoomIn(within.scope, t, members) {
			continue
		}
		limits := slices.Clone(before)
		for _, m := range members {
			limits[m].of, limits[m].scope, limits[m].exact = t, within.scope, within.exact
		}
		p.tries = levelTries + len(p.requests)
		if better, _, _ := p.solve(limits); better != nil {
			return better
		}
	}
	return placed
}

// hasRoomIn reports whether the node has enough free devices for all of the members if the devices of each member must
// be in one part of the given scope.
func (p *gangPlan) hasRoomIn(scope Scope, t Type, members []int) bool {
	x := newSearch(p.start, p.requests[members[0]], p.o)
	defer x.done()
	copies := make([]int64, x.q.parts(t, scope))
	for i := range x.q.devices(t) {
		if part := x.q.partOf(t, i, scope); part >= 0 {
			copies[part] += min(x.q.copies(t, i), int64(len(members)))
		}
	}
	var room int64
	for part := range copies {
		room += copies[part] / int64(x.q.r.of[t].count)
	}
	return room >= int64(len(members))
}

// leading returns the type of devices that the search places first. It returns false if the request is not for several
// devices of that type.
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

// scopeOf returns the narrowest scope in which the devices of the mask are together.
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

// byRank returns the members' allocations. It exchanges allocations among members with equal requests, so that a member
// with a lower rank gets the devices that come first on the node.
func (p *gangPlan) byRank(placed []placement) []*Allocation {
	allocations := make([]*Allocation, len(placed))
	for m := range placed {
		allocations[m] = placed[m].allocation
	}
	for from := range p.requests {
		members := p.equalMembers(from)
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
	return allocations
}

// compareByPlace compares allocations by their first devices: by NUMA node, then by PCIe root, then by minor.
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
