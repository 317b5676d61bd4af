// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"errors"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// placement is what the session has decided for a task.
type placement struct {
	task       *api.TaskInfo
	node       string
	request    *request
	allocation *allocator.Allocation
	// moved are what members had that were given other devices for this one.
	moved map[*placement]*allocator.Allocation
}

// mostMoved bounds how many members on a node are given devices together: with more, those that come later take what is left.
const mostMoved = 16

// Reserve implements framework.Reserver: the task's pod is annotated with the devices that it gets, which its gang's other members on the
// node may get others for.
func (s *session) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	request := s.requestOf(task)
	if request == nil || node.Node == nil {
		return nil
	}
	if request.err != nil {
		return request.err
	}
	inventory, refusal := s.inventoryFor(request, node)
	if refusal != nil {
		return errors.New(refusal.Reason)
	}
	if inventory == nil {
		if allocated(task.Pod) != "" {
			s.ssn.Decide(task, schedulingv1alpha1.DeviceAllocatedAnnotation, "{}") // somebody else wrote it
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger := s.ledgerOf(node, inventory)
	waits := task.Status == api.Pipelined
	if refusal := ledger.refusal(waits); refusal != nil {
		return errors.New(refusal.Reason)
	}
	on := s.strategyFor(task, node, idle(node, waits).Clone().Add(task.Resreq)) // the node has the task already
	if members := s.movable(task, node.Name, waits); len(members) > 0 && !on.isAligned() {
		own := &placement{task: task, node: node.Name, request: request}
		if plan, refused := s.together(append(members, own), ledger, waits, on); refused == nil {
			own.moved = map[*placement]*allocator.Allocation{}
			for member, allocation := range plan {
				if member != own {
					own.moved[member] = member.allocation
				}
				s.decide(member, allocation)
			}
			return nil
		}
	}
	allocation, refused := on.allocate(ledger.beside(waits), request.Request)
	if refused != nil {
		return errors.New(refused.Reason)
	}
	s.decide(&placement{task: task, node: node.Name, request: request}, allocation)
	return nil
}

// Unreserve implements framework.Reserver. Members that were given other devices for the task have those from before, if nobody came after it.
func (s *session) Unreserve(task *api.TaskInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ssn.Undecide(task, schedulingv1alpha1.DeviceAllocatedAnnotation)
	own := s.placed[task.UID]
	if own == nil {
		return
	}
	delete(s.placed, task.UID)
	there := s.onNode[own.node]
	last := there[len(there)-1] == own
	s.onNode[own.node] = slices.DeleteFunc(there, func(other *placement) bool { return other == own })
	for member, before := range own.moved {
		if last && s.placed[member.task.UID] == member && !s.ssn.HandedOver(member.task.UID) {
			s.decide(member, before)
		}
	}
}

// decide annotates the task's pod with what it gets. The mutex is held.
func (s *session) decide(own *placement, allocation *allocator.Allocation) {
	own.allocation = allocation
	if s.placed[own.task.UID] == nil {
		s.placed[own.task.UID] = own
		s.onNode[own.node] = append(s.onNode[own.node], own)
	}
	s.ssn.Decide(own.task, schedulingv1alpha1.DeviceAllocatedAnnotation, allocation.Annotation())
}

// movable are the members of the task's gang on the node that may be given other devices: those that the session has placed, and not handed
// over, and that have no NUMA policy. None where they are many. The mutex is held.
func (s *session) movable(task *api.TaskInfo, node string, pipelined bool) []*placement {
	var members []*placement
	for _, own := range s.onNode[node] {
		if own.task.Job == task.Job && own.task.UID != task.UID && !s.ssn.HandedOver(own.task.UID) && (own.task.Status == api.Pipelined) == pipelined && !hasNUMAPolicy(own.task) {
			members = append(members, own)
		}
	}
	if len(members) >= mostMoved {
		return nil
	}
	return members
}

// together plans for members of a gang on one node together, by rank. The mutex is held.
func (s *session) together(members []*placement, ledger *ledger, waits bool, on strategy) (map[*placement]*allocator.Allocation, *allocator.Refusal) {
	slices.SortFunc(members, func(l, r *placement) int {
		switch {
		case s.ssn.TaskOrderFn(l.task, r.task):
			return -1
		case s.ssn.TaskOrderFn(r.task, l.task):
			return 1
		}
		return 0
	})
	state := ledger.beside(waits)
	requests := make([]*allocator.Request, len(members))
	for i, member := range members {
		requests[i] = member.request.Request
		state = state.Without(member.allocation)
	}
	allocations, refusal := allocator.AllocateTogether(state, requests, on.options)
	if refusal != nil {
		return nil, refusal
	}
	plan := make(map[*placement]*allocator.Allocation, len(members))
	for i, member := range members {
		plan[member] = allocations[i]
	}
	return plan, nil
}
