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
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// prioritySemaphore bounds the calls to the API server under way. Calls can hang until their time-out, for example behind a slow
// admission webhook, and must then delay only their own namespace.
//
//   - A call that hangs, that is one older than slotTime, releases its slot while it goes on, as long as there are no
//     more such calls than slots.
//   - A namespace may hold as many slots as are free. One alone thus has half of the slots, and several that want more
//     end with equal shares and one such share free.
//   - While calls hang, gangs of a namespace that hold a slot get another only as far as its window allows: the window grows
//     with each call that ends, and shrinks with each that hangs.
//   - A free slot goes to the namespace that holds the fewest slots; among equals to the one that released a slot longest ago.
//     There it goes to the oldest gang, so that gangs end one after the other instead of all at the end, and a crash in
//     between leaves few of them partially bound. While few gangs hold slots, it goes to the oldest gang that holds none.
//
// A grant costs O(log n) for n waiting namespaces, plus a pass over the holders (at most as many as slots), plus an insertion
// among the namespace's waiting gangs.
type prioritySemaphore struct {
	mu    sync.Mutex
	slots int
	free  int
	// lent counts the slots that hanging calls released.
	lent int
	// namespaces are the namespaces that hold slots, wait, or have calls that hang.
	namespaces map[string]*namespaceSlots
	// waiting are the namespaces that wait, in the order in which they are served.
	waiting namespaceHeap
	// turns is a logical clock: it counts released slots and new namespaces.
	turns int64
	// passedOver is scratch memory of next.
	passedOver []*namespaceSlots
}

const (
	// slotTime is how long a call keeps a slot. A Binding takes milliseconds.
	slotTime = time.Second
	// openWindow is how many slots a namespace without history may hold while other namespaces' calls hang.
	openWindow = 4
	// kept is the ratio of a namespace's slots that is reserved for gangs that hold none: one in kept. These gangs are
	// served first.
	kept = 8
)

// requester is a transaction that asks for slots.
type requester struct {
	namespace string
	// age orders requesters: a smaller value is older. All values differ.
	age int64

	// The fields below are guarded by the semaphore's mu.

	held int
	// line holds its waiters in the order of arrival.
	line list.List
}

// waiter is one call that waits for its slot, or has it.
type waiter struct {
	*requester
	// granted is closed once the waiter has its slot.
	granted chan struct{}
	// element is the waiter's place in the line; nil when the waiter is not in the line.
	element *list.Element
	// lent reports whether the call hangs and has released its slot, ended whether the call is over.
	lent, ended bool
}

// namespaceSlots is a namespace that holds slots or waits.
type namespaceSlots struct {
	name       string
	held, lent int
	// waiters counts the waiters of all requesters of the namespace.
	waiters int
	window  int
	// turn is the logical time when the namespace last released a slot, or was created.
	turn int64
	// holders are the requesters that hold slots; newcomers are the requesters that wait and hold none.
	holders, newcomers byAge
	// place is the namespace's index among the namespaces that wait; -1 when it does not wait.
	place int
}

func newPrioritySemaphore(slots int) *prioritySemaphore {
	return &prioritySemaphore{slots: slots, free: slots, namespaces: map[string]*namespaceSlots{}}
}

func newRequester(gang api.JobID, age int64) *requester {
	namespace, _, _ := strings.Cut(string(gang), "/")
	return &requester{namespace: namespace, age: age}
}

// acquire waits for a slot, and returns nil when ctx ended first.
func (s *prioritySemaphore) acquire(ctx context.Context, c *requester) *waiter {
	if ctx.Err() != nil {
		return nil
	}
	w := s.join(c)
	select {
	case <-w.granted:
		return w
	case <-ctx.Done():
		s.leave(w)
		return nil
	}
}

// join asks for a slot. The caller then waits for granted and calls release, or calls leave.
func (s *prioritySemaphore) join(c *requester) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.namespaces[c.namespace]
	if !ok {
		s.turns++
		n = &namespaceSlots{name: c.namespace, turn: s.turns, window: openWindow, place: -1}
		s.namespaces[n.name] = n
	}
	w := &waiter{requester: c, granted: make(chan struct{})}
	w.element = c.line.PushBack(w)
	n.waiters++
	if c.held == 0 && c.line.Len() == 1 {
		n.newcomers.add(c)
	}
	s.reorder(n)
	s.serve()
	return w
}

// leave ends the wait, or releases the slot if it was granted meanwhile.
func (s *prioritySemaphore) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespaces[w.namespace]
	if w.element == nil {
		s.returnSlot(n, w.requester)
		return
	}
	w.line.Remove(w.element)
	n.waiters--
	if w.held == 0 && w.line.Len() == 0 {
		n.newcomers.drop(w.requester)
	}
	s.reorder(n)
}

// lend releases the slot of a call that hangs.
func (s *prioritySemaphore) lend(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ended {
		return
	}
	n := s.namespaces[w.namespace]
	n.window = max(n.window-1, openWindow)
	if s.lent == s.slots {
		return
	}
	w.lent = true
	s.lent++
	n.lent++
	s.returnSlot(n, w.requester)
}

// release ends a call, and releases its slot if it still has one.
func (s *prioritySemaphore) release(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespaces[w.namespace]
	w.ended = true
	n.window = min(n.window+1, s.slots)
	if !w.lent {
		s.returnSlot(n, w.requester)
		return
	}
	s.lent--
	n.lent--
	s.reorder(n)
	s.serve()
}

// returnSlot frees a slot of the requester, and serves waiters. It is called with mu held, like all functions below.
func (s *prioritySemaphore) returnSlot(n *namespaceSlots, c *requester) {
	s.free++
	s.turns++
	n.turn = s.turns
	n.held--
	c.held--
	if c.held == 0 {
		n.holders.drop(c)
		if c.line.Len() > 0 {
			n.newcomers.add(c)
		}
	}
	s.reorder(n)
	s.serve()
}

// serve grants slots as long as a requester may have one.
func (s *prioritySemaphore) serve() {
	for n, c := s.next(); c != nil; n, c = s.next() {
		s.grant(n, c)
	}
}

// next returns the requester to serve next, and its namespace; nil when none may have a slot. A namespace whose window is closed
// is passed over. There are few of these, because each holds slots itself.
func (s *prioritySemaphore) next() (*namespaceSlots, *requester) {
	var found *requester
	for found == nil && len(s.waiting) > 0 && s.waiting[0].held < s.free {
		n := s.waiting[0]
		if found = n.next(s.free, s.lent > 0); found == nil {
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

func (s *prioritySemaphore) grant(n *namespaceSlots, c *requester) {
	w := c.line.Remove(c.line.Front()).(*waiter)
	w.element = nil
	if c.held == 0 {
		n.newcomers.drop(c)
		n.holders.add(c)
	}
	s.free--
	n.held++
	n.waiters--
	c.held++
	s.reorder(n)
	close(w.granted)
}

// reorder restores the namespace's place in the heap after a change.
func (s *prioritySemaphore) reorder(n *namespaceSlots) {
	switch {
	case n.waiters > 0 && n.place < 0:
		heap.Push(&s.waiting, n)
	case n.waiters > 0:
		heap.Fix(&s.waiting, n.place)
	case n.place >= 0:
		heap.Remove(&s.waiting, n.place)
	}
	if n.waiters+n.held+n.lent == 0 {
		delete(s.namespaces, n.name)
	}
}

// next returns the namespace's requester to serve next from the free slots; nil when none may have one.
func (n *namespaceSlots) next(free int, hanging bool) *requester {
	var newcomer *requester
	if len(n.newcomers) > 0 {
		newcomer = n.newcomers[0]
	}
	if hanging && n.held >= n.window || newcomer != nil && len(n.holders) <= (free+n.held)/(2*kept) {
		return newcomer
	}
	for _, c := range n.holders {
		if newcomer != nil && newcomer.age < c.age {
			break
		}
		if c.line.Len() > 0 {
			return c
		}
	}
	return newcomer
}

// byAge are requesters, the oldest first.
type byAge []*requester

func (b *byAge) add(c *requester) {
	i, _ := b.find(c)
	*b = slices.Insert(*b, i, c)
}

func (b *byAge) drop(c *requester) {
	i, _ := b.find(c)
	*b = slices.Delete(*b, i, i+1)
}

func (b *byAge) find(c *requester) (int, bool) {
	return slices.BinarySearchFunc(*b, c.age, func(other *requester, age int64) int { return cmp.Compare(other.age, age) })
}

// namespaceHeap is a heap of namespaces with the next one to serve on top.
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
