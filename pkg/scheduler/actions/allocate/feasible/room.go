// SPDX-License-Identifier: Apache-2.0

package feasible

import "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"

// Room is how many tasks of a class a set of nodes takes now. It counts each node by itself, and ignores plugins that are
// called for every task, or whose results apply to some jobs only. So it is an upper bound.
type Room struct {
	Total int
	// Copies is how many tasks each node takes, by the node's index in Set.Nodes.
	Copies []int32
	// state is the number of changes of nodes (nodeset.Index.State) when the tasks were counted.
	state int
	// refusals counts the nodes by the reason that stops the next task of the class; nil before the first use.
	refusals *Refusals
}

// Room returns the set's current room for tasks of the class.
func (c *ClassResults) Room(set *nodeset.Set) *Room {
	r, index := c.rooms[set], c.evaluator.index
	if r == nil {
		r = &Room{Copies: make([]int32, len(set.Nodes))}
		c.rooms[set] = r
		for place, node := range set.Nodes {
			r.count(int32(place), c.FilterResult(node).Copies)
		}
	} else {
		for _, node := range index.Changed(r.state) {
			if place, ok := set.Place(node); ok {
				r.count(place, c.FilterResult(node).Copies)
			}
		}
	}
	r.state = index.State()
	return r
}

// count sets how many tasks the node at the index place takes, and updates the total.
func (r *Room) count(place, copies int32) {
	r.Total += int(copies - r.Copies[place])
	r.Copies[place] = copies
	r.refusals = nil
}
