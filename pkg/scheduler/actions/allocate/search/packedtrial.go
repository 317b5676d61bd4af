// SPDX-License-Identifier: Apache-2.0

package search

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

const (
	// maxPlans bounds how many packing plans are tried in a set of nodes. Each further plan leaves out the pair of node
	// and class that a plugin refused in the last plan. The cost of a refused plan is subtracted from the session's
	// budget for trials after a gang's first trial (crosssession.Cache.Orders).
	maxPlans = 8
	// planLooks is the cost of placing one task to check whether plugins accept a plan. It is counted in looks: a look
	// checks one node for one task class (crosssession.MaxFurtherLooks).
	planLooks = 4
)

// tryPacked looks for a packing plan for some of the search's tasks; wanted is their number. They are chosen from the
// first tasks in task order; first is the number of these. tryPacked places the tasks by the plan if every plugin
// accepts the plan.
func (s *partSearch) tryPacked(first, wanted int) trial.PartResult {
	in := s.attempt.NewPackingInput(s.part.Tasks[:first], wanted, s.part.NeededByRole())
	if in == nil || in.FillCaches() != nil {
		return trial.PartResult{}
	}
	in.Exclude()
	candidates := make([]*feasible.CandidateNodes, len(in.Classes))
	for i := range in.Classes {
		candidates[i] = s.run.Finder.Candidates(in.Tasks[i][0], in.Caches[i], s.part.Scope.Where)
		if in.Classes[i].OneByOne() && s.run.Finder.PrePredicate(in.Tasks[i][0]) != nil {
			return trial.PartResult{}
		}
	}
	problem, nodes := in.ProblemOn(s.part.Scope.Set, s.part.IdleOnly, func(class, place int) bool {
		return candidates[class].Packs(place, s.part.IdleOnly) && candidates[class].Admits(in.Tasks[class][0], place)
	})
	for plans := 0; plans == 0 || plans < maxPlans && s.run.CrossSession.Orders.Open(s.orderSearch()); plans++ {
		found := s.attempt.FindPlan(problem, s.part.Scope.Set, s.part.IdleOnly, s.places)
		if found.Answer != packing.Fits {
			break
		}
		result, refused := trial.TryPlan(s.part, found.Plan, in, nodes, wanted, first)
		if refused == nil {
			return result
		}
		s.run.CrossSession.Orders.Left -= first * planLooks
		problem = problem.Without(refused.Node, refused.Class)
	}
	return trial.PartResult{}
}
