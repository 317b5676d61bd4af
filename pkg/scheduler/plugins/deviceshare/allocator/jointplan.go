// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"fmt"
	"slices"
)

// maxTries limits the search for a plan for gang members that compete for devices. It is how often the search may
// compute devices for one member, in addition to once for each member. 512 computations take some milliseconds.
const maxTries = 512

// AllocateTogether chooses free devices for the members of a gang on one node, so that no member takes a device that
// only another member can use. requests are in the order of the members' ranks.
//
// Members with equal requests get devices in the same scope: for example, each member's devices are on one NUMA node.
// AllocateTogether chooses the narrowest scope that has a plan. Members with lower ranks get the devices that come
// first on the node. The number of tried plans is limited, so AllocateTogether may refuse many members that are hard to
// place together, although they would fit.
func AllocateTogether(s *State, requests []*Request, o Options) ([]*Allocation, *Refusal) {
	if len(requests) == 0 {
		return nil, nil
	}
	p := newGangPlan(s, requests, &o)
	allocations, failed, f := p.solveLevel()
	if allocations == nil {
		return nil, p.refusal(failed, f)
	}
	return allocations, nil
}

// gangPlan is a search for devices for several members of a gang on one node.
type gangPlan struct {
	start    *State
	requests []*Request
	o        *Options
	tries    int
	// limits are the restrictions on devices under which the last plan was found, one for each member.
	limits []limit
	// full is set once the sum of all free devices is known to be too small for the requests.
	full bool
}

func newGangPlan(s *State, requests []*Request, o *Options) *gangPlan {
	return &gangPlan{start: s, requests: requests, o: o, tries: maxTries + len(requests)}
}

// placement is one member's part of a plan: its allocation and, for each type, a mask of its devices.
type placement struct {
	allocation *Allocation
	chosen     [numTypes]uint64
}

// solveLevel chooses devices for all members. Members with equal requests get devices in the same scope where possible.
// If no plan is found, solveLevel returns nil, the index of the member that found no devices, and the reason.
func (p *gangPlan) solveLevel() (allocations []*Allocation, failed int, f failure) {
	placed, failed, f := p.solve(make([]limit, len(p.requests)))
	if placed == nil {
		return nil, failed, f
	}
	for from := range p.requests {
		if members := p.equalMembers(from); len(members) > 1 && members[0] == from {
			placed = p.sameScope(placed, members)
		}
	}
	return p.byRank(placed), 0, failure{}
}

// solve chooses devices for all members one after another, each member within its restriction in limits. Without a plan
// it returns nil, the index of the failed member and the reason.
//
// A member that finds no devices goes first in the next try. If this does not help, solveByOrder places the members
// that are hardest to place first, and spreads shares over the devices with the most free amounts. That suits members
// with mostly equal requests. If this fails too, solveByBans forbids in turn each device of each member placed before
// the failed member. In any valid plan, one of these members does not have one of these devices. So solveByBans finds a
// plan if one exists, unless the limit of tries (maxTries) is reached.
func (p *gangPlan) solve(limits []limit) (placed []placement, failed int, f failure) {
	order := make([]int, len(p.requests))
	for m := range order {
		order[m] = m
	}
	for range order {
		placed, failed, f = p.try(order, limits)
		at := slices.Index(order, failed)
		if placed != nil || p.tries <= 0 || !slices.ContainsFunc(order[:at], func(m int) bool { return !p.equalRequests(m, failed) }) {
			break
		}
		order = slices.Insert(slices.Delete(order, at, at+1), 0, failed)
	}
	if placed == nil && p.haveRoom() {
		if placed = p.solveByOrder(order, limits); placed == nil {
			placed = p.solveByBans(order, limits)
		}
	} else if placed != nil {
		p.limits = limits
	}
	return placed, failed, f
}

func (p *gangPlan) equalRequests(m, other int) bool {
	return p.requests[m] == p.requests[other] || p.requests[m].key == p.requests[other].key
}

// haveRoom reports whether the sum of all free devices suffices for all requests. If not, no plan exists.
func (p *gangPlan) haveRoom() bool {
	for t := 0; t < int(numTypes) && !p.full; t++ {
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
		p.full = !asked.Within(free) || askedWhole > freeWhole
	}
	return !p.full
}

// solveByOrder tries to place the members in several orders: the given order, then sorted by the size or by the scope
// of their requests. In the first tries, members that request shares of several devices take the devices with the
// largest free amounts, in the widest allowed scope. In the last tries they take the devices that Allocate prefers.
func (p *gangPlan) solveByOrder(order []int, limits []limit) []placement {
	bySize, byScope := slices.Clone(order), slices.Clone(order)
	slices.SortStableFunc(bySize, func(l, r int) int { return cmp.Or(p.compareSizes(l, r), p.compareScopes(l, r)) })
	slices.SortStableFunc(byScope, func(l, r int) int { return cmp.Or(p.compareScopes(l, r), p.compareSizes(l, r)) })
	spread := slices.Clone(limits)
	shares := false
	for m, r := range p.requests {
		spread[m].spread = !limits[m].exact && r.sharesSeveral()
		shares = shares || spread[m].spread
	}
	for _, way := range []struct {
		order  []int
		limits []limit
		is     bool
	}{{order, spread, shares}, {bySize, spread, shares}, {byScope, spread, shares}, {bySize, limits, true}, {byScope, limits, true}} {
		if !way.is || p.tries <= 0 {
			continue
		}
		if placed, _, _ := p.try(way.order, way.limits); placed != nil {
			p.limits = way.limits
			return placed
		}
	}
	return nil
}

// compareSizes orders two members by the size of their requests. The member with the larger request comes first.
func (p *gangPlan) compareSizes(l, r int) int {
	return cmp.Compare(p.requests[r].size(), p.requests[l].size())
}

// size returns the largest amount that the request needs of any one device, in hundredths of a device. Bytes of memory
// do not count. An exclusive device counts as 100, an exclusive PCIe root as 200.
func (r *Request) size() (most int64) {
	for t := range r.of {
		if want := &r.of[t]; want.asked() {
			most = max(most, want.amounts[Core], want.amounts[MemoryRatio], want.amounts[RDMAShare], want.amounts[FPGAShare], 100*int64(want.exclusive))
		}
	}
	return most
}

// compareScopes orders two members by the scope that their requests require, the narrower scope first. For equal
// scopes, the member that needs more devices in the scope comes first.
func (p *gangPlan) compareScopes(l, r int) int {
	narrowest := func(m int) (scope Scope, count int) {
		scope = ScopeNode
		for t := range p.requests[m].of {
			if want := &p.requests[m].of[t]; want.asked() && want.scope > 0 {
				scope, count = min(scope, want.scope), max(count, want.count)
			}
		}
		return scope, count
	}
	scope, count := narrowest(l)
	other, otherCount := narrowest(r)
	return cmp.Or(cmp.Compare(scope, other), cmp.Compare(otherCount, count))
}

// solveByBans tries plans in which certain members must not use certain devices. It tries plans with fewer such
// restrictions first.
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

// tryPartly places members in the given order until one fails. partial is the number of placed members.
func (p *gangPlan) tryPartly(order []int, limits []limit) (placed []placement, failed int, f failure, partial int) {
	placed = make([]placement, len(order))
	s := p.start
	for n, m := range order {
		if placed[m], f = p.place(s, p.requests[m], &limits[m]); f.why != found {
			return placed, m, f, n
		}
		s = s.With(placed[m].allocation)
	}
	return placed, 0, f, len(order)
}

// place chooses devices in the state s for one member's request. The parameter within is the member's restriction on
// devices.
func (p *gangPlan) place(s *State, r *Request, within *limit) (placement, failure) {
	p.tries--
	x := newSearch(s, r, p.o)
	defer x.done()
	x.q.limit = within
	if f := x.run(); f.why != found {
		return placement{}, f
	}
	return placement{x.allocation(), x.chosen}, failure{}
}

// refusal returns why the failed member could not be placed. Either the node cannot serve this member's request alone,
// or it cannot serve the requests of all members together.
func (p *gangPlan) refusal(failed int, f failure) *Refusal {
	if _, refusal := Allocate(p.start, p.requests[failed], *p.o); refusal != nil {
		if !refusal.Unresolvable {
			refusal.Unresolvable = p.isUnresolvable()
		}
		return refusal
	}
	reason := fmt.Sprintf("Insufficient %s devices for %d members together, but enough for each alone", f.what, len(p.requests))
	return &Refusal{Reason: reason, Unresolvable: p.isUnresolvable()}
}

// isUnresolvable reports whether the members would not fit together even if no pod used devices of the node.
func (p *gangPlan) isUnresolvable() bool {
	if p.start == p.start.empty {
		return true
	}
	placed, _, _ := newGangPlan(p.start.empty, p.requests, p.o).solve(make([]limit, len(p.requests)))
	return placed == nil
}
