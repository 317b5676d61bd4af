// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

const (
	// maxPlans limits the plans that are tried for a gang, and maxPlansInPlace those in one place.
	maxPlans        = 8
	maxPlansInPlace = 4
	// maxWhole limits the places in which all units are evicted at last, and maxWholeVictims the pods there. Units that are
	// not needed are then put back.
	maxWhole        = 2
	maxWholeVictims = 2000
)

// planner looks for the pods to evict for one gang.
type planner struct {
	of      *preemption // the run of the action
	attempt *state.Attempt
	demand  *state.Demand
	// asker stands for the gang when plugins are asked which pods may be evicted.
	asker *api.TaskInfo
	// members are as many of the gang's pending tasks as its minimum needs, and request is the sum of their requests.
	members []*api.TaskInfo
	request *api.Resource
	units   []*unit
	// byNode has, for each node, the indices of the units with a pod there; nil before the first use.
	byNode [][]int32
	// budgets are the PodDisruptionBudgets beside the pods that were evicted before in the session.
	budgets *tally
	// refusal is why the gang's queue excludes a plan for which nodes have room; empty if it does not.
	refusal string
	// trials, checks and looks count the work for the gang (maxPlans, maxChecks, maxLooks). gaveUp reports whether the search was
	// given up because of maxPlacings or maxLooks.
	trials, checks, looks int
	gaveUp                bool
}

func newPlanner(p *preemption, r *state.Attempt, d *state.Demand, asker *api.TaskInfo, members []*api.TaskInfo) *planner {
	return &planner{
		of: p, attempt: r, demand: d, asker: asker, members: members, request: together(members).Resreq,
		units: p.units(asker), budgets: p.allBudgets().beside(p.sent),
	}
}

// plans returns a plan for each place that has room for the gang by arithmetic, the cheapest first. why is the reason if
// there is none.
func (s *planner) plans() (plans []*plan, why string) {
	best, bestPlace := -1, place{}
	for _, where := range s.places() {
		found, most := s.planFor(where, nil, false)
		if found != nil {
			plans = append(plans, found)
		} else if most > best {
			best, bestPlace = most, where
		}
	}
	switch {
	case len(plans) == 0 && len(s.units) == 0:
		return nil, "no pods may be evicted for the gang"
	case len(plans) == 0 && best < 0:
		return nil, "the gang may be placed in no node group"
	case len(plans) == 0:
		return nil, fmt.Sprintf("%s has room for %d of %d members even without the pods that may be evicted", bestPlace.name, best, s.demand.Needed)
	}
	slices.SortStableFunc(plans, func(l, r *plan) int { return cmp.Or(l.cost.compare(r.cost), cmp.Compare(l.place.name, r.place.name)) })
	return plans, ""
}

// tryPlans returns the trial of the first plan that succeeds. why is the reason if none does.
func (s *planner) tryPlans(plans []*plan) (t *trial, why string) {
	for _, found := range plans {
		if t := s.tryPlace(found); t != nil {
			return t, ""
		}
		if s.refusal != "" {
			return nil, s.refusal
		}
	}
	for _, found := range plans[:min(len(plans), maxWhole)] {
		if t := s.tryWhole(found.place); t != nil {
			return t, ""
		}
	}
	if s.refusal != "" {
		return nil, s.refusal
	}
	if s.gaveUp {
		return nil, givenUp
	}
	return nil, "the members do not fit even without the pods that may be evicted, because of a rule other than resources"
}

// exhausted reports whether the search has taken too many looks, and is given up.
func (s *planner) exhausted() bool {
	s.gaveUp = s.gaveUp || s.looks > maxLooks
	return s.gaveUp
}

// tryPlace tries the plan, and then plans without the nodes that refused members and without the units that plugins keep.
// It returns nil if none of them succeeds.
func (s *planner) tryPlace(found *plan) *trial {
	where, banned := found.place, map[int32]bool{}
	if len(s.demand.Classes) > 1 || !s.queueAdmits(found.units) {
		found, _ = s.planFor(where, banned, true)
	}
	for tries := 0; found != nil && tries < maxPlansInPlace && s.trials < maxPlans && !s.exhausted(); tries++ {
		s.trials++
		if kept := s.kept(found.units); len(kept) > 0 {
			s.units = slices.DeleteFunc(s.units, func(u *unit) bool { return kept[u] || kept[u.core] })
			s.byNode = nil
		} else {
			t, refused := s.try(found)
			if t != nil || len(refused) == 0 {
				return t
			}
			maps.Copy(banned, refused)
		}
		found, _ = s.planFor(where, banned, true)
	}
	return nil
}

// tryWhole evicts all units in the place, and then puts back the units that are not needed.
func (s *planner) tryWhole(where place) *trial {
	if s.exhausted() {
		return nil
	}
	all, victims := s.allIn(where)
	if victims == 0 || victims > maxWholeVictims || len(s.kept(all)) > 0 {
		return nil
	}
	t, _ := s.try(&plan{place: where, units: all})
	return t
}

// allIn returns the units with pods in the place that may be evicted together, and the number of all their pods.
func (s *planner) allIn(where place) (all []*unit, victims int) {
	units, goes := slices.Clone(s.unitsOn(where.set)), map[*unit]bool{}
	units = slices.DeleteFunc(units, func(u *unit) bool { return u.extra() })
	for _, u := range units {
		goes[u] = true
	}
	for _, u := range slices.Clone(units) {
		for _, one := range u.withSpare(goes) { // spare pods on nodes outside of the place
			units, goes[one] = append(units, one), true
		}
	}
	units = s.budgets.dearLast(units)
	clear(goes)
	for _, u := range units {
		goes[u] = true
	}
	for _, u := range units {
		if slices.ContainsFunc(u.spare, func(spare *unit) bool { return !goes[spare] && !spare.isEvicted() }) {
			continue // a budget keeps a spare pod of the core
		}
		all = append(all, u)
		victims += len(u.tasks)
	}
	return all, victims
}

// unitsOn returns the units with pods on the nodes, the cheapest first.
func (s *planner) unitsOn(set *nodeset.Set) []*unit {
	if len(set.Nodes) == len(s.of.run.Index.Nodes) {
		return s.units
	}
	if s.byNode == nil {
		s.byNode = make([][]int32, len(s.of.run.Index.Nodes))
		for i, u := range s.units {
			for _, node := range u.nodes {
				s.byNode[node] = append(s.byNode[node], int32(i))
			}
		}
	}
	var indices []int32
	for _, node := range set.Nodes {
		indices = append(indices, s.byNode[node]...)
	}
	slices.Sort(indices)
	units := make([]*unit, 0, len(indices))
	for _, i := range slices.Compact(indices) {
		units = append(units, s.units[i])
	}
	return units
}

// dependsOnWork reports whether the pods that may be evicted depend on the work that pods would lose, which changes with time: a job
// may lose only some of its pods.
func (s *planner) dependsOnWork() bool {
	return slices.ContainsFunc(s.units, func(u *unit) bool { return u.partial })
}

// kept returns the units that plugins do not allow to evict together with the others. An example is two pods of a queue that may
// lose one.
func (s *planner) kept(units []*unit) map[*unit]bool {
	if s.of.candidates.alike && s.of.candidates.action == Name && !slices.ContainsFunc(units, func(u *unit) bool { return u.extra() && u.elastic.counted }) {
		return nil
	}
	allowed := map[api.TaskID]bool{}
	for _, task := range s.of.candidates.allowed(s.asker, tasksOf(units)) {
		allowed[task.UID] = true
	}
	kept := map[*unit]bool{}
	for _, u := range units {
		if slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool { return !allowed[task.UID] }) {
			kept[u] = true
			if u.core != nil { // its gang cannot be evicted whole
				kept[u.core] = true
			}
		}
	}
	return kept
}

// places returns the places in which the gang may be placed as a whole.
func (s *planner) places() []place {
	r := s.attempt
	everywhere := place{"the cluster", s.of.run.Index.All}
	if r.Groups != nil {
		var places []place
		for _, group := range r.Groups.Candidates {
			places = append(places, place{group.Path(), s.of.run.Index.Group(group)})
		}
		if !r.Groups.Required {
			places = append(places, everywhere)
		}
		return places
	}
	if hard, highest := r.Job.IsHardTopologyMode(); hard {
		var places []place
		for _, tier := range slices.Sorted(maps.Keys(s.of.ssn.HyperNodesSetByTier)) {
			if tier > highest {
				break
			}
			for _, name := range slices.Sorted(maps.Keys(s.of.ssn.HyperNodesSetByTier[tier])) {
				places = append(places, place{name, s.of.run.Index.HyperNode(name)})
			}
		}
		return places
	}
	return []place{everywhere}
}
