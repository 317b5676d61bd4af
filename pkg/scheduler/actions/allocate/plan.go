// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// refusal is a class that a node of a plan does not take after all.
type refusal struct {
	node, class int
	task        *api.TaskInfo
}

// placeByPlan places the tasks by the plan, until there are enough. It stops at a node that a plugin refuses after all, and returns it.
func (p *placer) placeByPlan(plan packing.Plan, in *state.PackingInput, nodes []int32) *refusal {
	next := make([]int, len(in.Classes))
	for n, taken := range plan {
		for class, count := range taken {
			for _, task := range in.Tasks[class][next[class] : next[class]+count] {
				if p.ready() {
					return nil
				}
				if !p.wanted(task) || p.run.Finder.PrePredicate(task) != nil || !p.placeOnNode(task, in.Caches[class], nodes[n]) {
					return &refusal{n, class, task}
				}
			}
			next[class] += count
		}
	}
	return nil
}

// placeOnNode places the task on the node when all verdicts still allow it.
func (p *placer) placeOnNode(task *api.TaskInfo, cache *feasible.ClassCache, node int32) bool {
	c, ok := p.run.Finder.Accepts(task, cache, p.part.scope.Where, node, p.part.idleOnly)
	return ok && p.putOn(task, cache, c) == nil
}

// tryPlanned places the tasks for which a node is planned, when every plugin still agrees.
func tryPlanned(s *Part, planned map[api.TaskID]int32) subJobResult {
	p := newPlacer(s)
	for _, task := range s.tasks {
		node, known := planned[task.UID]
		if !known || p.ready() {
			continue
		}
		cache, err := p.run.Finder.Cache(task)
		if err != nil || !p.wanted(task) || p.run.Finder.PrePredicate(task) != nil || !p.placeOnNode(task, cache, node) {
			p.trial.discard()
			return subJobResult{rest: s.tasks}
		}
	}
	return p.end(stillPending(s.tasks))
}

// stillPending are those of the tasks that are not placed.
func stillPending(tasks []*api.TaskInfo) []*api.TaskInfo {
	return slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool { return task.Status != api.Pending })
}
