// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// SharesShortfall says how far a trial came that failed to place all tasks by a plan of how many tasks each node takes
// (TryShares).
type SharesShortfall struct {
	// Took is, for each node that took fewer tasks than planned, how many it took.
	Took map[string]int
	// Placed is how many tasks found a node.
	Placed int
	// QueueRefused reports whether the queue had no room for a task.
	QueueRefused bool
}

// TryShares places the tasks by a plan that says how many tasks each node gets: on each node the first tasks that the
// node accepts. If some tasks find no place, nothing is placed.
func TryShares(s *Part, tasks []*api.TaskInfo, plan []framework.NodeShare) (PartResult, SharesShortfall) {
	p := newPlacer(s)
	p.minimum = len(tasks)
	shortfall := SharesShortfall{Took: map[string]int{}}
	left := tasks
	for _, share := range plan {
		node, known := p.run.Index.Number(share.Node)
		if !known {
			continue
		}
		before := len(left)
		left, shortfall.QueueRefused = p.fillNode(left, node, share.Members)
		if n := before - len(left); n < share.Members {
			shortfall.Took[share.Node] = n
		}
		if shortfall.QueueRefused {
			break
		}
	}
	shortfall.Placed = len(tasks) - len(left)
	if len(left) > 0 {
		p.noteShortfall()
		p.changes.Discard()
		return PartResult{Rest: s.Tasks}, shortfall
	}
	return p.end(stillPending(s.attempt.Pending.Tasks[s.SubJob.UID])), SharesShortfall{}
}

// CountOnNode returns how many of the tasks the node takes, but not more than the parameter most. It places them and
// takes them back, because some plugins' filter results depend on the other tasks of the node.
func CountOnNode(s *Part, node int32, most int) int {
	p := newPlacer(s)
	left, _ := p.fillNode(s.Tasks, node, most)
	p.changes.Discard()
	return len(s.Tasks) - len(left)
}

// fillNode places tasks on the node, but not more than the parameter most, and returns the tasks that it did not place.
// It stops at a task that the queue refuses.
func (p *placer) fillNode(tasks []*api.TaskInfo, node int32, most int) (left []*api.TaskInfo, queueRefused bool) {
	refused := map[*feasible.TaskClass]bool{}
	for i, task := range tasks {
		if most == 0 {
			return append(left, tasks[i:]...), false
		}
		class := p.run.Finder.Class(task)
		if !refused[class] {
			if !p.wanted(task) {
				return append(left, tasks[i:]...), true
			}
			if p.placeAsked(task, node) {
				most--
				continue
			}
		}
		refused[class] = true
		left = append(left, task)
	}
	return left, false
}

// placeAsked runs the pre-predicates for the task, places the task on the node, and reports whether that succeeded.
func (p *placer) placeAsked(task *api.TaskInfo, node int32) bool {
	cache, err := p.run.Finder.Cache(task)
	if err == nil {
		err = p.run.Finder.PrePredicate(task)
	}
	return err == nil && p.placeOnNode(task, cache, node)
}
