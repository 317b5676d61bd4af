// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"sync"
)

// sharedReads shares reads of one object among the members of a gang, whose steps run concurrently. The zero value is
// ready for use.
//
// Two rules hold. At most one read of each object (key) is in flight. And a caller only gets the result of a read that
// began after its call. So a caller does not use a read that is already in flight, because that read may return an
// older version of the object. All callers that arrive during a read share the next read:
//
//	first caller ──► read A ──────────┐
//	second, third caller ──► wait ──► read B, returned to both
//
// A read is cancelled when all its callers have stopped waiting, no later than the last of their deadlines.
type sharedReads struct {
	mu sync.Mutex
	// queues has an entry for each object, by its key such as "node/n1", that is being read.
	queues map[string]*keyQueue
}

// keyQueue is the queue of reads of one object. At most one read waits until the read in flight has ended.
type keyQueue struct {
	next *sharedRead
}

type sharedRead struct {
	ctx    context.Context
	cancel context.CancelFunc
	read   func(context.Context) (object, error)
	// waiters counts the callers that still wait for this read; guarded by sharedReads.mu.
	waiters int
	// done is closed once the results, object and err, are set.
	done   chan struct{}
	object object
	err    error
}

// get returns the result of a read of the object with the key. The read begins after the call of get. If the context
// ends first, get returns the context's error.
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

// join adds the caller to the next read of the object with the key. It starts that read at once if the object is not
// being read.
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

// leave removes a caller that no longer waits for the read. If it was the last caller, the read is cancelled.
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

// run runs the given read r of the object with the key, and then the reads that wait for the same object, until none
// waits.
func (s *sharedReads) run(key string, r *sharedRead) {
	for r != nil {
		r.object, r.err = r.read(r.ctx)
		r.cancel()
		close(r.done)
		r = s.pop(key)
	}
}

// pop returns the read that waits to be run for the object with the key. If none waits, it removes the queue of the key
// and returns nil.
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
