// SPDX-License-Identifier: Apache-2.0

package feasible

import "container/heap"

// rank decides a node's position among the candidates: the lower roomClass comes first, then the higher score, then the
// first name.
type rank struct {
	class roomClass
	score float64
}

// roomClass is the kind of room that a node has for a task. Idle resources rank before resources being released, and
// nodes of this scheduler's shard before others.
type roomClass uint8

const (
	idleInShard roomClass = iota
	idleElsewhere
	futureInShard
	futureElsewhere
)

func (c roomClass) idle() bool { return c <= idleElsewhere }

func (r rank) before(other rank) (less, equal bool) {
	if r.class != other.class {
		return r.class < other.class, false
	}
	if r.score != other.score {
		return r.score > other.score, false
	}
	return false, true
}

// rankHeap is a heap of nodes of a set, the best first. A node is given by its place: its index in the set's Nodes.
type rankHeap struct {
	// places are the heap's entries: each is the index of a node in the set's Nodes. entry is, for each index in the
	// set's Nodes, its index in places; -1 if the node is not in the heap.
	places []int32
	entry  []int32
	// rank is the sort key of each node (type rank), by the node's index in the set's Nodes.
	rank []rank
}

var _ heap.Interface = (*rankHeap)(nil)

// newRankHeap returns an empty heap for a set with this number of nodes.
func newRankHeap(places int) rankHeap {
	h := rankHeap{entry: make([]int32, places), rank: make([]rank, places)}
	for i := range h.entry {
		h.entry[i] = -1
	}
	return h
}

func (h *rankHeap) Len() int { return len(h.places) }

func (h *rankHeap) Less(i, j int) bool {
	l, r := h.places[i], h.places[j]
	less, equal := h.rank[l].before(h.rank[r])
	return less || equal && l < r
}

func (h *rankHeap) Swap(i, j int) {
	h.places[i], h.places[j] = h.places[j], h.places[i]
	h.entry[h.places[i]], h.entry[h.places[j]] = int32(i), int32(j)
}

// Push implements heap.Interface. Callers use the method set instead, because the heap may already have the node.
func (h *rankHeap) Push(x any) {
	h.entry[x.(int32)] = int32(len(h.places))
	h.places = append(h.places, x.(int32))
}

// Pop implements heap.Interface. Callers use the method drop instead, which removes any node.
func (h *rankHeap) Pop() any {
	last := h.places[len(h.places)-1]
	h.places = h.places[:len(h.places)-1]
	h.entry[last] = -1
	return last
}

// has reports whether a node is in the heap. place is the node's index in the set's Nodes.
func (h *rankHeap) has(place int32) bool { return h.entry[place] >= 0 }

// The method set adds a node with its rank to the heap, or moves the node if the heap has it. place is the node's index
// in the set's Nodes.
func (h *rankHeap) set(place int32, r rank) {
	h.rank[place] = r
	if h.has(place) {
		heap.Fix(h, int(h.entry[place]))
	} else {
		heap.Push(h, place)
	}
}

// drop removes a node from the heap, if the heap has it. place is the node's index in the set's Nodes.
func (h *rankHeap) drop(place int32) {
	if h.has(place) {
		heap.Remove(h, int(h.entry[place]))
	}
}
