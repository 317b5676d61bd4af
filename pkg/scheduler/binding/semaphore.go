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

// prioritySemaphore bounds the concurrent calls to the API server. Calls can hang until their timeout, for example
// behind a slow admission webhook, and must then delay only their own namespace.
//
//   - A call hangs if it is older than slotTime. It then releases its slot and continues, as long as fewer calls
//     hang than there are slots.
//   - A namespace may hold as many slots as are free. A single busy namespace thus gets half of the slots. If several
//     are busy, they get equal numbers of slots, and the same number stays free.
//   - While calls hang, each namespace has a window. Gangs that hold a slot get another only while their namespace holds
//     fewer slots than its window. The window grows with each call that ends, and shrinks with each that hangs.
//   - A free slot goes to the namespace that holds the fewest slots. Among equals it goes to the namespace that released
//     a slot longest ago.
//   - In that namespace, the slot goes to the oldest gang. So gangs end one after the other instead of all at the end, and
//     a crash leaves few of them partially bound. But while few gangs hold slots, it goes to the oldest gang without a slot.
//
// A grant costs O(log n) for n waiting namespaces, plus a pass over the gangs that hold slots (at most as many as
// slots), plus an insertion among the namespace's waiting gangs.
type prioritySemaphore struct {
	mu    sync.Mutex
	slots int
	free  int
	// lent is the number of calls that hang and have released their slots.
	lent int
	// namespaces are the namespaces that hold slots, wait for slots, or have calls that hang.
	namespaces map[string]*namespaceSlots
	// waiting are the namespaces that wait for slots, in the order in which they are served.
	waiting namespaceHeap
	// turns is a logical clock. It advances with each released slot and each new namespace.
	turns int64
	// passedOver are the namespaces that prioritySemaphore.next has skipped while it runs. The slice is used again by
	// each call, to avoid allocations.
	passedOver []*namespaceSlots
}

const (
	// slotTime is how long a call keeps its slot; a longer call hangs. A Binding takes milliseconds.
	slotTime = time.Second
	// openWindow is how many slots a new namespace may hold while other namespaces' calls hang.
	openWindow = 4
	// kept is the reciprocal of the part of a namespace's slots that goes first to gangs without a slot: until more
	// than that number of gangs hold slots, a gang without a slot is served before gangs that hold some.
	kept = 8
)

// requester is a transaction that requests slots.
type requester struct {
	namespace string
	// age orders requesters; a smaller value is an older requester. All values differ.
	age int64

	// prioritySemaphore.mu guards the fields below.

	held int
	// line holds the requester's waiters in the order of arrival.
	line list.List
}

// waiter is one call that waits for a slot, or has one.
type waiter struct {
	*requester
	// granted is closed once the waiter has its slot.
	granted chan struct{}
	// element is the waiter's position in the requester's line; nil when the waiter is not in the line.
	element *list.Element
	// lent reports whether the call hangs and has released its slot. ended reports whether the call is over.
	lent, ended bool
}

// namespaceSlots is a namespace that holds slots or waits for slots.
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
	// place is the namespace's index in prioritySemaphore.waiting; -1 when the namespace does not wait.
	place int
}

func newPrioritySemaphore(slots int) *prioritySemaphore {
	return &prioritySemaphore{slots: slots, free: slots, namespaces: map[string]*namespaceSlots{}}
}

func newRequester(gang api.JobID, age int64) *requester {
	namespace, _, _ := strings.Cut(string(gang), "/")
	return &requester{namespace: namespace, age: age}
}

// acquire waits for a slot, and returns nil if ctx ends first.
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

// join requests a slot. The caller must then either wait for granted and later call release, or call leave.
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

// leave ends the wait for a slot. If the slot was already granted, leave releases it.
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

// returnSlot frees a slot of the requester, and grants free slots to waiters. It is called with mu held, like all
// functions below.
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

// serve grants free slots until no requester may have one.
func (s *prioritySemaphore) serve() {
	for n, c := s.next(); c != nil; n, c = s.next() {
		s.grant(n, c)
	}
}

// next returns the requester that gets the next slot, and its namespace; nil if none may have a slot. It skips namespaces
// that already hold as many slots as their window allows. Few are skipped, because each of them holds slots.
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

// reorder moves the namespace to its position in the heap after its slots or waiters changed.
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

// next returns the namespace's requester that gets the next of the free slots; nil when none may have one. hanging
// reports whether calls hang.
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

// byAge is a list of requesters, the oldest first.
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

// namespaceHeap is a heap of namespaces. The namespace that is served next is on top.
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
