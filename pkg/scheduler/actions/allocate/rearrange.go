// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
)

const (
	// maxOrders bounds how many orders of classes, or of sub-jobs, are tried: each brings one more that found no room to the
	// front, and gangs have a handful of roles, so that six bring each of them there.
	maxOrders = 6
	// maxUncachedVerdicts bounds it when tasks are placed one by one, which asks plugins on every node for each: 500 tasks on
	// 1,000 nodes are tried once more than three times.
	maxUncachedVerdicts = 500_000
)

// retryRearranged looks for another way when tasks of different classes may have got into each other's way, as in
// https://github.com/volcano-sh/volcano/issues/1297: a packing of the
// first tasks that make the minimum; then orders in which the class that found no room comes first, as often as it is another
// one; and where the minimum needs not all tasks, other choices of them: the smallest, then a packing of any.
func (s *partSearch) retryRearranged(blocked []*feasible.TaskClass) subJobResult {
	minimum := min(s.part.needed, len(s.part.tasks))
	classes := s.run.ClassesOf(s.part.tasks)
	if len(classes) == 1 || len(classes) > s.run.Finder.MaxCaches() {
		return subJobResult{}
	}
	if result := s.tryPacked(minimum, minimum); result.outcome != notPlaced {
		return result
	}
	further := min(max(1, memory.MaxFurtherLooks/(len(s.part.tasks)*len(classes))), maxOrders+3)
	looks := further * len(s.part.tasks) * len(classes)
	if slices.ContainsFunc(classes, (*feasible.TaskClass).OneByOne) {
		further = min(further, 3+maxUncachedVerdicts/(len(s.part.tasks)*len(s.part.scope.Set.Nodes)))
		looks = further * len(s.part.tasks) * len(s.part.scope.Set.Nodes)
	}
	if s.isVain(memory.OtherOrders) {
		s.run.Memory.Orders.Finish(s.orderSearch())
	} else if s.noteVain(memory.FirstOrders); s.run.Memory.Orders.AcquireAll(s.orderSearch(), looks) {
		if result := s.tryOrders(blocked, further, minimum, min(maxOrders, len(classes))); result.outcome != notPlaced {
			return result
		}
		s.noteVain(memory.OtherOrders)
	} else {
		s.attempt.Found.Unfinished++
	}
	if minimum < len(s.part.tasks) {
		if result := s.tryPacked(len(s.part.tasks), minimum); result.outcome != notPlaced {
			return result
		}
	}
	return subJobResult{}
}

// orderSearch is the search for an order of the tasks in which they find room.
func (s *partSearch) orderSearch() memory.Search {
	return s.run.SearchOf(s.attempt.Job, s.part.scope.Set.Name, s.part.idleOnly)
}

// tryOrders tries orders in which the class that found no room comes first, as often as it is another one, and at the most so many; then
// task order, and where not all are needed the smallest first. All in all it tries no more often than given.
func (s *partSearch) tryOrders(blocked []*feasible.TaskClass, most, minimum, orders int) subJobResult {
	again := func() bool { most--; return most >= 0 }
	first := map[*feasible.TaskClass]int{}
	for n := 1; n <= orders && again(); n++ {
		next := slices.IndexFunc(blocked, func(c *feasible.TaskClass) bool { return first[c] == 0 })
		if next < 0 {
			break
		}
		first[blocked[next]] = n
		order := func(l, r batch) int { return cmp.Or(cmp.Compare(first[r.class], first[l.class]), largestFirst(l, r)) }
		var result subJobResult
		if result, blocked = try(s.part, s.part.needed, arrangement{order: order, anyOrder: true}); result.outcome != notPlaced {
			return result
		}
	}
	if again() {
		if result, _ := try(s.part, s.part.needed, arrangement{}); result.outcome != notPlaced {
			return result
		}
	}
	if needed := s.neededFirst(); needed != nil && minimum < len(s.part.tasks) && again() {
		of := *s.part
		of.tasks = needed
		if result, _ := try(&of, minimum, arrangement{order: largestFirst}); result.outcome != notPlaced {
			return result
		}
	}
	if minimum < len(s.part.tasks) && again() {
		if result, _ := try(s.part, len(s.part.tasks), arrangement{order: smallestFirst}); result.outcome != notPlaced {
			return result
		}
	}
	return subJobResult{}
}

// neededFirst are the tasks with those first that the minima of roles need; nil where these need none.
func (s *partSearch) neededFirst() []*api.TaskInfo {
	lacking := s.part.neededByRole()
	var needed, others []*api.TaskInfo
	for _, task := range s.part.tasks {
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
