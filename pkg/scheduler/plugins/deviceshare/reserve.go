// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"errors"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// placement is the session's decision about a task: its node and its devices.
type placement struct {
	task       *api.TaskInfo
	node       string
	request    *request
	allocation *allocator.Allocation
	// cpus is the number of the task's exclusive CPUs on the NUMA node numa, on which its devices are, too. It is 0 if the
	// CPUs and the devices may be on different NUMA nodes.
	numa, cpus int
	// moved has the former allocations of members that got other devices so that this task could be placed.
	moved map[*placement]*allocator.Allocation
}

// Reserve implements framework.Reserver. It chooses the task's devices and writes them into the pod's annotation. To
// make the task fit, other members of the gang on the node may get other devices than before.
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
			s.ssn.StageAnnotation(task, schedulingv1alpha1.DeviceAllocatedAnnotation, noDevices) // replaces a value that a tenant wrote
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
	on := s.strategyFor(task, node, idle(node, waits).Clone().Add(task.Resreq)) // the idle resources no longer include the task's requests
	own := &placement{task: task, node: node.Name, request: request}
	if !on.isAligned() && s.reserveBeside(own, ledger, waits, on) {
		return nil
	}
	allocation, numa, refused := on.allocate(ledger.beside(waits), request.Request)
	if refused != nil {
		return errors.New(refused.Reason)
	}
	if numa != noNUMANode {
		own.numa, own.cpus = numa, exclusiveCPUs(task.Pod)
	}
	s.decide(own, allocation)
	return nil
}

// reserveBeside allocates devices to a member together with the other members of its gang on the node. The other
// members may get other devices than before. reserveBeside returns false if the member cannot get devices in this way.
//
// If all members have equal requests, reserveBeside prefers devices that leave enough for one more member. Then no
// member has to get other devices when that member is placed. The caller holds s.mu.
func (s *session) reserveBeside(own *placement, ledger *ledger, waits bool, on strategy) bool {
	var next *allocator.Request
	if job := s.ssn.Jobs[own.task.Job]; job != nil && len(job.TaskStatusIndex[api.Pending]) > 0 && !s.isUnlike(job) {
		next = own.request.Request
	}
	members := s.byRank(own, waits)
	if len(members) == 1 && next == nil {
		return false
	}
	requests, had := requestsOf(members)
	allocations, refused := allocator.AllocateOneMore(ledger.beside(waits), requests, had, next, on.options)
	if refused != nil {
		return false
	}
	own.moved = map[*placement]*allocator.Allocation{}
	for i, member := range members {
		if member != own && member.allocation != allocations[i] {
			own.moved[member] = member.allocation
		}
		if member.allocation != allocations[i] {
			s.decide(member, allocations[i])
		}
	}
	return true
}

// Unreserve implements framework.Reserver. Members that got other devices when the task was placed get their former
// devices back, unless another task was placed on the node since then.
func (s *session) Unreserve(task *api.TaskInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ssn.UnstageAnnotation(task, schedulingv1alpha1.DeviceAllocatedAnnotation)
	own := s.placed[task.UID]
	if own == nil {
		return
	}
	delete(s.placed, task.UID)
	delete(s.fresh, own.node)
	there := s.onNode[own.node]
	last := there[len(there)-1] == own
	s.onNode[own.node] = slices.DeleteFunc(there, func(other *placement) bool { return other == own })
	for member, before := range own.moved {
		if last && s.placed[member.task.UID] == member && !s.ssn.Committed(member.task.UID) {
			s.decide(member, before)
		}
	}
}

// decide records the placement with the given allocation, and sets the pod's annotation device-allocated. The caller
// holds s.mu.
func (s *session) decide(own *placement, allocation *allocator.Allocation) {
	own.allocation = allocation
	delete(s.fresh, own.node)
	if s.placed[own.task.UID] == nil {
		s.placed[own.task.UID] = own
		s.onNode[own.node] = append(s.onNode[own.node], own)
	}
	s.ssn.StageAnnotation(own.task, schedulingv1alpha1.DeviceAllocatedAnnotation, allocation.Annotation())
	s.queues.recount(own)
}

// byRank returns, sorted by rank, own and the placements of other members of its gang on the node that may get other
// devices. These are members without a NUMA policy that this session has placed and not handed over. If pipelined is
// set, only members that wait for resources are returned, otherwise only members that do not wait. The caller holds
// s.mu.
func (s *session) byRank(own *placement, pipelined bool) []*placement {
	members := []*placement{own}
	for _, other := range s.onNode[own.node] {
		if other.task.Job == own.task.Job && other.task.UID != own.task.UID && !s.ssn.Committed(other.task.UID) &&
			(other.task.Status == api.Pipelined) == pipelined && !hasNUMAPolicy(other.task) {
			members = append(members, other)
		}
	}
	slices.SortFunc(members, func(l, r *placement) int { return s.ranks.Compare(l.task, r.task) })
	return members
}

// requestsOf returns the requests and the allocations of the placements.
func requestsOf(members []*placement) (requests []*allocator.Request, had []*allocator.Allocation) {
	requests, had = make([]*allocator.Request, len(members)), make([]*allocator.Allocation, len(members))
	for i, member := range members {
		requests[i], had[i] = member.request.Request, member.allocation
	}
	return requests, had
}

// fitsBeside reports whether the task of the placement fits on the node if other members of its gang there may get
// other devices. The caller holds s.mu.
func (s *session) fitsBeside(own *placement, state *allocator.State, waits bool, on strategy) bool {
	members := s.byRank(own, waits)
	if len(members) == 1 {
		return false
	}
	key := besideKey{state, own.task.Job, own.request.key, on.context}
	if s.tooTight[key] {
		return false
	}
	requests, had := requestsOf(members)
	for _, allocation := range had {
		state = state.Without(allocation)
	}
	if _, refused := allocator.AllocateTogether(state, requests, on.options); refused != nil {
		if len(s.tooTight) >= mostTooTight {
			clear(s.tooTight)
		}
		s.tooTight[key] = true
		return false
	}
	return true
}

// besideKey identifies a plan for members of a gang on one node: by the state of the node's devices, the gang, and the
// request of the new member.
type besideKey struct {
	state   *allocator.State
	job     api.JobID
	request uint64
	context uint64
}

// mostTooTight limits the number of keys in session.tooTight, the plans that were tried without success. Each key keeps
// a state of devices in memory.
const mostTooTight = 4096
