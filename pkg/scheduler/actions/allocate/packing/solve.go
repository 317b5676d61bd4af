// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"slices"
)

const (
	// repackShare is the percentage of the steps left after the first, short searches that repacking may use.
	repackShare = 70
	// searches is the number of long searches after repacking, one for each strategy. They share the steps that
	// repacking has left.
	searches = 3
	// greedySteps bounds the first search for a plan, which puts the largest tasks together. It finds plans for nodes
	// that tasks fill without rest. firstSteps bounds the second search, which suffices to try all plans of a small problem.
	// coarseSteps bounds a search of a coarser problem: an easier problem with merged classes (coarser).
	greedySteps = 10_000
	firstSteps  = 20_000
	coarseSteps = 4_000
	// mostCoarse bounds the number of classes of a coarser problem.
	mostCoarse = 4
)

// Solve looks for a plan, or for a proof that none exists, in at most the given number of steps. A step examines one
// class on one node. Solve also returns the number of steps taken.
func (p *Problem) Solve(steps int) (Plan, Answer, int) {
	left := steps
	plan, answer := p.solve(&left)
	return plan, answer, steps - left
}

func (p *Problem) solve(left *int) (Plan, Answer) {
	if p.refute(left) == Impossible {
		return nil, Impossible
	}
	plan := p.bestFit(left)
	if p.enough(plan) {
		return plan, Fits
	}
	if plan, answer := p.searched(largestTasks, greedySteps, left); answer != Unknown {
		return plan, answer
	}
	if plan, answer := p.searched(leastWaste, firstSteps, left); answer != Unknown {
		return plan, answer
	}
	chosen := p
	if p.Wanted < p.Tasks() {
		chosen = p.choose()
		plan = chosen.bestFit(left)
	}
	share := *left * repackShare / 100
	*left -= share
	plan = chosen.repack(plan, &share)
	*left += share
	if plan != nil {
		return plan, Fits
	}
	for i := range searches {
		if plan, answer := p.searched(strategy(i), *left/(searches-i), left); answer != Unknown {
			return plan, answer
		}
	}
	return nil, Unknown
}

// searched runs a search with at most the given number of steps, and subtracts the steps taken from left.
func (p *Problem) searched(st strategy, steps int, left *int) (Plan, Answer) {
	share := min(steps, *left)
	s := p.newSearch(st, share)
	found := s.from(0, 0)
	*left -= share - max(s.steps, 0)
	switch {
	case found:
		return s.plan, Fits
	case !s.cut:
		return nil, Impossible
	default:
		return nil, Unknown
	}
}

// choose returns the problem reduced to the wanted number of tasks: the smallest tasks that meet the minima of the
// roles, and then the smallest other tasks.
func (p *Problem) choose() *Problem {
	order := p.largestFirst()
	slices.Reverse(order)
	return p.chooseFirst(order)
}

// chooseFirst returns the problem reduced to the wanted number of tasks. It takes as many tasks of each role as the
// role needs, and then other tasks, both in the given order of classes.
func (p *Problem) chooseFirst(order []int) *Problem {
	chosen := &Problem{Classes: slices.Clone(p.Classes), Nodes: p.Nodes}
	for k := range chosen.Classes {
		chosen.Classes[k].Count, chosen.Classes[k].Role = 0, -1
	}
	take := func(k, most int) int {
		n := max(min(p.Classes[k].Count-chosen.Classes[k].Count, most), 0)
		chosen.Classes[k].Count += n
		chosen.Wanted += n
		return n
	}
	lacking := slices.Clone(p.Roles)
	for _, k := range order {
		if role := p.Classes[k].Role; role >= 0 {
			lacking[role] -= take(k, lacking[role])
		}
	}
	for _, k := range order {
		take(k, p.Wanted-chosen.Wanted)
	}
	return chosen
}

// Refute looks only for a proof that the problem has no plan. It also returns the number of steps taken.
func (p *Problem) Refute() (Answer, int) {
	left := mostCoarse * coarseSteps
	return p.refute(&left), mostCoarse*coarseSteps - left
}

func (p *Problem) refute(left *int) Answer {
	if p.refuteAny(left) == Impossible || p.refuteChoice(left) == Impossible {
		return Impossible
	}
	return Unknown
}

// refuteChoice looks for a proof that no choice of the wanted number of tasks has room. For each resource, it makes an
// easier problem from the tasks with the smallest requests for that resource. The other requests of these tasks are
// reduced to the smallest of any task, and the tasks are allowed on any node that takes some task. If the easier
// problem has no plan, problem p has none.
func (p *Problem) refuteChoice(left *int) Answer {
	if p.Wanted >= p.Tasks() || len(p.Nodes) == 0 {
		return Unknown
	}
	for r := range p.Classes[0].Request {
		by := func(l, o int) int { return cmp.Compare(p.Classes[l].Request[r], p.Classes[o].Request[r]) }
		order := p.largestFirst()
		slices.SortStableFunc(order, by)
		if by(order[0], order[len(order)-1]) == 0 {
			continue
		}
		if p.alikeBut(r).chooseFirst(order).refuteAny(left) == Impossible {
			return Impossible
		}
	}
	return Unknown
}

// alikeBut returns an easier problem whose tasks differ only in their request for the resource. It has a solution
// whenever problem p has one.
func (p *Problem) alikeBut(resource int) *Problem {
	out := &Problem{Classes: slices.Clone(p.Classes), Nodes: slices.Clone(p.Nodes), Wanted: p.Wanted, Roles: p.Roles}
	least := slices.Clone(p.Classes[0].Request)
	for k := range p.Classes {
		for r, value := range p.Classes[k].Request {
			least[r] = min(least[r], value)
		}
	}
	for k := range out.Classes {
		own := out.Classes[k].Request[resource]
		out.Classes[k].Request = slices.Clone(least)
		out.Classes[k].Request[resource] = own
		out.Classes[k].Alone, out.Classes[k].Excludes = false, nil
	}
	for n := range out.Nodes {
		out.Nodes[n].Takes = slices.Repeat([]bool{slices.Contains(p.Nodes[n].Takes, true)}, len(p.Classes))
	}
	return out
}

// refuteAny looks for a proof that the nodes have no room for the wanted number of tasks, whichever of the problem's
// tasks are chosen. It merges the tasks into few classes for that.
func (p *Problem) refuteAny(left *int) Answer {
	if p.Wanted > p.Tasks() || len(p.Classes) == 0 || len(p.Nodes) == 0 {
		if p.Wanted > 0 {
			return Impossible
		}
		return Unknown
	}
	if p.tooManyLarge() {
		return Impossible
	}
	s := p.newSearch(leastWaste, 0)
	*left -= len(p.Nodes)
	if !s.mayFitFrom(0, 0) {
		return Impossible
	}
	for classes := 2; classes <= mostCoarse && *left > 0; classes++ {
		coarse := p
		if len(p.Classes) > classes {
			coarse = p.coarser(classes)
		}
		if _, answer := coarse.searched(leastWaste, coarseSteps, left); answer == Impossible {
			return Impossible
		}
		if len(p.Classes) <= classes {
			break
		}
	}
	return Unknown
}

// coarser returns an easier problem with fewer classes, which has a solution whenever problem p has one. Classes of
// similar size are merged. A merged class has the smallest requests of its classes.
func (p *Problem) coarser(classes int) *Problem {
	scale := p.scale()
	order := make([]int, len(p.Classes))
	for i := range order {
		order[i] = i
	}
	of := func(i int) float64 { return size(p.Classes[i].Request, scale) }
	slices.SortStableFunc(order, func(l, r int) int {
		return cmp.Or(cmp.Compare(of(r), of(l)), compareClasses(&p.Classes[l], &p.Classes[r]))
	})
	// The classes in order are divided into merged classes where the sizes of neighbors differ most.
	steps := make([]int, 0, len(order))
	for i := 1; i < len(order); i++ {
		steps = append(steps, i)
	}
	slices.SortStableFunc(steps, func(l, r int) int {
		return cmp.Compare(of(order[r-1])*of(order[l]), of(order[l-1])*of(order[r])) // compares the ratios of neighbors, without dividing by 0
	})
	first := append([]int{0}, steps[:classes-1]...)
	slices.Sort(first)
	out := &Problem{Wanted: p.Wanted, Nodes: make([]Node, len(p.Nodes))}
	for n := range p.Nodes {
		out.Nodes[n] = Node{Room: p.Nodes[n].Room, Slots: p.Nodes[n].Slots, Takes: make([]bool, classes)}
	}
	for g, start := range first {
		end := len(order)
		if g+1 < len(first) {
			end = first[g+1]
		}
		for _, i := range order[start:end] {
			for n := range p.Nodes {
				out.Nodes[n].Takes[g] = out.Nodes[n].Takes[g] || p.Nodes[n].Takes[i]
			}
		}
		out.Classes = append(out.Classes, p.mergedClass(order[start:end]))
	}
	return out
}

// bestFit places the tasks one by one, the largest first, each on the node with the least room left beside the task. It
// leaves out tasks that find no room.
func (p *Problem) bestFit(left *int) Plan {
	scale := p.scale()
	f := p.newFilling()
	for _, k := range p.largestFirst() {
		for range p.Classes[k].Count {
			*left -= 1 + len(p.Nodes)/8
			best, bestLeft := -1, 0.0
			for n := range p.Nodes {
				if !f.takes(n, k) {
					continue
				}
				rest := 0.0
				for r, value := range p.Classes[k].Request {
					rest += (f.room[n][r] - value) / scale[r]
				}
				if best < 0 || rest < bestLeft {
					best, bestLeft = n, rest
				}
			}
			if best < 0 || *left < 0 {
				break
			}
			f.put(best, k)
		}
	}
	return f.plan
}

// enough reports whether the plan places the wanted number of tasks, in total and of each role.
func (p *Problem) enough(plan Plan) bool {
	placed, roles := 0, slices.Clone(p.Roles)
	for _, taken := range plan {
		for k, count := range taken {
			placed += count
			if role := p.Classes[k].Role; role >= 0 {
				roles[role] -= count
			}
		}
	}
	return placed >= p.Wanted && !slices.ContainsFunc(roles, func(lacking int) bool { return lacking > 0 })
}
