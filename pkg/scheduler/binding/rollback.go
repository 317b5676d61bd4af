// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// startPendingRollbacks handles the failed members that no goroutine rolls back yet. It releases members with nothing
// to undo, and starts the rollback of the other members.
func (r *run) startPendingRollbacks() {
	for _, m := range r.roster.takePendingRollbacks() {
		if r.roster.lastOwed(m) == nil {
			r.release(m)
			continue
		}
		r.work.Go(func() { r.undo(m) })
	}
}

// undo rolls back the steps of the failed member, the last step first, and releases the member. It is called when no
// step of the member runs.
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

// rollback undoes one step. It retries until the rollback succeeds, or until the step's objects no longer exist. It
// returns false when Abort ended the retries.
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

// acquire adds an element to the channel places as soon as it has room. It returns false when ctx ended first.
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

// tryRollback runs the rollback of the step once. The caller has acquired an element of r.undoing, and tryRollback
// removes it.
func (r *run) tryRollback(m *member, s *Step) error {
	defer func() { <-r.undoing }()
	ctx, cancel := context.WithTimeout(r.e.ctx, s.timeout())
	defer cancel()
	return protect(s, m, func() error { return s.Rollback(ctx, m.Task, m.Node) })
}

// Undo undoes what plugins did for a member whose transaction Submit refused. It rolls back the steps marked with
// RollbackIfNotRun, once and synchronously, the last step first. It stops at the first failure, and after Abort it
// undoes nothing. If it returns an error, the member must not be placed again.
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

// release releases the failed member's resources in the ledger.
func (r *run) release(m *member) {
	m.stuck.stop()
	r.e.ledger.Released(m.Member, m.err)
	r.roster.enterFinalState(m, stateReleased)
}
