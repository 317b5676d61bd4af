// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
)

// quorumAttempts bounds how often the engine asks the Gatekeeper whether the members that have not failed are enough
// for their gangs. While such members exist, a try without a connection to the API server is not counted. During such an
// outage no other gang could be bound and no step rolled back, so waiting costs nothing.
const quorumAttempts = 5

// barrier decides the transaction once every member has passed or failed. It returns the members to bind, in state
// binding, and a slot for the first Binding. If all members have failed, it returns no members.
func (r *run) barrier() ([]*member, *waiter) {
	for r.quorumErr == nil {
		if r.e.ctx.Err() != nil {
			r.roster.failAll(ErrAborted)
		}
		r.roster.forgetChange()
		chosen, lost := r.roster.alive()
		r.startPendingRollbacks() // after roster.alive, so that each member that was lost by then is rolled back
		err := r.quorum(chosen, quorumAttempts)
		if errors.Is(err, errFewer) {
			continue
		}
		if err != nil {
			r.refuseAll(err)
			break
		}
		if len(chosen) == 0 {
			break
		}
		slot := r.e.slots.join(r.slots)
		select {
		case <-slot.granted:
			r.checkBeforeCommit(chosen)
			if r.roster.commit(r.e.ctx, chosen, lost) {
				return chosen, slot
			}
		case <-r.roster.changed:
		}
		r.e.slots.leave(slot)
	}
	r.roster.enter(phaseRollback)
	r.startPendingRollbacks()
	return nil, nil
}

// abortIfBelowMinimum fails the remaining members if they cannot reach the gang's minimum even when all of them pass. It
// returns false if the answer is outdated, because further members failed while the Gatekeeper was asked.
func (r *run) abortIfBelowMinimum() bool {
	alive, _ := r.roster.alive()
	err := r.quorum(alive, 1)
	switch {
	case errors.Is(err, errFewer):
		return false
	case err != nil && !transient(err):
		r.refuseAll(err)
	}
	return true
}

// refuseAll fails all members because the gang cannot reach its minimum. lack says what is missing.
func (r *run) refuseAll(lack error) {
	r.quorumErr = lack
	r.roster.failAll(fmt.Errorf("%w: %w", ErrNoQuorum, lack))
}

// errFewer is the result of quorum if further members failed while quorum waited for an answer of the Gatekeeper.
var errFewer = errors.New("further members failed while the minimum was being checked")

// quorum asks the Gatekeeper whether the members are enough for their gangs; nil means that they are. After an error
// that may pass, it asks again with backoff, until it has asked as often as attempts allows. RetryNow starts this count
// again. If a member fails in the meantime, quorum returns errFewer.
func (r *run) quorum(members []*member, attempts int) error {
	pauses := r.e.pauses(r.e.options.retry)
	pauses.changed = r.roster.changed
	for left := attempts; ; {
		err := r.ask(contracts(members))
		if err == nil || !transient(err) {
			return err
		}
		if len(members) == 0 || !unanswered(err) {
			left--
		}
		if left == 0 {
			return err
		}
		r.roster.unread(err)
		if !pauses.pause(r.e.ctx, err) {
			return err
		}
		if pauses.endedEarly {
			left = attempts
		}
		if alive, _ := r.roster.alive(); len(alive) < len(members) {
			return errFewer
		}
	}
}

func (r *run) ask(members []*Member) error {
	ctx, cancel := context.WithTimeout(r.e.ctx, r.e.options.callTimeout)
	defer cancel()
	return r.e.gate.Quorum(ctx, r.tx, members)
}
