// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"slices"
)

const (
	// mixtureShare and repairShare are the percentages of the steps that a mixture, and then its repair, may use.
	mixtureShare, repairShare = 50, 70
	// repairSteps bounds one search for room on some of the nodes. repairLooks bounds the part of it spent on finding ways
	// to fill one node: trying few ways on many nodes finds more than trying all ways on few.
	repairSteps, repairLooks = 10_000, 600
	// mostFurther bounds how many filled nodes are emptied again for such a search.
	mostFurther = 12
	// certain is the share of all tasks without room above which the lack cannot be a rounding error.
	certain = 1e-6
	// whole is the tolerance for rounding a share of nodes up to a whole number.
	whole = 1e-4
)

// solveByMixture solves the problem by a mixture, and repairs the nodes that the mixture does not fill with whole tasks.
func (p *Problem) solveByMixture(left *int) (Plan, Answer) {
	share := *left * mixtureShare / 100
	*left -= share
	m := p.mix(&share)
	*left += share
	switch {
	case m == nil:
		return nil, Unknown
	case m.sound && m.bound() < 1-certain:
		return nil, Impossible
	case m.sound && m.portion < 1-certain:
		return nil, Unknown
	}
	d := p.newRepair(m)
	share = *left * repairShare / 100
	*left -= share
	found := d.repairAll(&share)
	*left += share
	if !found {
		return nil, Unknown
	}
	return d.plan, Fits
}

// repair turns a mixture into a plan: whole nodes are filled as in the mixture, and the others by search. If that
// fails, some filled nodes, chosen at random, are emptied, and the search includes them.
type repair struct {
	*Problem
	plan Plan
	// left is how many tasks of each kind have no room yet. loose are the nodes that are not filled, filled the others.
	left          []int
	loose, filled []int
}

func (p *Problem) newRepair(m *mixture) *repair {
	d := &repair{Problem: p, plan: make(Plan, len(p.Nodes)), left: p.counts()}
	next := make([]int, len(m.groups))
	for _, part := range m.parts() {
		nodes := m.groups[part.group].nodes
		for n := int(part.nodes + whole); n > 0 && next[part.group] < len(nodes); n-- {
			d.fill(nodes[next[part.group]], part.taken)
			next[part.group]++
		}
	}
	for g, n := range next {
		d.loose = append(d.loose, m.groups[g].nodes[n:]...)
	}
	return d
}

// fill puts the tasks on the node, as far as tasks of the kind remain.
func (d *repair) fill(n int, tasks []int) {
	taken := slices.Clone(tasks)
	for k := range taken {
		taken[k] = min(taken[k], d.left[k])
		d.left[k] -= taken[k]
	}
	d.plan[n] = taken
	d.filled = append(d.filled, n)
}

// repairAll searches for room for the remaining tasks in the given number of steps.
func (d *repair) repairAll(steps *int) bool {
	dice := rand.New(rand.NewPCG(1, 2))
	for try := 0; *steps > 0; try++ {
		further := min(try%(mostFurther+1), len(d.filled))
		if d.on(further, dice, steps) {
			return true
		}
	}
	return false
}

// on searches for room on the loose nodes and on the given number of filled ones, chosen at random.
func (d *repair) on(further int, dice *rand.Rand, steps *int) bool {
	nodes := slices.Clone(d.loose)
	for i := range further {
		j := i + dice.IntN(len(d.filled)-i)
		d.filled[i], d.filled[j] = d.filled[j], d.filled[i]
		nodes = append(nodes, d.filled[i])
	}
	sub := &Problem{Kinds: slices.Clone(d.Kinds)}
	for k := range sub.Kinds {
		sub.Kinds[k].Count = d.left[k]
		sub.Kinds[k].Role = -1
	}
	for _, n := range nodes {
		sub.Nodes = append(sub.Nodes, d.Nodes[n])
		for k, count := range d.plan[n] {
			sub.Kinds[k].Count += count
		}
	}
	if sub.Wanted = sub.Tasks(); sub.Wanted == 0 {
		return true
	}
	*steps -= 1 + len(nodes)*len(d.Kinds)
	if len(nodes) == 0 {
		return false
	}
	s := sub.newSearch(leastWaste, repairSteps)
	s.looks = repairLooks
	found := s.from(0, 0)
	*steps -= repairSteps - max(s.steps, 0)
	if found {
		for i, n := range nodes {
			d.plan[n] = s.plan[i]
		}
	}
	return found
}
