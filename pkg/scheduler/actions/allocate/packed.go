// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// tryPacked looks for a plan for so many of the first tasks and places them by it, when every plugin still agrees.
func (s *subJobRun) tryPacked(first, wanted int) subJobResult {
	in := s.newPackingInput(s.tasks[:first], wanted, s.neededByRole())
	if in == nil || in.fillCaches() != nil {
		return subJobResult{}
	}
	candidates := make([]*feasible.CandidateNodes, len(in.classes))
	for i := range in.classes {
		candidates[i] = s.finder.Candidates(in.tasks[i][0], in.caches[i], s.scope.Where)
	}
	problem, nodes := in.problemOn(s.scope.Set, s.idleOnly, func(class, place int) bool {
		return candidates[class].Packs(place, s.idleOnly)
	})
	found := s.findPlan(problem, s.scope.Set, s.idleOnly)
	if found.Answer != packing.Fits {
		return subJobResult{}
	}
	p := s.newTaskPlacer()
	p.minimum = wanted
	if !p.placeByPlan(found.plan, in, nodes) {
		p.discard()
		s.noteRefused()
		return subJobResult{}
	}
	return p.end(p.untouched(first))
}

// placeByPlan places the tasks by the plan, until there are enough. It stops at a node that a plugin refuses after all.
func (p *taskPlacer) placeByPlan(plan packing.Plan, in *packingInput, nodes []int32) bool {
	next := make([]int, len(in.classes))
	for n, taken := range plan {
		for class, count := range taken {
			for _, task := range in.tasks[class][next[class] : next[class]+count] {
				if p.ready() {
					return true
				}
				if !p.wanted(task) || p.finder.PrePredicate(task) != nil || !p.placeOnNode(task, in.caches[class], nodes[n]) {
					return false
				}
			}
			next[class] += count
		}
	}
	return true
}

// placeOnNode places the task on the node when all verdicts still allow it.
func (p *taskPlacer) placeOnNode(task *api.TaskInfo, cache *feasible.ClassCache, node int32) bool {
	c, ok := p.finder.Accepts(task, cache, p.scope.Where, node, p.idleOnly)
	if !ok || p.verify(task, cache, c) != nil || p.assign(task, c) != nil {
		return false
	}
	p.followHyperNode(task)
	return true
}

// neededByRole returns how many more tasks of each role the job's minimum needs.
func (r *jobRun) neededByRole() map[string]int32 {
	job := r.job
	if !r.gangDecides {
		return nil
	}
	needed := maps.Clone(job.TaskMinAvailable)
	for status, tasks := range job.TaskStatusIndex {
		for _, task := range tasks {
			if api.AllocatedStatus(status) || status == api.Succeeded || status == api.Pending && task.InitResreq.IsEmpty() {
				needed[task.TaskRole]--
			}
		}
	}
	return needed
}
