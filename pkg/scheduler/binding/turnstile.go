package binding

import (
	"container/heap"
	"context"
	"sync"
)

// turnstile bounds the calls to the API server under way. When more wait than may pass, those of the transaction that
// was submitted first go first: transactions end one after the other instead of all at the end, and a crash in
// between leaves few gangs bound in part.
type turnstile struct {
	mu   sync.Mutex
	free int
	line line
	// tickets counts the waiters so far; it keeps those of one transaction in order.
	tickets int64
}

// waiter is one call that waits for its slot, or has it.
type waiter struct {
	age, ticket int64
	// granted is closed once the slot is the waiter's.
	granted chan struct{}
	// place is the waiter's index in the line; -1 when it is not in it.
	place int
}

func newTurnstile(slots int) *turnstile { return &turnstile{free: slots} }

// join asks for a slot for a transaction of that age; the smaller, the older. Whoever joins waits for granted and
// then calls release, or calls leave.
func (t *turnstile) join(age int64) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets++
	w := &waiter{age: age, ticket: t.tickets, granted: make(chan struct{}), place: -1}
	if t.free > 0 {
		t.free--
		close(w.granted)
		return w
	}
	heap.Push(&t.line, w)
	return w
}

// leave gives up the wait, or the slot when it was granted meanwhile.
func (t *turnstile) leave(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.place >= 0 {
		heap.Remove(&t.line, w.place)
		return
	}
	t.pass()
}

// release gives a slot back.
func (t *turnstile) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass hands a slot to the first in line; mu is held.
func (t *turnstile) pass() {
	if len(t.line) == 0 {
		t.free++
		return
	}
	close(heap.Pop(&t.line).(*waiter).granted)
}

// acquire waits for a slot; false when ctx ended first.
func (t *turnstile) acquire(ctx context.Context, age int64) bool {
	if ctx.Err() != nil {
		return false
	}
	w := t.join(age)
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
		t.leave(w)
		return false
	}
}

// line is a heap of waiters: the oldest transaction's first, and within one in the order they came.
type line []*waiter

func (l line) Len() int { return len(l) }

func (l line) Less(i, j int) bool {
	if l[i].age != l[j].age {
		return l[i].age < l[j].age
	}
	return l[i].ticket < l[j].ticket
}

func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push implements heap.Interface.
func (l *line) Push(x any) {
	w := x.(*waiter)
	w.place = len(*l)
	*l = append(*l, w)
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	old := *l
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*l = old[:len(old)-1]
	w.place = -1
	return w
}
