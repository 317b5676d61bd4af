// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

const (
	// maxPlans bounds how many plans are tried in a place: each leaves out a node that a plugin refused in the one before. Those beyond the
	// first take of what other orders may take in a session (memory.Budget).
	maxPlans = 8
	// planLooks is how many looks of a session a task costs that is placed to find out whether plugins agree with a plan.
	planLooks = 4
)

// tryPacked looks for a plan for so many of the first tasks and places them by it, when every plugin still agrees.
func (s *subJobRun) tryPacked(first, wanted int) subJobResult {
	in := s.newPackingInput(s.tasks[:first], wanted, s.neededByRole())
	if in == nil || in.fillCaches() != nil {
		return subJobResult{}
	}
	in.exclude()
	candidates := make([]*feasible.CandidateNodes, len(in.classes))
	for i := range in.classes {
		candidates[i] = s.finder.Candidates(in.tasks[i][0], in.caches[i], s.scope.Where)
		if in.classes[i].OneByOne() && s.finder.PrePredicate(in.tasks[i][0]) != nil {
			return subJobResult{}
		}
	}
	problem, nodes := in.problemOn(s.scope.Set, s.idleOnly, func(class, place int) bool {
		return candidates[class].Packs(place, s.idleOnly) && candidates[class].Admits(in.tasks[class][0], place)
	})
	for plans := 0; plans == 0 || plans < maxPlans && s.memory.Orders.Open(s.orderSearch()); plans++ {
		found := s.findPlan(problem, s.scope.Set, s.idleOnly)
		if found.Answer != packing.Fits {
			break
		}
		p := s.newTaskPlacer()
		p.minimum = wanted
		refused := p.placeByPlan(found.Plan, in, nodes)
		if refused == nil {
			return p.end(p.untouched(first))
		}
		p.noteRefusal(refused.task)
		p.discard()
		s.noteRefused()
		s.memory.Orders.Left -= first * planLooks
		problem = problem.Without(refused.node, refused.class)
	}
	return subJobResult{}
}

// exclude has plans keep classes from each other's nodes that exclude each other by anti-affinity. Numbers that are to refute a problem
// know nothing of it: where a node lacks a label it excludes none.
func (in *packingInput) exclude() {
	for i := range in.classes {
		for j := range i + 1 {
			if in.solver.finder.Exclude(in.tasks[i][0], in.tasks[j][0]) {
				in.problem.Exclude(i, j)
			}
		}
	}
}

// refusal is a class that a node of a plan does not take after all.
type refusal struct {
	node, class int
	task        *api.TaskInfo
}

// placeByPlan places the tasks by the plan, until there are enough. It stops at a node that a plugin refuses after all, and returns it.
func (p *taskPlacer) placeByPlan(plan packing.Plan, in *packingInput, nodes []int32) *refusal {
	next := make([]int, len(in.classes))
	for n, taken := range plan {
		for class, count := range taken {
			for _, task := range in.tasks[class][next[class] : next[class]+count] {
				if p.ready() {
					return nil
				}
				if !p.wanted(task) || p.finder.PrePredicate(task) != nil || !p.placeOnNode(task, in.caches[class], nodes[n]) {
					return &refusal{n, class, task}
				}
			}
			next[class] += count
		}
	}
	return nil
}

// placeOnNode places the task on the node when all verdicts still allow it.
func (p *taskPlacer) placeOnNode(task *api.TaskInfo, cache *feasible.ClassCache, node int32) bool {
	c, ok := p.finder.Accepts(task, cache, p.scope.Where, node, p.idleOnly)
	return ok && p.putOn(task, cache, c) == nil
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
