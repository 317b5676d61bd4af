// SPDX-License-Identifier: Apache-2.0

package allocate

import (
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
func (s *partSearch) tryPacked(first, wanted int) subJobResult {
	in := s.attempt.newPackingInput(s.part.tasks[:first], wanted, s.part.neededByRole())
	if in == nil || in.fillCaches() != nil {
		return subJobResult{}
	}
	in.exclude()
	candidates := make([]*feasible.CandidateNodes, len(in.classes))
	for i := range in.classes {
		candidates[i] = s.run.finder.Candidates(in.tasks[i][0], in.caches[i], s.part.scope.Where)
		if in.classes[i].OneByOne() && s.run.finder.PrePredicate(in.tasks[i][0]) != nil {
			return subJobResult{}
		}
	}
	problem, nodes := in.problemOn(s.part.scope.Set, s.part.idleOnly, func(class, place int) bool {
		return candidates[class].Packs(place, s.part.idleOnly) && candidates[class].Admits(in.tasks[class][0], place)
	})
	for plans := 0; plans == 0 || plans < maxPlans && s.run.memory.Orders.Open(s.orderSearch()); plans++ {
		found := s.attempt.findPlan(problem, s.part.scope.Set, s.part.idleOnly, s.places)
		if found.Answer != packing.Fits {
			break
		}
		p := newPlacer(s.part)
		p.minimum = wanted
		refused := p.placeByPlan(found.Plan, in, nodes)
		if refused == nil {
			return p.end(p.untouched(first))
		}
		p.noteRefusal(refused.task)
		p.trial.discard()
		s.attempt.found.noteRefused()
		s.run.memory.Orders.Left -= first * planLooks
		problem = problem.Without(refused.node, refused.class)
	}
	return subJobResult{}
}

// exclude has plans keep classes from each other's nodes that exclude each other by anti-affinity. Numbers that are to refute a problem
// know nothing of it: where a node lacks a label it excludes none.
func (in *packingInput) exclude() {
	for i := range in.classes {
		for j := range i + 1 {
			if in.run.finder.Exclude(in.tasks[i][0], in.tasks[j][0]) {
				in.problem.Exclude(i, j)
			}
		}
	}
}
