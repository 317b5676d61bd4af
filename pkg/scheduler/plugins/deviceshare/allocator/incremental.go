// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"slices"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// AllocateOneMore chooses devices for the members of a gang on one node when all but one of the members already have
// devices. requests are in the order of the members' ranks. had are the present allocations in the same order; the
// entry of the new member is nil. The state s includes these allocations.
//
// If the new member has the highest rank and finds devices in the same scope as members with equal requests, it gets
// these devices. The other members then keep their devices, but members with equal requests may exchange allocations,
// so that lower ranks come first on the node. Otherwise all members are placed again, as AllocateTogether does. If next
// is not nil, AllocateOneMore prefers a plan that leaves devices for one more member with the request next. It may
// place all members again for that.
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

// addLast places the member with the highest rank beside the allocations of the other members. It returns nil if that
// member already has devices, or finds none in the same scope as the devices of members with equal requests.
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
	if t, ok := p.requests[last].leading(); ok && !p.areLevel(placed, p.equalMembers(last), t) {
		return nil
	}
	return p.byRank(placed)
}

// chosenBy returns, for each type, a mask with a bit for each device of the allocation that is in the inventory.
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

// mayBlockItself reports whether a pod with the request may take devices of the node so that a second pod with an equal
// request finds none, although another choice would leave enough. This cannot happen if the request is for one device
// of each type. Nor can it happen if the request is for whole devices of one type without partitions and exclusive PCIe
// roots.
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

// sharesSeveral reports whether the request is for a part of each of several devices of one type. It also returns true
// for a request by bytes of memory, because the bytes may be less than a whole device.
func (r *Request) sharesSeveral() bool {
	whole := [numTypes]Resource{GPU: MemoryRatio, RDMA: RDMAShare, FPGA: FPGAShare}
	for t := range r.of {
		if r.of[t].count > 1 && r.of[t].amounts[whole[t]] < 100 {
			return true
		}
	}
	return false
}
