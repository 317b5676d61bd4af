// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
)

// quorumAttempts bounds how often the Gatekeeper is asked for one verdict. Tries that nobody answered do not count while there is
// a member to bind: none of another gang is bound either while the API server is away, and no step rolled back.
const quorumAttempts = 5

// barrier decides the transaction once every member has passed or failed. It returns the members to bind, in state
// binding, and a slot for the first of them; it returns none when all are failed.
func (r *run) barrier() ([]*member, *waiter) {
	for r.quorumErr == nil {
		if r.e.ctx.Err() != nil {
			r.failAll(ErrAborted)
		}
		r.forgetChange()
		chosen, lost := r.alive()
		r.adoptOrphans() // after alive, so that none lost by then is left over
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
			r.lookAgain(chosen)
			if r.commit(chosen, lost) {
				return chosen, slot
			}
		case <-r.changed:
		}
		r.e.slots.leave(slot)
	}
	r.enter(phaseRollback)
	r.adoptOrphans()
	return nil, nil
}

// commit takes the members past the barrier, unless more members are lost by now than there were at the verdict, or
// Abort came.
func (r *run) commit(chosen []*member, lost int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost > lost || r.e.ctx.Err() != nil {
		return false
	}
	for _, m := range chosen {
		r.move(m, stateBinding)
	}
	r.phase = phaseBind
	return true
}

// abortIfHopeless fails the members that are left when even all of them are too few.
func (r *run) abortIfHopeless() {
	alive, _ := r.alive()
	if err := r.quorum(alive, 1); err != nil && !transient(err) {
		r.refuseAll(err)
	}
}

// refuseAll fails all members for what the gang lacks.
func (r *run) refuseAll(lack error) {
	r.quorumErr = lack
	r.failAll(fmt.Errorf("%w: %w", ErrNoQuorum, lack))
}

// errFewer says that members were lost while the Gatekeeper could not be asked about them.
var errFewer = errors.New("members were lost meanwhile")

// quorum asks the Gatekeeper, again with backoff when its error may pass. RetryNow grants it as many attempts anew.
func (r *run) quorum(members []*member, attempts int) error {
	pauses := r.e.pauses(r.e.retry)
	pauses.changed = r.changed
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
		r.mu.Lock()
		r.gateErr = err
		r.mu.Unlock()
		if !pauses.pause(r.e.ctx, err) {
			return err
		}
		if pauses.anew {
			left = attempts
		}
		if alive, _ := r.alive(); len(alive) < len(members) {
			return errFewer
		}
	}
}

func (r *run) ask(members []*Member) error {
	ctx, cancel := context.WithTimeout(r.e.ctx, r.e.callTimeout)
	defer cancel()
	return r.e.gate.Quorum(ctx, r.tx, members)
}
