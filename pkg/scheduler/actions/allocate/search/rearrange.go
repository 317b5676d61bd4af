// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

const (
	// maxOrders bounds how many orders of task classes, or of sub-jobs, are tried. Each order moves one more class or
	// sub-job that found no room to the front. Gangs have few roles, so six orders suffice to move the class of each
	// role to the front once.
	maxOrders = 6
	// maxUncachedVerdicts bounds the filter results for trials in other orders of tasks that are placed one by one. The
	// first three such trials do not count. Each trial needs new filter results of each task on every node. So 500
	// tasks on 1,000 nodes get four trials at most.
	maxUncachedVerdicts = 500_000
)

// retryRearranged looks for another placement when tasks of different classes may have blocked each other, as in
// https://github.com/volcano-sh/volcano/issues/1297. First it tries a packing plan for the first tasks that make up the
// minimum. Then it tries orders in which the class that found no room comes first, as long as another class finds no
// room each time. If the minimum does not need all tasks, it also tries to place other tasks than the first ones: the
// smallest tasks, then any tasks by a packing plan.
func (s *partSearch) retryRearranged(blocked []*feasible.TaskClass) trial.PartResult {
	minimum := min(s.part.Needed, len(s.part.Tasks))
	classes := s.run.ClassesOf(s.part.Tasks)
	if len(classes) == 1 || len(classes) > s.run.Finder.MaxCaches() {
		return trial.PartResult{}
	}
	if result := s.tryPacked(minimum, minimum); result.Outcome != trial.NotPlaced {
		return result
	}
	further := min(max(1, crosssession.MaxFurtherLooks/(len(s.part.Tasks)*len(classes))), maxOrders+3)
	looks := further * len(s.part.Tasks) * len(classes)
	if slices.ContainsFunc(classes, (*feasible.TaskClass).OneByOne) {
		further = min(further, 3+maxUncachedVerdicts/(len(s.part.Tasks)*len(s.part.Scope.Set.Nodes)))
		looks = further * len(s.part.Tasks) * len(s.part.Scope.Set.Nodes)
	}
	if s.hasFailed(crosssession.OtherOrders) {
		s.run.CrossSession.Orders.Finish(s.orderSearch())
	} else if s.recordFailed(crosssession.FirstOrders); s.run.CrossSession.Orders.AcquireAll(s.orderSearch(), looks) {
		if result := s.tryOrders(blocked, further, minimum, min(maxOrders, len(classes))); result.Outcome != trial.NotPlaced {
			return result
		}
		s.recordFailed(crosssession.OtherOrders)
	} else {
		s.attempt.Found.Unfinished++
	}
	if minimum < len(s.part.Tasks) {
		if result := s.tryPacked(len(s.part.Tasks), minimum); result.Outcome != trial.NotPlaced {
			return result
		}
	}
	return trial.PartResult{}
}

// tryOrders tries orders in which a class that found no room comes first, as long as another class finds no room each
// time. blocked are the classes that found no room before. orders bounds the number of these orders. Then it tries task
// order. If minimum, the number of tasks that must be placed, is less than all tasks, it also tries other tasks: first
// the tasks that roles need, and then the smallest tasks. most bounds the number of all trials.
func (s *partSearch) tryOrders(blocked []*feasible.TaskClass, most, minimum, orders int) trial.PartResult {
	again := func() bool { most--; return most >= 0 }
	first := map[*feasible.TaskClass]int{}
	for n := 1; n <= orders && again(); n++ {
		next := slices.IndexFunc(blocked, func(c *feasible.TaskClass) bool { return first[c] == 0 })
		if next < 0 {
			break
		}
		first[blocked[next]] = n
		order := func(l, r trial.Batch) int {
			return cmp.Or(cmp.Compare(first[r.Class], first[l.Class]), trial.LargestFirst(l, r))
		}
		var result trial.PartResult
		if result, blocked = trial.Try(s.part, s.part.Needed, trial.Arrangement{Order: order, AnyOrder: true}); result.Outcome != trial.NotPlaced {
			return result
		}
	}
	if again() {
		if result, _ := trial.Try(s.part, s.part.Needed, trial.Arrangement{}); result.Outcome != trial.NotPlaced {
			return result
		}
	}
	if needed := s.neededFirst(); needed != nil && minimum < len(s.part.Tasks) && again() {
		of := *s.part
		of.Tasks = needed
		if result, _ := trial.Try(&of, minimum, trial.Arrangement{Order: trial.LargestFirst}); result.Outcome != trial.NotPlaced {
			return result
		}
	}
	if minimum < len(s.part.Tasks) && again() {
		if result, _ := trial.Try(s.part, len(s.part.Tasks), trial.Arrangement{Order: trial.SmallestFirst}); result.Outcome != trial.NotPlaced {
			return result
		}
	}
	return trial.PartResult{}
}

// neededFirst returns the search's tasks (part.Tasks), beginning with the tasks that the minima of roles need; nil if
// no role needs any of these tasks.
func (s *partSearch) neededFirst() []*api.TaskInfo {
	lacking := s.part.NeededByRole()
	var needed, others []*api.TaskInfo
	for _, task := range s.part.Tasks {
		if lacking[task.TaskRole] > 0 {
			lacking[task.TaskRole]--
			needed = append(needed, task)
		} else {
			others = append(others, task)
		}
	}
	if len(needed) == 0 {
		return nil
	}
	return append(needed, others...)
}
