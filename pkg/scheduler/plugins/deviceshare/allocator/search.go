// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// search finds devices for one request on one node.
//
// The usable amounts of a device do not depend on other devices (findCandidates), so a placement is a number of candidates from
// each group: the devices of a type on one PCIe root. For a type alone, or for the primary of joint types, each part of the node is
// tried, the narrowest scope first, for the best numbers (choose). That covers all different choices, so an existing placement is
// found. The cost grows with the number of groups, not with their subsets. Joint secondaries follow from the roots of their
// primary.
type search struct {
	q problem

	candidates [numTypes][]candidate
	// isScored is true of types whose candidates the strategy was asked about.
	isScored [numTypes]bool
	// mask has a bit for each candidate, and chosen for each that is taken.
	mask, chosen [numTypes]uint64
	template     string
	// joint are the types that are placed together, the primary first.
	joint []Type
	sack  knapsack

	// What follows is room to work in.
	groupNUMA []int
	inPart    []int
	onRoot    [numTypes][]int
	rounds    []int
}

// problem is what is asked of a node, and which of its devices could serve.
type problem struct {
	s *State
	r *Request
	o *Options
	// limit is nil outside plans for several pods.
	limit *limit
	// shares reports whether the GPUs are shared ones.
	shares bool
}

// limit is what a plan for several pods forbids each.
type limit struct {
	// banned has a bit for each device that may not be taken.
	banned [numTypes]uint64
	// scope, if any, is what the devices of the type must share; no narrower one will do if exact.
	of    Type
	scope Scope
	exact bool
	// spread reports whether shares are taken from the devices with most room, in the widest scope.
	spread bool
}

// spreads reports whether shares of the type are to be spread.
func (q *problem) spreads(t Type) bool { return q.limit != nil && q.limit.spread && q.sharesOf(t) }

// scopeOf is the scope that the limit, which may be nil, has for the type; 0 for none.
func (l *limit) scopeOf(t Type) (scope Scope, exact bool) {
	if l == nil || l.of != t {
		return 0, false
	}
	return l.scope, l.exact && l.scope > 0
}

var searches = sync.Pool{New: func() any { return new(search) }}

func newSearch(s *State, r *Request, o *Options) *search {
	x := searches.Get().(*search)
	x.q = problem{s: s, r: r, o: o}
	x.sack.q = &x.q
	return x
}

func (x *search) done() {
	x.q = problem{}
	searches.Put(x)
}

// run chooses devices of all types; chosen has them if there is no failure.
func (x *search) run() failure {
	x.chosen, x.template, x.q.shares = [numTypes]uint64{}, "", x.q.s.Shares(x.q.r)
	for t := range x.q.r.of {
		want := &x.q.r.of[t]
		if !want.asked() {
			continue
		}
		if want.count > len(x.q.devices(Type(t))) {
			x.candidates[t], x.mask[t] = x.candidates[t][:0], 0
			return failure{tooFew, Type(t)}
		}
		x.findCandidates(Type(t))
		if len(x.candidates[t]) < x.q.count(Type(t)) || len(x.candidates[t]) == 0 {
			return failure{tooFew, Type(t)}
		}
	}
	if f := x.checkGPUs(); f.why != found {
		return f
	}
	x.setJoint()
	for t := range x.q.r.of {
		if !x.q.r.of[t].asked() || slices.Index(x.joint, Type(t)) > 0 {
			continue
		}
		if f := x.place(Type(t)); f.why != found {
			return f
		}
	}
	return failure{}
}

// checkGPUs is what must be true of the node for any of its GPUs to do.
func (x *search) checkGPUs() failure {
	if !x.q.shares {
		return failure{}
	}
	if x.q.r.isolation != x.q.s.IsolationProvider {
		return failure{otherIsolation, GPU}
	}
	if !x.q.r.templated {
		return failure{}
	}
	var ok bool
	if x.template, ok = x.q.o.Templates.match(x.q.s.Vendor, x.q.s.Model, x.q.r.of[GPU].amounts); !ok {
		return failure{noTemplate, GPU}
	}
	return failure{}
}

// setJoint takes the types in the pod's order, except that GPUs which must be a partition decide for the others.
func (x *search) setJoint() {
	x.joint = append(x.joint[:0], x.q.r.joint...)
	if at := slices.Index(x.joint, GPU); at > 0 && x.q.mustPartition() {
		copy(x.joint[1:], x.joint[:at])
		x.joint[0] = GPU
	}
}

// mustPartition reports whether the GPUs must be an entry of the node's partition table.
func (q *problem) mustPartition() bool {
	return !q.shares && (q.r.partition.asked || q.s.PartitionPolicy == v1alpha1.PartitionHonor)
}

// count is how many devices of the type the pod asks for on this node, at least.
func (q *problem) count(t Type) int {
	want := &q.r.of[t]
	if !want.all {
		return want.count
	}
	n := 0
	for i := range q.devices(t) {
		if v := q.judge(t, i); v == usable || v > notInNUMA {
			n++
		}
	}
	return n
}

// place chooses devices of a type, and of the types joint with it.
func (x *search) place(t Type) failure {
	var secondaries []Type
	if x.isPrimary(t) {
		secondaries = x.joint[1:]
	}
	for _, secondary := range secondaries {
		x.sortCandidates(secondary, true)
	}
	x.sortCandidates(t, len(secondaries) > 0)
	plan, f := x.placeWithin(t, secondaries, 0)
	if f.why == found {
		x.take(t, &plan)
	}
	return f
}

func (x *search) isPrimary(t Type) bool { return len(x.joint) > 0 && x.joint[0] == t }

// placeWithin tries each part of the node for those secondaries that must share one, then the rest.
func (x *search) placeWithin(t Type, secondaries []Type, from int) (plan, failure) {
	for ; from < len(secondaries); from++ {
		if scope := x.q.r.of[secondaries[from]].scope; scope > 0 && scope < ScopeNode {
			return x.placeWithinEach(t, secondaries, from, scope)
		}
	}
	if t == GPU && !x.q.shares {
		if p, f, final := x.placePartition(secondaries); final {
			return p, f
		}
	}
	return x.placeByTopology(t, secondaries)
}

// placeWithinEach leaves the secondary its candidates of one part after another. A device that does not say where it is shares every part with itself.
func (x *search) placeWithinEach(t Type, secondaries []Type, from int, scope Scope) (best plan, f failure) {
	secondary := secondaries[from]
	all := append([]candidate(nil), x.candidates[secondary]...)
	partOf := func(c candidate) int {
		if part := x.q.partOf(secondary, c.index, scope); part >= 0 {
			return part
		}
		return -1 - c.index
	}
	f = failure{notInScope, secondary}
	for at, first := range all {
		part := partOf(first)
		if slices.ContainsFunc(all[:at], func(c candidate) bool { return partOf(c) == part }) {
			continue
		}
		x.candidates[secondary] = x.candidates[secondary][:0]
		for _, c := range all[at:] {
			if partOf(c) == part {
				x.candidates[secondary] = append(x.candidates[secondary], c)
			}
		}
		if n := len(x.candidates[secondary]); n < x.q.r.of[secondary].count || x.q.r.of[secondary].all && n < len(all) {
			continue
		}
		p, why := x.placeWithin(t, secondaries, from+1)
		if why.why != found {
			f = why
		} else if !best.ok || p.better(&best) {
			best = p
		}
	}
	x.candidates[secondary] = append(x.candidates[secondary][:0], all...)
	if best.ok {
		return best, failure{}
	}
	return best, f
}

// parts is how many parts of the scope the node has, and partOf which of them a device is in; -1 for none.
func (q *problem) parts(t Type, scope Scope) int {
	switch scope {
	case ScopeDevice:
		return len(q.devices(t))
	case ScopePCIe:
		return q.s.pcies
	case ScopeNUMANode:
		return q.s.numaNodes
	}
	return 1
}

func (q *problem) partOf(t Type, index int, scope Scope) int {
	d := &q.s.Devices[t][index]
	switch scope {
	case ScopeDevice:
		return index
	case ScopePCIe:
		return d.PCIe
	case ScopeNUMANode:
		return d.NUMA
	}
	return 0
}

// take notes the plan's devices as chosen.
func (x *search) take(t Type, p *plan) {
	x.chosen[t] |= p.value.devices
	for secondary := range p.secondaries {
		x.chosen[secondary] |= p.secondaries[secondary]
	}
}

// allocation is what was chosen.
func (x *search) allocation() *Allocation {
	a := &Allocation{}
	for t := range a {
		if x.chosen[t] == 0 {
			continue
		}
		n := bits.OnesCount64(x.chosen[t])
		a[t] = make([]DeviceAllocation, 0, n)
		var vfs []VF
		if x.q.r.of[t].vfs != nil {
			vfs = make([]VF, 0, n)
		}
		for left := x.chosen[t]; left != 0; left &= left - 1 {
			i := bits.TrailingZeros64(left)
			d := &x.q.s.Devices[t][i]
			amounts, _ := fill(x.q.r.of[t].amounts, Type(t), d)
			given := DeviceAllocation{Minor: d.Minor, UUID: d.UUID, Amounts: amounts, Exclusive: x.q.r.of[t].exclusive}
			if Type(t) == GPU {
				given.Template = x.template
			}
			if vfs != nil {
				vf, _ := x.q.freeVF(Type(t), i)
				vfs = append(vfs, vf)
				given.VFs = vfs[len(vfs)-1 : len(vfs) : len(vfs)]
			}
			a[t] = append(a[t], given)
		}
	}
	return a
}
