// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"slices"
)

const (
	// mostEmptied bounds how many nodes are emptied in one try (repacking.try). repackLooks bounds the steps spent on
	// finding the ways to fill one of these nodes, because many tries with few ways find more plans than few tries with
	// all ways.
	mostEmptied, repackLooks = 5, 600
	// negligible is the largest unused room of a node, and the largest difference of the total sizes of tasks, that
	// counts as a rounding error.
	negligible = 1e-9
)

// repacking improves a plan that does not place all tasks, by "ruin and recreate" (Schrimpf and others, Record breaking
// optimization results using the ruin and recreate principle, 2000). A try empties a few random nodes, and then fills
// one after the other again. For each node, it chooses tasks that waste the least room, from the former tasks of the
// emptied nodes and the tasks without a node (minimum bin slack, Gupta and Ho, 1999). The new plan replaces the old
// plan unless its tasks without a node are larger in total.
type repacking struct {
	problem *Problem
	// whole is a search of the whole problem. Only its weights of the resources and its order of classes are used.
	whole *search
	plan  Plan
	// lacking is how many tasks of each class are not placed by the plan. waste is the unused room of each node, in
	// which a resource counts the more, the larger the part of it that the problem's tasks request.
	lacking []int
	waste   []float64
	dice    *rand.Rand
	// scratch finds the ways to fill a node, for one node after the other.
	scratch enumeration
}

// repack places all tasks, starting from a plan that places some of them. It subtracts its steps from left, and returns
// nil if no steps are left.
func (p *Problem) repack(plan Plan, left *int) Plan {
	r := &repacking{problem: p, whole: p.newSearch(leastWaste, 0), plan: plan, lacking: p.counts(), waste: make([]float64, len(p.Nodes)),
		dice: rand.New(rand.NewPCG(1, 2))}
	for n, taken := range plan {
		for k, count := range taken {
			r.lacking[k] -= count
		}
		r.weigh(n)
	}
	for *left > 0 {
		if !slices.ContainsFunc(r.lacking, func(count int) bool { return count > 0 }) {
			return r.plan
		}
		r.try(r.choose(), left)
	}
	return nil
}

// weigh recomputes the waste of node n: its unused room, weighted by the scarcity of each resource.
func (r *repacking) weigh(n int) {
	e := enumeration{search: r.whole, node: r.problem.newLoading(&r.problem.Nodes[n], r.problem.counts())}
	for k, count := range r.plan[n] {
		e.node.place(k, count)
	}
	r.waste[n] = e.waste()
}

// choose chooses the nodes to be emptied. Most of them have unused room (waste), because the tasks that the plan does
// not place need that room.
func (r *repacking) choose() (nodes []int) {
	var wasteful []int
	for n, waste := range r.waste {
		if waste > negligible {
			wasteful = append(wasteful, n)
		}
	}
	for most := min(2+r.dice.IntN(mostEmptied-1), len(r.problem.Nodes)); len(nodes) < most; {
		n := r.dice.IntN(len(r.problem.Nodes))
		if len(wasteful) > 0 && r.dice.IntN(3) > 0 {
			n = wasteful[r.dice.IntN(len(wasteful))]
		}
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// try empties the nodes, and fills them again. It subtracts its steps from left.
func (r *repacking) try(nodes []int, left *int) {
	sub := &Problem{Classes: slices.Clone(r.problem.Classes)}
	for k := range sub.Classes {
		sub.Classes[k].Count, sub.Classes[k].Role = r.lacking[k], -1
	}
	for _, n := range nodes {
		sub.Nodes = append(sub.Nodes, r.problem.Nodes[n])
		for k, count := range r.plan[n] {
			sub.Classes[k].Count += count
		}
	}
	*left -= 1 + len(r.problem.Nodes)/8 + len(nodes)*len(r.problem.Classes)
	s := &search{problem: sub, steps: max(*left, 0), looks: repackLooks, classes: r.whole.classes, left: sub.counts(),
		scale: r.whole.scale, tight: r.whole.tight, plan: make(Plan, len(nodes))}
	*left -= s.steps
	for n := range nodes {
		s.nodes = append(s.nodes, n)
		fills := s.fillsIn(&r.scratch, n)
		chosen := 0
		for chosen+1 < len(fills) && r.dice.IntN(2) == 0 {
			chosen++
		}
		if len(fills) > 0 {
			s.plan[n] = slices.Clone(fills[chosen].taken)
			for k, count := range s.plan[n] {
				s.left[k] -= count
			}
		}
	}
	*left += max(s.steps, 0)
	if r.sizeOf(s.left) > r.sizeOf(r.lacking)+negligible {
		return
	}
	r.lacking = s.left
	for i, n := range nodes {
		r.plan[n] = s.plan[i]
		r.weigh(n)
	}
}

// sizeOf returns the total size of the tasks, with each request weighted by the scarcity of its resource. tasks is the
// number of tasks of each class.
func (r *repacking) sizeOf(tasks []int) (sum float64) {
	for k, count := range tasks {
		for i, value := range r.problem.Classes[k].Request {
			sum += float64(count) * r.whole.tight[i] * value / r.whole.scale[i]
		}
	}
	return sum
}
