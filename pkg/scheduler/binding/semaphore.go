// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"cmp"
	"container/heap"
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// prioritySemaphore bounds the calls to the API server under way. Calls can hang until their time-out, behind a slow
// admission webhook say, so nobody may hold all slots: whoever comes later must find some.
//
//   - A namespace may hold as many slots as there are free. One alone thus has half of them, and several that want more
//     end with equal shares and one such share free.
//   - Of the slots that its namespace holds or may still take, a gang may hold as many as it and those before it leave:
//     the oldest half, the next half of the rest, and so on. Gangs thus end one after the other instead of all at the
//     end, and a crash in between leaves few of them bound in part. The last eighth is for gangs that
//     hold none.
//   - A free slot goes to the namespace that holds the fewest, of equals to the one that gave a slot back longest ago, and
//     there to the oldest gang that may have it.
//
// A grant costs O(log n) for n that wait, and at most one look at each of the holders, of which there are no more than
// slots.
type prioritySemaphore struct {
	mu   sync.Mutex
	free int
	// namespaces are those that hold slots or wait.
	namespaces map[string]*namespaceSlots
	// waiting are the namespaces that wait, in the order in which they are served.
	waiting namespaceHeap
	// turns counts slots given back and namespaces that came.
	turns int64
	// passedOver is next's, kept for its memory.
	passedOver []*namespaceSlots
}

// kept is the part of a namespace's room, one in so many slots, that is for gangs that hold none: those that come late may
// be older, and find the room taken by younger ones.
const kept = 8

// contender is a transaction that asks for slots.
type contender struct {
	namespace string
	// age orders contenders: the smaller, the older.
	age int64

	// What follows is guarded by the semaphore's mu.

	held int
	// line are its waiters in the order they came.
	line list.List
	// place is its index among the newcomers of its namespace.
	place int
}

// waiter is one call that waits for its slot, or has it.
type waiter struct {
	*contender
	// granted is closed once the slot is the waiter's.
	granted chan struct{}
	// element is the waiter's in the line; nil when it is not in it.
	element *list.Element
}

// namespaceSlots is a namespace that holds slots or waits.
type namespaceSlots struct {
	name string
	held int
	// waiters counts those of all its contenders.
	waiters int
	// turn is when the namespace gave a slot back last, or came.
	turn int64
	// holders are its contenders that hold slots, the oldest first.
	holders []*contender
	// newcomers are those that wait and hold none.
	newcomers ageHeap
	// place is its index among the namespaces that wait; -1 when it is not there.
	place int
}

func newPrioritySemaphore(slots int) *prioritySemaphore {
	return &prioritySemaphore{free: slots, namespaces: map[string]*namespaceSlots{}}
}

func newContender(gang api.JobID, age int64) *contender {
	namespace, _, _ := strings.Cut(string(gang), "/")
	return &contender{namespace: namespace, age: age}
}

// acquire waits for a slot; false when ctx ended first.
func (s *prioritySemaphore) acquire(ctx context.Context, c *contender) bool {
	if ctx.Err() != nil {
		return false
	}
	w := s.join(c)
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
		s.leave(w)
		return false
	}
}

// join asks for a slot. Whoever joins waits for granted and then calls release, or calls leave.
func (s *prioritySemaphore) join(c *contender) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.namespaces[c.namespace]
	if !ok {
		s.turns++
		n = &namespaceSlots{name: c.namespace, turn: s.turns, place: -1}
		s.namespaces[n.name] = n
	}
	w := &waiter{contender: c, granted: make(chan struct{})}
	w.element = c.line.PushBack(w)
	n.waiters++
	if c.held == 0 && c.line.Len() == 1 {
		heap.Push(&n.newcomers, c)
	}
	s.settle(n)
	s.serve()
	return w
}

// leave gives up the wait, or the slot when it was granted meanwhile.
func (s *prioritySemaphore) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.element == nil {
		s.giveBack(w.contender)
		return
	}
	n := s.namespaces[w.namespace]
	w.line.Remove(w.element)
	n.waiters--
	if w.held == 0 && w.line.Len() == 0 {
		heap.Remove(&n.newcomers, w.place)
	}
	s.settle(n)
}

// release gives a slot back.
func (s *prioritySemaphore) release(c *contender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveBack(c)
}

// giveBack is called with mu held, as are all that follow.
func (s *prioritySemaphore) giveBack(c *contender) {
	n := s.namespaces[c.namespace]
	s.free++
	s.turns++
	n.turn = s.turns
	n.held--
	c.held--
	if c.held == 0 {
		i, _ := n.holder(c)
		n.holders = slices.Delete(n.holders, i, i+1)
		if c.line.Len() > 0 {
			heap.Push(&n.newcomers, c)
		}
	}
	s.settle(n)
	s.serve()
}

// serve hands out slots as far as somebody may have them.
func (s *prioritySemaphore) serve() {
	for n, c := s.next(); c != nil; n, c = s.next() {
		s.grant(n, c)
	}
}

// next finds whose turn it is; nil when nobody may have a slot. A namespace all of whose gangs hold their share is passed
// over; it holds slots itself, so that there are few of them.
func (s *prioritySemaphore) next() (*namespaceSlots, *contender) {
	var found *contender
	for found == nil && len(s.waiting) > 0 && s.waiting[0].held < s.free {
		n := s.waiting[0]
		if found = n.next(s.free); found == nil {
			heap.Pop(&s.waiting)
			s.passedOver = append(s.passedOver, n)
		}
	}
	for _, n := range s.passedOver {
		heap.Push(&s.waiting, n)
	}
	s.passedOver = s.passedOver[:0]
	if found == nil {
		return nil, nil
	}
	return s.namespaces[found.namespace], found
}

func (s *prioritySemaphore) grant(n *namespaceSlots, c *contender) {
	w := c.line.Remove(c.line.Front()).(*waiter)
	w.element = nil
	if c.held == 0 {
		heap.Remove(&n.newcomers, c.place)
		i, _ := n.holder(c)
		n.holders = slices.Insert(n.holders, i, c)
	}
	s.free--
	n.held++
	n.waiters--
	c.held++
	s.settle(n)
	close(w.granted)
}

// settle puts the namespace in its place after a change.
func (s *prioritySemaphore) settle(n *namespaceSlots) {
	switch {
	case n.waiters > 0 && n.place < 0:
		heap.Push(&s.waiting, n)
	case n.waiters > 0:
		heap.Fix(&s.waiting, n.place)
	case n.place >= 0:
		heap.Remove(&s.waiting, n.place)
	}
	if n.waiters == 0 && n.held == 0 {
		delete(s.namespaces, n.name)
	}
}

// next finds the namespace's oldest contender that waits and may have one of the free slots, of which there are more than
// the namespace holds; nil when there is none.
func (n *namespaceSlots) next(free int) *contender {
	var newcomer *contender
	if len(n.newcomers) > 0 {
		newcomer = n.newcomers[0]
	}
	spare := (free - n.held + 1) / 2 // each slot it takes is one less that is free
	room := n.held + spare
	left := room
	for _, c := range n.holders {
		if spare <= room/kept || newcomer != nil && newcomer.age < c.age {
			break
		}
		left -= c.held
		if c.line.Len() > 0 && c.held < left {
			return c
		}
	}
	return newcomer
}

// holder is the contender's index among the holders, or where it belongs.
func (n *namespaceSlots) holder(c *contender) (int, bool) {
	return slices.BinarySearchFunc(n.holders, c.age, func(h *contender, age int64) int { return cmp.Compare(h.age, age) })
}

// namespaceHeap has the namespace on top that is served next.
type namespaceHeap []*namespaceSlots

func (h namespaceHeap) Len() int { return len(h) }

func (h namespaceHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].held, h[j].held), cmp.Compare(h[i].turn, h[j].turn)) < 0
}

func (h namespaceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *namespaceHeap) Push(x any) {
	n := x.(*namespaceSlots)
	n.place = len(*h)
	*h = append(*h, n)
}

// Pop implements heap.Interface.
func (h *namespaceHeap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	n.place = -1
	return n
}

// ageHeap has the oldest contender on top.
type ageHeap []*contender

func (h ageHeap) Len() int           { return len(h) }
func (h ageHeap) Less(i, j int) bool { return h[i].age < h[j].age }

func (h ageHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *ageHeap) Push(x any) {
	c := x.(*contender)
	c.place = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface.
func (h *ageHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
