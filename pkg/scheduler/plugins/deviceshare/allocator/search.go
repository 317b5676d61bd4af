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
// The usable amounts of a device do not depend on other devices, so findCandidates checks each device alone. The
// candidates of a type on one PCIe root form a group. The search only decides how many devices to take from each group,
// because each group gives its best candidates first. So the cost grows with the number of groups, not with the number
// of their subsets.
//
// For a single type, or for the primary (first) of joint types, the search tries each part of the node, the narrowest
// scope first. In each part, the method choose finds the best number of devices for each group. If a placement exists,
// the search finds one. The devices of the other joint types (secondaries) then follow from the PCIe roots of the
// primary's devices.
type search struct {
	q problem

	candidates [numTypes][]candidate
	// isScored marks the types whose candidates have scores.
	isScored [numTypes]bool
	// mask has, for each type, a bit for each candidate. chosen has, for each type, a bit for each chosen device.
	mask, chosen [numTypes]uint64
	template     string
	// joint are the types whose devices are chosen together, the primary type first.
	joint []Type
	sack  knapsack

	// The fields below are buffers that later searches reuse.
	groupNUMA []int
	inPart    []int
	onRoot    [numTypes][]int
	rounds    []int
}

// problem is the input of a search for devices: a request, a state and the restrictions on devices.
type problem struct {
	s *State
	r *Request
	o *Options
	// limit is the restriction on the devices of this pod in a plan for several pods; nil if the search is for one pod
	// only.
	limit *limit
	// shares reports whether the request is for parts of GPUs.
	shares bool
}

// limit is a restriction on the devices of one pod in a plan for several pods.
type limit struct {
	// banned has, for each type, a bit for each device that the pod must not use.
	banned [numTypes]uint64
	// scope, unless 0, limits where the pod's devices of one type, given by field of, may be: all in one topology scope of
	// this kind, such as one NUMA node. If exact is set, they must not all be in one narrower scope, such as one PCIe switch.
	of    Type
	scope Scope
	exact bool
	// spread reports whether shares are taken from the devices with the largest free amounts, in the widest scope.
	spread bool
}

// spreads reports whether a plan for several pods takes shares of the type from the devices with the largest free
// amounts.
func (q *problem) spreads(t Type) bool { return q.limit != nil && q.limit.spread && q.sharesOf(t) }

// scopeOf returns the scope that the limit requires for the type; 0 if it requires none. exact reports whether the
// devices must not be together in a narrower scope. The limit may be nil.
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

// run chooses devices of all requested types. If it returns no failure, x.chosen has the chosen devices.
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

// checkGPUs checks the node's GPUs for a request for a share of a GPU. The node must have the requested isolation
// provider. For a request by template it must also have a matching template.
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

// setJoint sets the joint types in the order of the pod's annotation device-joint-allocate. If the GPUs must be an
// entry of the node's partition table, it puts GPUs first.
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

// count returns the smallest number of devices of the type that the pod needs on this node. If the pod requests all
// matching devices, count also includes matching devices that other pods use.
func (q *problem) count(t Type) int {
	want := &q.r.of[t]
	if !want.all {
		return want.count
	}
	n := 0
	for i := range q.devices(t) {
		if v := q.verdictOn(t, i); v == usable || v > notInNUMA {
			n++
		}
	}
	return n
}

// place chooses devices of the type. If the type is the primary (first) of joint types, place also chooses devices of
// the other joint types.
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
		x.recordChoice(t, &plan)
	}
	return f
}

func (x *search) isPrimary(t Type) bool { return len(x.joint) > 0 && x.joint[0] == t }

// placeWithin chooses devices of type t and of the secondary types (joint types after the first). Secondary types at
// index from or later may have to be together in one part of the node. If so, placeWithin tries one part after another.
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

// placeWithinEach tries each part of the node (for example, each NUMA node) for the type secondaries[from] and returns
// the best plan. For each part it restricts the candidates of that type to the part. A device with an unknown location
// counts as a part of its own. secondaries are the joint types other than the first.
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

// parts returns how many parts of the given scope the node has. partOf returns the index of the part that contains a
// device; -1 if unknown.
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

// recordChoice adds the plan's devices to the search's chosen devices.
func (x *search) recordChoice(t Type, p *plan) {
	x.chosen[t] |= p.value.devices
	for secondary := range p.secondaries {
		x.chosen[secondary] |= p.secondaries[secondary]
	}
}

// allocation returns the devices that the search has chosen as an Allocation.
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
