// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

const (
	// maxPlans limits the trials for a gang: plans in places, and in each place plans without nodes that plugins refused.
	maxPlans = 8
	// maxPlansInPlace limits the trials in one place.
	maxPlansInPlace = 4
	// maxAllVictims limits the victims of the last trial in a place, which evicts all units there and then puts back those
	// that are not needed.
	maxAllVictims = 2000
)

// planner looks for the pods to evict for one gang.
type planner struct {
	*preemption
	attempt *state.Attempt
	demand  *state.Demand
	units   []*unit
	// trials and checks count the work for the gang (maxPlans, maxChecks).
	trials, checks int
}

func newPlanner(p *preemption, r *state.Attempt, d *state.Demand) *planner {
	return &planner{preemption: p, attempt: r, demand: d, units: p.units(r.Pending.First())}
}

// plan tries plans, the cheapest first. It returns why none succeeded; empty if one did.
func (s *planner) plan() (why string) {
	if len(s.units) == 0 {
		return "no pods may be evicted for the gang"
	}
	var plans []*plan
	best, bestPlace := -1, place{}
	for _, where := range s.places() {
		found, fits := s.planFor(where, nil)
		if found != nil {
			plans = append(plans, found)
		} else if fits > best {
			best, bestPlace = fits, where
		}
	}
	if len(plans) == 0 {
		return fmt.Sprintf("%s has room for %d of %d members even without the pods that may be evicted", bestPlace.name, best, s.demand.Needed)
	}
	slices.SortStableFunc(plans, func(l, r *plan) int { return cmp.Or(l.cost.compare(r.cost), cmp.Compare(l.place.name, r.place.name)) })
	for _, found := range plans {
		if s.tryPlace(found) {
			return ""
		}
		if s.trials >= maxPlans {
			break
		}
	}
	return "the members do not fit even without the pods that may be evicted, because of a rule other than resources"
}

// tryPlace tries the plan, then plans without the nodes that refused members and without the units that plugins keep, and
// at last to evict all units in the place.
func (s *planner) tryPlace(first *plan) bool {
	banned := map[int32]bool{}
	for found, tries := first, 0; found != nil && tries < maxPlansInPlace; tries++ {
		s.trials++
		if kept := s.kept(found.units); len(kept) > 0 {
			s.units = slices.DeleteFunc(s.units, func(u *unit) bool { return kept[u] || kept[u.core] })
		} else {
			refused, ok := s.try(found)
			if ok {
				return true
			}
			if len(refused) == 0 {
				break
			}
			maps.Copy(banned, refused)
		}
		found, _ = s.planFor(first.place, banned)
	}
	all, victims := s.allIn(first.place)
	if victims > maxAllVictims || len(all) == len(first.units) || len(s.kept(all)) > 0 {
		return false
	}
	s.trials++
	_, ok := s.try(&plan{place: first.place, units: all})
	return ok
}

// kept returns the units that plugins do not allow to evict together with the others, and with the pods that were evicted
// for other gangs in this session. An example are two pods of a PodDisruptionBudget that allows one disruption.
func (s *planner) kept(units []*unit) map[*unit]bool {
	if s.judgedByPriority {
		return nil
	}
	tasks := slices.Clone(s.sent)
	for _, u := range units {
		tasks = append(tasks, u.tasks...)
	}
	allowed := map[api.TaskID]bool{}
	for _, task := range s.ssn.Preemptable(s.attempt.Pending.First(), tasks) {
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

// allIn returns the units with pods in the place, and the number of all their pods.
func (s *planner) allIn(where place) (all []*unit, victims int) {
	here := map[*unit]bool{}
	for _, u := range s.units {
		here[u] = slices.ContainsFunc(u.nodes, where.set.Has)
	}
	for _, u := range s.units {
		if here[u] || here[u.core] {
			all = append(all, u)
			victims += len(u.tasks)
		}
	}
	return all, victims
}

// places returns the places in which the gang may be placed as a whole.
func (s *planner) places() []place {
	r := s.attempt
	everywhere := place{"the cluster", s.run.Index.All}
	if r.Groups != nil {
		var places []place
		for _, group := range r.Groups.Candidates {
			places = append(places, place{group.Path(), s.run.Index.Group(group)})
		}
		if !r.Groups.Required {
			places = append(places, everywhere)
		}
		return places
	}
	if hard, highest := r.Job.IsHardTopologyMode(); hard {
		var places []place
		for _, tier := range slices.Sorted(maps.Keys(s.ssn.HyperNodesSetByTier)) {
			if tier > highest {
				break
			}
			for _, name := range slices.Sorted(maps.Keys(s.ssn.HyperNodesSetByTier[tier])) {
				places = append(places, place{name, s.run.Index.HyperNode(name)})
			}
		}
		return places
	}
	return []place{everywhere}
}
