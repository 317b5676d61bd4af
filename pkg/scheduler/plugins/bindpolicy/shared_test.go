// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// gatedReads counts reads and blocks each read until release is closed.
type gatedReads struct {
	mu      sync.Mutex
	started int
	release chan struct{}
}

func (g *gatedReads) read(ctx context.Context) (object, error) {
	g.mu.Lock()
	g.started++
	number := g.started
	g.mu.Unlock()
	select {
	case <-g.release:
		return object{"read": number}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestSharedReadsAreNeverStale checks that a caller does not join a read in progress: that read may have returned the
// object's state before the caller's step began. Callers that arrive during a read share the next one.
func TestSharedReadsAreNeverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared sharedReads
		gate := &gatedReads{release: make(chan struct{})}
		got := make([]object, 4)
		var callers sync.WaitGroup
		for i := range got {
			callers.Go(func() { got[i], _ = shared.get(t.Context(), "node/n", gate.read) })
			synctest.Wait()
		}
		if gate.started != 1 {
			t.Fatalf("%d reads in progress, want 1", gate.started)
		}
		close(gate.release)
		callers.Wait()
		for i, want := range []int{1, 2, 2, 2} {
			if got[i]["read"] != want {
				t.Errorf("caller %d received the result of read %v, want read %d", i, got[i]["read"], want)
			}
		}
		synctest.Wait()
		if len(shared.queues) != 0 {
			t.Errorf("%d queues remain, want none", len(shared.queues))
		}
	})
}

func TestSharedReadsEndWithTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared sharedReads
		gate := &gatedReads{release: make(chan struct{})}
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		errs := make([]error, 3)
		var third object
		var callers sync.WaitGroup
		callers.Go(func() { _, errs[0] = shared.get(first, "node/n", gate.read) })
		synctest.Wait()
		callers.Go(func() { _, errs[1] = shared.get(second, "node/n", gate.read) })
		synctest.Wait()
		// The second caller leaves. The read that only this caller waited for is not made.
		endSecond()
		synctest.Wait()
		callers.Go(func() { third, errs[2] = shared.get(t.Context(), "node/n", gate.read) })
		synctest.Wait()
		// The first caller leaves. Its read is cancelled, and the third caller's read begins.
		endFirst()
		synctest.Wait()
		close(gate.release)
		callers.Wait()
		if !errors.Is(errs[0], context.Canceled) || !errors.Is(errs[1], context.Canceled) {
			t.Errorf("the cancelled callers got %v and %v, want context.Canceled", errs[0], errs[1])
		}
		if errs[2] != nil || third["read"] != 2 {
			t.Errorf("the third caller got %v, %v; want read 2", third, errs[2])
		}
	})
}

func TestSharedReadsKeepKeysApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shared sharedReads
		gate := &gatedReads{release: make(chan struct{})}
		var callers sync.WaitGroup
		for _, key := range []string{"node/a", "node/b"} {
			callers.Go(func() { _, _ = shared.get(t.Context(), key, gate.read) })
		}
		synctest.Wait()
		if gate.started != 2 {
			t.Errorf("%d reads in progress for two keys, want 2", gate.started)
		}
		close(gate.release)
		callers.Wait()
	})
}
