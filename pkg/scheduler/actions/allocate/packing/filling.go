// SPDX-License-Identifier: Apache-2.0

package packing

import "slices"

// filling is an unfinished plan, with the remaining room of each node of the problem.
type filling struct {
	problem *Problem
	room    [][]float64
	slots   []int
	plan    Plan
}

func (p *Problem) newFilling() *filling {
	f := &filling{problem: p, room: make([][]float64, len(p.Nodes)), slots: make([]int, len(p.Nodes)), plan: make(Plan, len(p.Nodes))}
	for n := range p.Nodes {
		f.room[n] = slices.Clone(p.Nodes[n].Room)
		f.slots[n] = p.Nodes[n].Slots
	}
	return f
}

// takes reports whether node n has room for one more task of class k.
func (f *filling) takes(n, k int) bool {
	return f.problem.Nodes[n].Takes[k] && f.slots[n] > 0 && fits(f.problem.Classes[k].Request, f.room[n]) && !f.problem.Excluded(k, f.plan[n])
}

func (f *filling) put(n, k int) {
	f.slots[n]--
	for r, value := range f.problem.Classes[k].Request {
		f.room[n][r] -= value
	}
	if f.plan[n] == nil {
		f.plan[n] = make([]int, len(f.problem.Classes))
	}
	f.plan[n][k]++
}
