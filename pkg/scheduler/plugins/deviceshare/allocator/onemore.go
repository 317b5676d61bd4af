// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"slices"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// AllocateOneMore chooses devices for members of a gang on one node, of which one has none yet: had has what the others have, which is in use in the state, in the
// order of their ranks as the requests are. Others keep what they have if the one is the last, and finds devices of the scope of those that ask for the same; else
// all are placed as by AllocateTogether. Where there is a plan that leaves room for next, it is one that does: a member that asks for that, nil for none, may come.
func AllocateOneMore(s *State, requests []*Request, had []*Allocation, next *Request, o Options) ([]*Allocation, *Refusal) {
	start := s
	for _, a := range had {
		start = start.Without(a)
	}
	p := newGangPlan(start, requests, &o)
	allocations := p.addLast(s, had)
	if allocations == nil {
		var failed int
		var f failure
		if allocations, failed, f = p.solveLevel(); allocations == nil {
			return nil, p.refusal(failed, f)
		}
	}
	if next == nil || !next.mayBlockItself(s.Inventory) || p.leaveRoomFor(next, allocations) {
		return allocations, nil
	}
	beside := newGangPlan(start, append(slices.Clip(requests), next), &o)
	if beside.haveRoom() {
		if more, _, _ := beside.solveLevel(); more != nil {
			return more[:len(requests)], nil
		}
	}
	return allocations, nil
}

// addLast places the last member beside the others; nil if it is another that has no devices yet, or has to have them of another scope.
func (p *gangPlan) addLast(s *State, had []*Allocation) []*Allocation {
	last := len(had) - 1
	if last == 0 || slices.Index(had, nil) != last {
		return nil
	}
	placed := make([]placement, len(had))
	for m, a := range had[:last] {
		placed[m] = placement{a, p.start.chosenBy(a)}
	}
	var f failure
	if placed[last], f = p.place(s, p.requests[last], &limit{}); f.why != found {
		return nil
	}
	if t, ok := p.requests[last].leading(); ok && !p.areLevel(placed, p.shapeOf(last), t) {
		return nil
	}
	return p.byRank(placed)
}

// chosenBy has a bit for each device of the allocation.
func (s *State) chosenBy(a *Allocation) (chosen [numTypes]uint64) {
	for t := range a {
		for i := range a[t] {
			if at, ok := s.index(Type(t), a[t][i].Minor); ok {
				chosen[t] |= 1 << at
			}
		}
	}
	return chosen
}

func (p *gangPlan) leaveRoomFor(next *Request, allocations []*Allocation) bool {
	s := p.start
	for _, a := range allocations {
		s = s.With(a)
	}
	_, f := p.place(s, next, &limit{})
	return f.why == found
}

// mayBlockItself reports whether, on such a node, one pod may take devices so that none are left for an equal pod, though another
// choice would leave some. That cannot happen if each takes one device, or whole ones of one type.
func (r *Request) mayBlockItself(i *Inventory) bool {
	if r.sharesSeveral() {
		return true
	}
	byTable := r.partition.asked || i.PartitionPolicy == v1alpha1.PartitionHonor
	for t := range r.of {
		if want := &r.of[t]; want.count > 1 && (len(r.joint) > 0 || want.exclusive == PCIeLevel || Type(t) == GPU && byTable) {
			return true
		}
	}
	return false
}

// sharesSeveral is true of a request for less than all of each of several devices of a type. By memory, that may be less.
func (r *Request) sharesSeveral() bool {
	whole := [numTypes]Resource{GPU: MemoryRatio, RDMA: RDMAShare, FPGA: FPGAShare}
	for t := range r.of {
		if r.of[t].count > 1 && r.of[t].amounts[whole[t]] < 100 {
			return true
		}
	}
	return false
}
