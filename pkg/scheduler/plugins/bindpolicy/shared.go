// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"sync"
)

// sharedReads shares reads of one object among the members of a gang, whose steps run side by side. Its zero
// value is ready.
//
// Invariants: of one key at most one read is under way, and a caller is only given a read that began after it
// asked. So who finds a read under way does not join it, since that one may have seen the object as it was
// before; all who come meanwhile share the one that follows:
//
//	first caller ──► read A ──────────┐
//	second, third caller ──► wait ──► read B, given to both
//
// A read is cancelled when all who wait for it have left, and lasts no longer than the longest of their deadlines.
type sharedReads struct {
	mu sync.Mutex
	// queues has an entry for each key with a read under way.
	queues map[string]*keyQueue
}

// keyQueue is the queue of one key, in which at most one read waits behind the one under way.
type keyQueue struct {
	next *sharedRead
}

type sharedRead struct {
	ctx    context.Context
	cancel context.CancelFunc
	read   func(context.Context) (object, error)
	// waiters counts the callers still there; guarded by sharedReads.mu.
	waiters int
	// done is closed when object and err are set.
	done   chan struct{}
	object object
	err    error
}

// get returns what a read that began after the call says, or the context's error.
func (s *sharedReads) get(ctx context.Context, key string, read func(context.Context) (object, error)) (object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := s.join(ctx, key, read)
	select {
	case <-r.done:
		return r.object, r.err
	case <-ctx.Done():
		s.leave(key, r)
		return nil, ctx.Err()
	}
}

// join adds the caller to the next read of the key, and starts it when none is under way.
func (s *sharedReads) join(ctx context.Context, key string, read func(context.Context) (object, error)) *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, busy := s.queues[key]
	if busy && current.next != nil {
		current.next.waiters++
		return current.next
	}
	r := &sharedRead{read: read, waiters: 1, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if busy {
		current.next = r
		return r
	}
	if s.queues == nil {
		s.queues = map[string]*keyQueue{}
	}
	s.queues[key] = &keyQueue{}
	go s.run(key, r)
	return r
}

// leave drops a caller. With the last one goes the read.
func (s *sharedReads) leave(key string, r *sharedRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters > 0 {
		return
	}
	r.cancel()
	if current, busy := s.queues[key]; busy && current.next == r {
		current.next = nil
	}
}

// run does the key's reads one after the other until no caller waits for one.
func (s *sharedReads) run(key string, r *sharedRead) {
	for r != nil {
		r.object, r.err = r.read(r.ctx)
		r.cancel()
		close(r.done)
		r = s.pop(key)
	}
}

// pop takes the read that waits, and closes the queue when there is none.
func (s *sharedReads) pop(key string) *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.queues[key].next
	if r == nil {
		delete(s.queues, key)
		return nil
	}
	s.queues[key].next = nil
	return r
}
