// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// startPendingRollbacks handles the failed members that no goroutine rolls back yet: it releases members with nothing to undo, and
// starts the rollback of the others.
func (r *run) startPendingRollbacks() {
	for _, m := range r.roster.takePendingRollbacks() {
		if r.roster.lastOwed(m) == nil {
			r.release(m)
			continue
		}
		r.work.Go(func() { r.undo(m) })
	}
}

// undo rolls back the steps of the failed member that need it, the last one first, and releases the member. No step of
// the member runs at that time.
func (r *run) undo(m *member) {
	for s := r.roster.lastOwed(m); s != nil; s = r.roster.lastOwed(m) {
		if !r.rollback(m, s) {
			r.roster.abandon(m, ErrAborted)
			return
		}
		r.roster.undone(m)
	}
	r.release(m)
}

// rollback undoes one step. It retries until that succeeds, or until the step's objects no longer exist. It returns false
// when Abort ended the retries.
func (r *run) rollback(m *member, s *Step) bool {
	for pauses := r.e.pauses(r.e.options.rollback); acquire(r.e.ctx, r.undoing); {
		err := r.tryRollback(m, s)
		if apierrors.IsNotFound(err) {
			err = nil
		}
		r.e.observer.RollbackDone(s.Plugin, err)
		if err == nil {
			return true
		}
		r.roster.notUndone(m, err)
		pauses.pause(r.e.ctx, err)
	}
	return false
}

// acquire adds an element to the channel of places when it has room; it returns false when ctx ended first.
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

// tryRollback runs the rollback once, after acquire, and then releases its place in undoing.
func (r *run) tryRollback(m *member, s *Step) error {
	defer func() { <-r.undoing }()
	ctx, cancel := context.WithTimeout(r.e.ctx, s.timeout())
	defer cancel()
	return protect(s, m, func() error { return s.Rollback(ctx, m.Task, m.Node) })
}

// Undo rolls back, once and synchronously, the steps marked with RollbackIfNotRun of a member whose transaction Submit
// refused, the last one first. The first failure ends it, and after Abort it undoes nothing: the member must then not be
// placed again.
func (e *Engine) Undo(m *Member) error {
	own := newMember(e.ctx, m)
	defer own.cancel(nil)
	for ; own.owed() >= 0; own.kept = own.owed() {
		s := &m.Steps[own.owed()]
		ctx, cancel := context.WithTimeout(e.ctx, min(s.timeout(), e.options.callTimeout))
		err := context.Cause(ctx)
		if err == nil {
			err = protect(s, own, func() error { return s.Rollback(ctx, m.Task, m.Node) })
		}
		cancel()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("rolling back pre-bind plugin %s for pod %s on node %s: %w", s.Plugin, m.key(), m.Node, err)
		}
	}
	return nil
}

// release releases the failed member's resources.
func (r *run) release(m *member) {
	m.stuck.stop()
	r.e.ledger.Released(m.Member, m.err)
	r.roster.enterFinalState(m, stateReleased)
}
