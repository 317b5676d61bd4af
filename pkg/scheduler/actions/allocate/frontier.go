// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"container/heap"
	"iter"
)

// byRank yields the places of the nodes that fit, the best first, and sorts no more of them than are taken. The field must
// not change meanwhile.
func (f *field) byRank() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if len(f.heap) == 0 || !yield(f.heap[0]) { // mostly the first is taken
			return
		}
		next := &frontier{field: f}
		next.addBelow(0)
		for len(next.open) > 0 {
			entry := heap.Pop(next).(int)
			if !yield(f.heap[entry]) {
				return
			}
			next.addBelow(entry)
		}
	}
}

// frontier is the entries of a field's heap that may be the next best: those whose parent was taken. It is a heap itself.
type frontier struct {
	field *field
	open  []int
}

var _ heap.Interface = (*frontier)(nil)

// addBelow adds the entries whose parent was taken.
func (n *frontier) addBelow(parent int) {
	for child := 2*parent + 1; child <= 2*parent+2 && child < len(n.field.heap); child++ {
		heap.Push(n, child)
	}
}

func (n *frontier) Len() int           { return len(n.open) }
func (n *frontier) Less(i, j int) bool { return n.field.Less(n.open[i], n.open[j]) }
func (n *frontier) Swap(i, j int)      { n.open[i], n.open[j] = n.open[j], n.open[i] }
func (n *frontier) Push(entry any)     { n.open = append(n.open, entry.(int)) }

func (n *frontier) Pop() any {
	last := n.open[len(n.open)-1]
	n.open = n.open[:len(n.open)-1]
	return last
}
