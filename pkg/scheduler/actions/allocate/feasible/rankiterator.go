// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"container/heap"
	"iter"
)

// byRank yields the nodes in the heap, by their indexes in the set's Nodes, the best first. It sorts only as many nodes
// as the caller consumes. The heap must not change during the iteration.
func (h *rankHeap) byRank() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if len(h.places) == 0 || !yield(h.places[0]) { // most callers consume only the first node
			return
		}
		next := &rankIterator{of: h}
		next.addBelow(0)
		for len(next.open) > 0 {
			entry := heap.Pop(next).(int)
			if !yield(h.places[entry]) {
				return
			}
			next.addBelow(entry)
		}
	}
}

// rankIterator contains the entries of a heap that may be next: entries whose parent was consumed. It is a heap itself.
type rankIterator struct {
	of   *rankHeap
	open []int
}

var _ heap.Interface = (*rankIterator)(nil)

// addBelow adds the children of a consumed entry of the heap, because one of them may be next.
func (n *rankIterator) addBelow(parent int) {
	for child := 2*parent + 1; child <= 2*parent+2 && child < len(n.of.places); child++ {
		heap.Push(n, child)
	}
}

func (n *rankIterator) Len() int           { return len(n.open) }
func (n *rankIterator) Less(i, j int) bool { return n.of.Less(n.open[i], n.open[j]) }
func (n *rankIterator) Swap(i, j int)      { n.open[i], n.open[j] = n.open[j], n.open[i] }

// Push implements heap.Interface.
func (n *rankIterator) Push(entry any) { n.open = append(n.open, entry.(int)) }

// Pop implements heap.Interface.
func (n *rankIterator) Pop() any {
	last := n.open[len(n.open)-1]
	n.open = n.open[:len(n.open)-1]
	return last
}
