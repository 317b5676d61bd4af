// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"slices"
)

// tooManyLarge reports whether the nodes take too few of the largest tasks. The largest tasks are those of the largest
// size, or with the largest request for one of the resources.
//
// The check proves that gangs of many different large tasks have no room, for which other proofs are too weak or too
// slow: for example, if one task more than there are nodes requests more than half of a node. Its worst case is one look
// at each class on each node, for each order of the classes.
func (p *Problem) tooManyLarge() bool {
	order := p.largestFirst()
	if p.tooManyOfFirst(order) {
		return true
	}
	scale, shares := p.scale(), make([]float64, len(p.Classes)) // of all resources, added up
	for k := range p.Classes {
		for r, value := range p.Classes[k].Request {
			shares[k] += value / scale[r]
		}
	}
	for r := range scale {
		slices.SortStableFunc(order, func(l, o int) int {
			return cmp.Or(cmp.Compare(p.Classes[o].Request[r], p.Classes[l].Request[r]), cmp.Compare(shares[o], shares[l]))
		})
		if p.tooManyOfFirst(order) {
			return true
		}
	}
	return false
}

// tooManyOfFirst reports whether, for some number of the first classes in the order, the nodes have room for fewer tasks
// of these classes than each solution places. Each task counts with the smallest requests of these classes, on each node
// that takes tasks of some of these classes. So no room is missed.
func (p *Problem) tooManyOfFirst(order []int) bool {
	takesFrom := make([]int, len(p.Nodes)) // the position in the order of the first class that the node takes
	for n := range p.Nodes {
		takesFrom[n] = len(order)
		for i, k := range order {
			if p.Nodes[n].Takes[k] {
				takesFrom[n] = i
				break
			}
		}
	}
	tasks := p.Tasks()
	placed := p.Wanted - tasks // how many tasks of the first classes each solution places; negative if it may leave out all of them
	least := slices.Clone(p.Classes[order[0]].Request)
	room := 0
	for i, k := range order {
		placed += p.Classes[k].Count
		for r, value := range p.Classes[k].Request {
			least[r] = min(least[r], value)
		}
		if placed <= room { // with more classes and smaller requests, the room does not shrink
			continue
		}
		room = 0
		for n := range p.Nodes {
			if takesFrom[n] <= i {
				room += p.Nodes[n].copies(least, tasks)
			}
		}
		if placed > room {
			return true
		}
	}
	return false
}
