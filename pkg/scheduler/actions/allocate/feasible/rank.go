// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"container/heap"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcutil "volcano.sh/volcano/pkg/util"
)

// rank is a node's position in the order of candidates: a lower class first, then the higher score, then the first name.
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

// roomClassOf returns the kind of room that the node has for the task. The node must have room now, or once resources are
// released.
func (f *Finder) roomClassOf(task *api.TaskInfo, node *api.NodeInfo) roomClass {
	class := futureInShard
	if task.InitResreq.LessEqual(node.Idle, api.Zero) {
		class = idleInShard
	}
	if options.ServerOpts.ShardingMode == vcutil.SoftShardingMode && !f.ssn.NodesInShard.Has(node.Name) {
		class++
	}
	return class
}

// rankHeap is a heap of nodes of a set, the best first. A node is given by its place: its index in the set's Nodes.
type rankHeap struct {
	// places are the heap's entries. entry is, for each place, its index in places; -1 if the place is not in the heap.
	places []int32
	entry  []int32
	// rank is the rank of each place.
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

// Push implements heap.Interface. Callers use set instead.
func (h *rankHeap) Push(x any) {
	h.entry[x.(int32)] = int32(len(h.places))
	h.places = append(h.places, x.(int32))
}

// Pop implements heap.Interface. Callers use drop instead.
func (h *rankHeap) Pop() any {
	last := h.places[len(h.places)-1]
	h.places = h.places[:len(h.places)-1]
	h.entry[last] = -1
	return last
}

// has reports whether the place is in the heap.
func (h *rankHeap) has(place int32) bool { return h.entry[place] >= 0 }

// set adds the place with the rank to the heap, or moves it if the heap has it.
func (h *rankHeap) set(place int32, r rank) {
	h.rank[place] = r
	if h.has(place) {
		heap.Fix(h, int(h.entry[place]))
	} else {
		heap.Push(h, place)
	}
}

// drop removes the place, if it is in the heap.
func (h *rankHeap) drop(place int32) {
	if h.has(place) {
		heap.Remove(h, int(h.entry[place]))
	}
}
