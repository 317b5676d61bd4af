// SPDX-License-Identifier: Apache-2.0

package packing

import "slices"

// loading is one node of a problem, with the tasks that are placed on it so far.
type loading struct {
	problem *Problem
	node    *Node
	// left is how many tasks of each class are to be placed on this node or others. taken is how many of these are on
	// this node.
	left, taken []int
	room        []float64
	slots       int
}

func (p *Problem) newLoading(node *Node, left []int) loading {
	return loading{problem: p, node: node, left: left, taken: make([]int, len(p.Classes)), room: slices.Clone(node.Room),
		slots: min(node.Slots, p.Tasks())}
}

// The method most returns how many more tasks of class k fit on the node.
func (l *loading) most(k int) int {
	class := &l.problem.Classes[k]
	most := min(l.left[k]-l.taken[k], l.slots)
	if !l.node.Takes[k] || l.problem.Excluded(k, l.taken) {
		return 0
	}
	if class.Alone {
		most = min(most, 1)
	}
	for r, value := range class.Request {
		if value > 0 {
			most = min(most, int((l.room[r]+Tolerance)/value))
		}
	}
	return max(most, 0)
}

// place puts count tasks of class k on the node. If count is negative, place removes tasks.
func (l *loading) place(k, count int) {
	if count == 0 {
		return
	}
	l.taken[k] += count
	l.slots -= count
	for r, value := range l.problem.Classes[k].Request {
		l.room[r] -= float64(count) * value
	}
}
