// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// Refusal says that a node of a packing plan refuses a task of a class. Node and Class are indexes in the packing
// problem.
type Refusal struct{ Node, Class int }

// TryPlan places tasks of the part by a packing plan, until the wanted number of tasks is placed. The parameter in
// describes the first tasks of the part, which the plan may use; first is their number. nodes are the plan's nodes, by
// node number. If a plugin refuses a node, nothing is placed, and the refusal is returned.
func TryPlan(s *Part, plan packing.Plan, in *state.PackingInput, nodes []int32, wanted, first int) (PartResult, *Refusal) {
	p := newPlacer(s)
	p.minimum = wanted
	refused, task := p.placeByPlan(plan, in, nodes)
	if refused == nil {
		return p.end(p.untouched(first)), nil
	}
	p.noteRefusal(task)
	p.changes.Discard()
	p.part.attempt.Found.NoteRefused()
	return PartResult{}, refused
}

// placeByPlan places the tasks by the plan, until enough tasks are placed. It stops at a task that is refused, and
// returns the refusal and the task.
func (p *placer) placeByPlan(plan packing.Plan, in *state.PackingInput, nodes []int32) (*Refusal, *api.TaskInfo) {
	next := make([]int, len(in.Classes))
	for n, taken := range plan {
		for class, count := range taken {
			for _, task := range in.Tasks[class][next[class] : next[class]+count] {
				if p.ready() {
					return nil, nil
				}
				if !p.wanted(task) || p.run.Finder.PrePredicate(task) != nil || !p.placeOnNode(task, in.Caches[class], nodes[n]) {
					return &Refusal{n, class}, task
				}
			}
			next[class] += count
		}
	}
	return nil, nil
}

// placeOnNode places the task on the node, and reports whether all plugins accepted it.
func (p *placer) placeOnNode(task *api.TaskInfo, cache *feasible.ClassCache, node int32) bool {
	c, ok := p.run.Finder.Accepts(task, cache, p.part.Scope.Where, node, p.part.IdleOnly)
	return ok && p.placeOn(task, cache, c) == nil
}

// TryPlanned places the tasks that have a node in planned. If a plugin refuses a task on its node, nothing is placed,
// and the task is returned.
func TryPlanned(s *Part, planned map[api.TaskID]int32) (PartResult, *api.TaskInfo) {
	p := newPlacer(s)
	for _, task := range s.Tasks {
		node, known := planned[task.UID]
		if !known || p.ready() {
			continue
		}
		cache, err := p.run.Finder.Cache(task)
		if err != nil || !p.wanted(task) || p.run.Finder.PrePredicate(task) != nil || !p.placeOnNode(task, cache, node) {
			p.changes.Discard()
			return PartResult{Rest: s.Tasks}, task
		}
	}
	return p.end(stillPending(s.Tasks)), nil
}

// stillPending returns the tasks that are not placed.
func stillPending(tasks []*api.TaskInfo) []*api.TaskInfo {
	return slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool { return task.Status != api.Pending })
}
