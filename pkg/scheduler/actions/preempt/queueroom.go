// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// This file has the part of a plan that concerns the gang's queue. Action preempt evicts pods of the gang's own queue, so that
// the queue admits the gang once they are evicted. Action reclaim asks about shares of queues (candidates.refuse, planner.kept).

// boundByQueue reports whether a plugin limits the queue whose pods the action evicts.
func (c *candidates) boundByQueue() bool { return c.limited && c.action == Name }

// queueAdmits reports whether the gang's queue admits the gang's minimum once the units are evicted. It returns true if the
// gang may choose its members among unlike tasks, because their request is not known before they are placed.
func (s *planner) queueAdmits(evicted []*unit) bool {
	if !s.of.candidates.boundByQueue() || !requestKnown(s.demand) {
		return true
	}
	var gone []*api.TaskInfo
	for _, u := range evicted {
		gone = append(gone, u.tasks...)
	}
	ssn := s.of.ssn
	return ssn.QueueUse.Admits(ssn.QueueUse.Ask(ssn.Queues[s.attempt.Job.Queue], gone).With(s.members...))
}

// refuseByQueue records why the gang's queue does not admit the gang's minimum once the units are evicted. It reports whether the
// queue only waits for pods that are being deleted.
func (s *planner) refuseByQueue(evicted []*unit) (waits bool) {
	name := s.of.ssn.Queues[s.attempt.Job.Queue].Name
	if leaving := s.leaving(); len(leaving.tasks) > 0 && s.queueAdmits(append(slices.Clone(evicted), leaving)) {
		s.refusal = fmt.Sprintf("queue %s has room once the pods that are being deleted are gone", name)
		return true
	}
	s.refusal = fmt.Sprintf("queue %s has no room for the gang even without the pods that may be evicted", name)
	return false
}

// leaving returns the pods of the gang's queue that are being deleted and will soon be gone. They count against the queue until
// then.
func (s *planner) leaving() *unit {
	leaving := &unit{}
	for uid, job := range s.of.ssn.Jobs {
		if !framework.IsDeletedJob(uid) || job.Queue != s.attempt.Job.Queue {
			continue
		}
		for _, task := range job.Tasks {
			if node := s.of.ssn.Nodes[task.NodeName]; node != nil {
				if on := node.Tasks[api.PodKey(task.Pod)]; on != nil && on.Status == api.Releasing { // Unknown if the pod stays for long
					leaving.tasks = append(leaving.tasks, task)
				}
			}
		}
	}
	return leaving
}

// makeRoomInQueue adds the cheapest units to the chosen ones until the gang's queue admits the gang's minimum, wherever the pods
// of these units are. It adds only units that release resources that the gang requests. gone is the set of the chosen units.
//
// It returns nil, and records the reason, in two cases: if the queue only waits for pods that are being deleted, and if more
// resources would have to be released than the gang requests. The queue then exceeds its limit, and evictions for one gang must
// not correct that.
func (s *planner) makeRoomInQueue(r *rooms, chosen []*unit, gone map[*unit]bool) []*unit {
	waits := s.refuseByQueue(chosen)
	rest := s.releasing(chosen, gone)
	all := slices.Concat(chosen, rest)
	if waits || !s.queueAdmits(all) {
		return nil
	}
	more := sort.Search(len(rest), func(more int) bool { return s.queueAdmits(all[:len(chosen)+more]) })
	if s.request.LessEqual(released(all[:len(chosen)+more-1]), api.Zero) {
		return nil
	}
	for _, u := range rest[:more] {
		gone[u] = true
		r.evict(u)
	}
	s.refusal = ""
	return slices.DeleteFunc(slices.Clone(s.units), func(u *unit) bool { return !gone[u] }) // the cheapest first
}

// releasing returns the units that release resources that the gang requests, other than the chosen ones: first the cheapest that break
// no PodDisruptionBudget and whose eviction has not just failed. The spare pods of a core come before it. gone is the set of the
// chosen units.
func (s *planner) releasing(chosen []*unit, gone map[*unit]bool) (units []*unit) {
	taken, left := maps.Clone(gone), s.budgets.clone()
	left.add(tasksOf(chosen))
	shrunk := map[*elastic]bool{} // these gangs lose extra pods, and may have no more pods to spare
	for _, u := range chosen {
		if u.extra() {
			shrunk[u.elastic] = true
		}
	}
	for _, dear := range []bool{false, true} {
		for _, u := range s.units {
			if taken[u] || u.extra() || shrunk[u.elastic] || !s.releases(u) {
				continue
			}
			together := u.withSpare(taken)
			if !left.admits(tasksOf(together), dear) {
				continue
			}
			left.add(tasksOf(together))
			for _, one := range together {
				taken[one] = true
			}
			units = append(units, together...)
		}
	}
	return units
}

// releases reports whether the unit's pods hold resources that the gang requests, other than places for pods.
func (s *planner) releases(u *unit) bool { return !common(released([]*unit{u}), s.request).IsEmpty() }

// queueAdmits reports whether the gang's queue admits the unit's pods again, beside the placed members. Of their requests, only
// the resources that the gang requests count.
func (t *trial) queueAdmits(u *unit) bool {
	if !t.of.candidates.boundByQueue() {
		return true
	}
	back := together(u.tasks)
	back.Resreq = common(back.Resreq, t.planner.request)
	back.InitResreq = back.Resreq
	if back.Resreq.IsEmpty() {
		return true
	}
	ssn := t.of.ssn
	return ssn.QueueUse.Admits(ssn.QueueUse.Ask(ssn.Queues[t.planner.attempt.Job.Queue], nil).With(back))
}

// correctsQueue reports whether pods stay evicted only because the gang's queue exceeds its limit: even without one of the units
// that the queue does not admit again, the others release as much as the gang requests.
func (t *trial) correctsQueue() bool {
	var refused []*unit
	evicted, _ := t.units()
	for _, u := range evicted {
		if !t.queueAdmits(u) && t.hasRoomFor(u) {
			refused = append(refused, u)
		}
	}
	return len(refused) > 0 && t.planner.request.LessEqual(released(refused[1:]), api.Zero)
}

// common returns the resources of which the request has some, without the places for pods.
func common(of, request *api.Resource) *api.Resource {
	part := api.EmptyResource()
	if request.MilliCPU > 0 {
		part.MilliCPU = of.MilliCPU
	}
	if request.Memory > 0 {
		part.Memory = of.Memory
	}
	for name, value := range request.ScalarResources {
		if value > 0 && name != v1.ResourcePods {
			part.AddScalar(name, of.ScalarResources[name])
		}
	}
	return part
}

// released returns the sum of the requests of the units' pods.
func released(units []*unit) *api.Resource {
	sum := api.EmptyResource()
	for _, u := range units {
		for _, task := range u.tasks {
			sum.Add(task.Resreq)
		}
	}
	return sum
}
