// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"math"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// maxChecks limits planner.prune for each gang with unlike members, in nodes times classes that rooms.fits reads. Beyond
// it, plans may have units that need not go. These are found after the members are placed (trial.putBack).
const maxChecks = 500_000

// maxChoices limits how often units are chosen in a place because elastic gangs would fall below their minimum.
const maxChoices = 4

// place is where a gang may be placed: a node group, a HyperNode, or all nodes.
type place struct {
	name string
	set  *nodeset.Set
}

// plan is a choice of units by arithmetic on resources: without them, the place has room for the gang.
type plan struct {
	place place
	units []*unit
	cost  cost
}

// rooms has the resources that are free on the nodes of a place once the chosen units are evicted. Nodes are given by
// their place: their index in set.Nodes.
type rooms struct {
	demand *state.Demand
	set    *nodeset.Set
	// units are those with pods in the place, the cheapest first.
	units []*unit
	free  []*api.Resource // nil for nodes that are left out
	// needed is how many tasks of the known classes must fit.
	needed int
	// copies is how many tasks of each class fit on each node, or never, and total their sum over the nodes. Classes are
	// in the order of demand.Classes.
	copies [][]int
	total  []int
}

// never stands for a node that takes no task of the class whatever is evicted.
const never = -1

// newRooms returns the rooms of the place, with no unit evicted. Nodes in banned are left out.
func newRooms(d *state.Demand, index *nodeset.Index, set *nodeset.Set, banned map[int32]bool) *rooms {
	r := &rooms{demand: d, set: set, free: make([]*api.Resource, len(set.Nodes)), total: make([]int, len(d.Classes))}
	known := 0
	for _, class := range d.Classes {
		known += r.wanted(class)
	}
	r.needed = d.Needed
	if d.Unknown {
		r.needed = min(d.Needed, known)
	}
	for _, class := range d.Classes {
		copies := make([]int, len(set.Nodes))
		for at, node := range set.Nodes {
			if class.NeverTakes(node) {
				copies[at] = never
			}
		}
		r.copies = append(r.copies, copies)
	}
	for at, node := range set.Nodes {
		if !banned[node] {
			r.free[at] = index.Nodes[node].FutureIdle()
			r.count(at)
		}
	}
	return r
}

// count counts again how many tasks fit on the node.
func (r *rooms) count(at int) {
	for i, class := range r.demand.Classes {
		if before := r.copies[i][at]; before != never {
			r.copies[i][at] = copies(class.Task().InitResreq, r.free[at])
			r.total[i] += r.copies[i][at] - before
		}
	}
}

// evict adds the resources of the unit's pods in the place.
func (r *rooms) evict(u *unit) {
	r.each(u, func(free, pod *api.Resource) { free.Add(pod) })
}

// keep takes back what evict added.
func (r *rooms) keep(u *unit) {
	r.each(u, func(free, pod *api.Resource) { free.SubWithoutAssert(pod) })
}

func (r *rooms) each(u *unit, change func(free, pod *api.Resource)) {
	for i, task := range u.tasks {
		if at, in := r.set.Place(u.nodes[i]); in && r.free[at] != nil {
			change(r.free[at], task.Resreq)
			r.count(int(at))
		}
	}
}

// most returns an upper bound of how many members fit in the place.
func (r *rooms) most() int {
	sum := 0
	for i, class := range r.demand.Classes {
		sum += min(r.total[i], r.wanted(class))
	}
	return min(sum, r.needed)
}

// wanted returns how many tasks of the class the gang has to place, or may place if it may choose among tasks.
func (r *rooms) wanted(class *feasible.ClassResults) int {
	if r.demand.Choice {
		return r.demand.Counts[class] + r.demand.Further[class] + r.demand.Beyond[class]
	}
	return r.demand.Counts[class] + r.demand.Further[class]
}

// mayFit reports whether the gang's minimum fits in the place, counting each class alone. For members of one class, that
// is exact.
func (r *rooms) mayFit() bool {
	for i, class := range r.demand.Classes {
		if !r.demand.Choice && r.total[i] < r.wanted(class) {
			return false
		}
	}
	return r.most() >= r.needed
}

// fits reports whether the gang's minimum fits in the place: tasks of all classes beside each other. It places the
// largest class first, or the smallest if the gang may choose among tasks.
func (r *rooms) fits() bool {
	if !r.mayFit() {
		return false
	}
	if len(r.demand.Classes) == 1 {
		return true
	}
	order := make([]int, len(r.demand.Classes))
	for i := range order {
		order[i] = i
	}
	if r.demand.Choice {
		slices.Reverse(order)
	}
	left, placed := make([]*api.Resource, len(r.free)), 0
	for _, i := range order {
		class := r.demand.Classes[i]
		wanted := min(r.wanted(class), r.needed-placed)
		for at := 0; at < len(r.free) && wanted > 0; at++ {
			if r.copies[i][at] <= 0 {
				continue
			}
			if left[at] == nil {
				left[at] = r.free[at].Clone()
			}
			n := min(copies(class.Task().InitResreq, left[at]), wanted)
			if n == 0 {
				continue
			}
			subtract(left[at], class.Task().InitResreq, float64(n))
			wanted, placed = wanted-n, placed+n
		}
		if wanted > 0 && !r.demand.Choice {
			return false
		}
	}
	return placed >= r.needed
}

// subtract subtracts the request n times from the free resources.
func subtract(free, request *api.Resource, n float64) {
	free.MilliCPU -= n * request.MilliCPU
	free.Memory -= n * request.Memory
	for name, value := range request.ScalarResources {
		free.ScalarResources[name] -= n * value
	}
}

// copies returns how many times the request fits into the free resources. The places for pods on a node are one of them.
func copies(request, free *api.Resource) int {
	return feasible.CopiesIn(request, free, math.MaxInt32)
}

// planFor chooses the cheapest units whose eviction makes room for the gang in the place, by arithmetic. From the
// cheapest on, units are added until the gang fits. Then, from the dearest on, units without which it still fits are left
// out, if prune is set or all members are equal. If prune is set, the gang's queue has room for it, too. Without a plan,
// planFor returns how many members would at most fit without all units.
//
// Any pods of an elastic gang may be chosen at first. If the gang would then fall below its minimum, units are chosen again, without
// the gang's extra pods.
func (s *planner) planFor(where place, banned map[int32]bool, prune bool) (p *plan, most int) {
	fixed := map[*elastic]bool{}
	for range maxChoices {
		p, most, again := s.planWithout(where, banned, prune, fixed)
		if !again {
			return p, most
		}
		s.refusal = ""
	}
	p, most, _ = s.planWithout(where, banned, prune, nil)
	return p, most
}

// planWithout is planFor without the extra pods of the fixed gangs, and without the cores of other elastic gangs. If fixed is nil,
// all gangs are fixed. again reports that there is no plan, and that a plan may be found with the gangs that were added to fixed.
func (s *planner) planWithout(where place, banned map[int32]bool, prune bool, fixed map[*elastic]bool) (p *plan, most int, again bool) {
	d := s.demand
	r := newRooms(d, s.of.run.Index, where.set, banned)
	check := 0
	if len(d.Classes) > 1 {
		check = len(where.set.Nodes) * len(d.Classes)
	}
	r.units = slices.DeleteFunc(slices.Clone(s.unitsOn(where.set)), func(u *unit) bool { return u.leftOut(fixed) })
	chosen, gone, enough := s.choose(r)
	if !enough && !r.fits() {
		return nil, r.most(), s.budgets.strict && fix(fixed, r.units, nil) // extra pods may have used up a budget
	}
	if check == 0 || prune {
		chosen = s.prune(r, chosen, gone, check, nil)
	}
	if prune && !s.queueAdmits(chosen) {
		more := s.makeRoomInQueue(r, chosen, gone)
		if more == nil {
			return nil, r.most(), fix(fixed, chosen, nil)
		}
		chosen = s.prune(r, more, gone, max(check, len(more)), s.queueAdmits)
	}
	if (check == 0 || prune) && fix(fixed, chosen, chosen) {
		return nil, r.most(), true
	}
	cost := costOf(chosen)
	_, cost.budgets = s.budgets.breaking(tasksOf(chosen))
	return &plan{place: where, units: chosen, cost: cost}, d.Needed, false
}

// leftOut reports whether the unit may not be chosen: for a fixed gang, an extra pod, and for another elastic gang, pods without which it
// falls below its minimum.
func (u *unit) leftOut(fixed map[*elastic]bool) bool {
	if u.elastic == nil {
		return false
	}
	if fixed == nil || fixed[u.elastic] {
		return u.extra()
	}
	return u.cost.broken > 0
}

// fix adds to fixed each gang with an extra pod among the units. If evicted is not nil, it skips gangs that would keep their minimum
// after those evictions. It reports whether it added a gang.
func fix(fixed map[*elastic]bool, units, evicted []*unit) (added bool) {
	for _, u := range units {
		if u.extra() && !fixed[u.elastic] && (evicted == nil || !u.elastic.allows(evicted)) {
			fixed[u.elastic], added = true, true
		}
	}
	return added
}

// choose evicts units in the rooms until the gang fits. It first takes the cheapest units that break no PodDisruptionBudget and whose
// eviction has not just failed, and then, if these do not suffice, the others. It returns the chosen units, also as a set, and
// whether they are known to suffice.
func (s *planner) choose(r *rooms) (chosen []*unit, gone map[*unit]bool, enough bool) {
	gone, enough = map[*unit]bool{}, r.fits()
	left, next := s.budgets.clone(), 0
	for _, dear := range []bool{false, true} {
		for i, u := range r.units {
			if enough {
				return chosen, gone, true
			}
			if gone[u] || !r.concerns(u) {
				continue
			}
			together, tasks := r.units[i:i+1:i+1], u.tasks
			if len(u.spare) > 0 {
				together = u.withSpare(gone)
				tasks = tasksOf(together)
			}
			if !left.admits(tasks, dear) {
				continue
			}
			for _, one := range together { // the spare pods of a core may be outside of the place
				r.evict(one)
				gone[one] = true
			}
			chosen = append(chosen, together...)
			left.add(tasks)
			if len(chosen) >= next && r.mayFit() {
				enough = r.fits()
				next = len(chosen) * 9 / 8 // the check of unlike members reads all nodes
			}
		}
	}
	return chosen, gone, enough
}

// concerns reports whether a pod of the unit is on a node of the place that may take a member.
func (r *rooms) concerns(u *unit) bool {
	return slices.ContainsFunc(u.nodes, func(node int32) bool {
		at, in := r.set.Place(node)
		return in && r.free[at] != nil && slices.ContainsFunc(r.copies, func(copies []int) bool { return copies[at] != never })
	})
}

// tasksOf returns the pods of the units.
func tasksOf(units []*unit) (tasks []*api.TaskInfo) {
	for _, u := range units {
		tasks = append(tasks, u.tasks...)
	}
	return tasks
}

// prune drops the chosen units that need not go, the dearest first, and returns the others. gone is the set of the chosen
// units. check is how much each check adds to s.checks. If enough is not nil, it reports whether evicting the given units makes
// enough room in the queue.
func (s *planner) prune(r *rooms, chosen []*unit, gone map[*unit]bool, check int, enough func([]*unit) bool) []*unit {
	for i := len(chosen) - 1; i >= 0 && s.checks < maxChecks; i-- {
		u := chosen[i]
		if gone[u.core] {
			continue
		}
		r.keep(u)
		if r.fits() && (enough == nil || enough(slices.Delete(slices.Clone(chosen), i, i+1))) {
			chosen = slices.Delete(chosen, i, i+1)
			delete(gone, u)
		} else {
			r.evict(u)
		}
		s.checks += check
	}
	return chosen
}
