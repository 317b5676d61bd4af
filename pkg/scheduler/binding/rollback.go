// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// adoptOrphans sees to the failed members that no goroutine rolls back yet: it releases those with nothing to undo,
// and starts the rollback of the others.
func (r *run) adoptOrphans() {
	r.mu.Lock()
	orphans := r.orphans
	r.orphans = nil
	r.mu.Unlock()
	for _, m := range orphans {
		if r.lastOwed(m) == nil {
			r.release(m)
			continue
		}
		r.work.Go(func() { r.undo(m) })
	}
}

// undo rolls back the failed member's steps that are owed it, the last one first, and releases it. No step of the member
// is running any more.
func (r *run) undo(m *member) {
	for s := r.lastOwed(m); s != nil; s = r.lastOwed(m) {
		if !r.rollback(m, s) {
			r.abandon(m, ErrAborted)
			return
		}
		r.undone(m)
		r.retell(m)
	}
	r.release(m)
}

// lastOwed returns the last step of the failed member that is to be rolled back, nil when there is none.
func (r *run) lastOwed(m *member) *Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := m.owed()
	if i < 0 {
		return nil
	}
	return &m.Steps[i]
}

func (r *run) undone(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.kept = m.owed()
	m.undoErr, m.since = nil, time.Now()
}

// rollback undoes one step: it tries again until that succeeds, or what the step did is gone. It returns false when
// Abort ended that.
func (r *run) rollback(m *member, s *Step) bool {
	for pauses := r.e.pauses(r.e.rollback); acquire(r.e.ctx, r.undoing); {
		err := r.tryRollback(m, s)
		if apierrors.IsNotFound(err) {
			err = nil
		}
		r.e.observer.RollbackDone(s.Plugin, err)
		if err == nil {
			return true
		}
		r.mu.Lock()
		m.undoErr = err
		r.mu.Unlock()
		pauses.pause(r.e.ctx, err)
	}
	return false
}

// acquire takes a place; false when ctx ended first.
func acquire(ctx context.Context, places chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// tryRollback runs the rollback once, in a place that is taken, and gives the place back.
func (r *run) tryRollback(m *member, s *Step) error {
	defer func() { <-r.undoing }()
	ctx, cancel := context.WithTimeout(r.e.ctx, s.timeout())
	defer cancel()
	return protect(s, m, func() error { return s.Rollback(ctx, m.Task, m.Node) })
}

// Undo rolls back, once, the steps marked with RollbackUnbegun of a member whose transaction Submit refused, the last one
// first; the caller waits for it. The first failure ends it, and after Abort it undoes nothing: the member must not be
// placed again then.
func (e *Engine) Undo(m *Member) error {
	own := newMember(e.ctx, m)
	defer own.cancel(nil)
	for ; own.owed() >= 0; own.kept = own.owed() {
		s := &m.Steps[own.owed()]
		ctx, cancel := context.WithTimeout(e.ctx, min(s.timeout(), e.callTimeout))
		err := context.Cause(ctx)
		if err == nil {
			err = protect(s, own, func() error { return s.Rollback(ctx, m.Task, m.Node) })
		}
		cancel()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("undoing pre-bind plugin %s for pod %s on node %s: %w", s.Plugin, m.key(), m.Node, err)
		}
	}
	return nil
}

// release gives the failed member's resources back.
func (r *run) release(m *member) {
	m.stuck.stop()
	r.e.ledger.Released(m.Member, m.err)
	r.mu.Lock()
	r.move(m, stateReleased)
	r.mu.Unlock()
	r.retell(m)
}

// abandon leaves the member as it is, for the next leader.
func (r *run) abandon(m *member, err error) {
	m.stuck.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.err == nil {
		m.err = err
	}
	r.move(m, stateAbandoned)
}

// alarm runs a function once after a while, unless it is stopped before. A nil alarm never does.
type alarm struct {
	timer   *time.Timer
	done    chan struct{}
	stopped bool
}

func after(d time.Duration, f func()) *alarm {
	a := &alarm{done: make(chan struct{})}
	a.timer = time.AfterFunc(d, func() {
		defer close(a.done)
		f()
	})
	return a
}

// stop returns when the function will not run any more, and does not run. It may be called again, by one goroutine at a
// time.
func (a *alarm) stop() {
	if a == nil || a.stopped {
		return
	}
	a.stopped = true
	if !a.timer.Stop() {
		<-a.done
	}
}
