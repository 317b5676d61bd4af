// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"time"
)

// move changes the member's state. It is called with mu held.
func (s *roster) move(m *member, to memberState) {
	s.count[m.state]--
	s.count[to]++
	m.state = to
	if m.slow {
		m.slow = false
		s.slow--
	}
}

// lose fails a member that has not passed the barrier, with err. If the member has passed the barrier or has already
// failed, it does nothing and returns false. It is called with mu held.
func (s *roster) lose(m *member, err error) bool {
	switch m.state {
	case stateWaiting, statePassed:
		s.orphans = append(s.orphans, m)
	case statePreparing: // the goroutine of the member's chain rolls it back
	default:
		return false
	}
	s.lost++
	s.discard(m, err)
	return true
}

// discard moves the member to state failed with the error. It starts an alarm that reports a rollback that takes too
// long. It is called with mu held.
func (s *roster) discard(m *member, err error) {
	m.err = err
	s.move(m, stateFailed)
	m.waitsFrom = time.Now()
	if !m.running {
		m.since = m.waitsFrom
	}
	if m.running || m.owed() >= 0 {
		m.stuck = after(s.stuckAfter, func() { s.report(m) })
	}
}

// fail fails the member if it has not passed the barrier. If the member is being bound, fail makes its bind stop.
func (s *roster) fail(m *member, err error) {
	s.mu.Lock()
	s.lose(m, err)
	s.mu.Unlock()
	m.cancel(err)
	s.notify()
}

// failAll fails, in one step, all members that have not passed the barrier. It does not change the other members.
func (s *roster) failAll(err error) {
	var lost []*member
	s.mu.Lock()
	for _, m := range s.members {
		if s.lose(m, err) {
			lost = append(lost, m)
		}
	}
	s.mu.Unlock()
	for _, m := range lost {
		m.cancel(err)
	}
	s.notify()
}

// failStaleMembers fails the members that were lost before the transaction was submitted. early maps them to the
// reasons.
func (s *roster) failStaleMembers(early map[*Member]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if err, lost := early[m.Member]; lost && s.lose(m, err) {
			m.cancel(err)
		}
	}
}

// cancel calls fail for all members that the function match accepts, in one step. So the gang's other members cannot
// fail for another reason in between.
func (s *roster) cancel(match func(*member) bool, cause error) {
	var matching []*member
	s.mu.Lock()
	for _, m := range s.members {
		if match(m) {
			s.lose(m, cause)
			matching = append(matching, m)
		}
	}
	s.mu.Unlock()
	for _, m := range matching {
		m.cancel(cause)
	}
	if len(matching) > 0 {
		s.notify()
	}
}

// progress returns how many members have neither passed nor failed, and how many members are lost so far.
func (s *roster) progress() (undecided, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[stateWaiting] + s.count[statePreparing], s.lost
}

// alive returns the members that have not failed and not passed the barrier, and how many members are lost so far.
func (s *roster) alive() (alive []*member, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.state <= statePassed {
			alive = append(alive, m)
		}
	}
	return alive, s.lost
}

// startable moves members from state waiting to state preparing, in order, and returns them. It stops when as many
// members as the parameter places says are in state preparing. Members with slow steps do not count. A member without
// steps passes at once.
func (s *roster) startable(places int) (started []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.count[stateWaiting] > 0; s.next++ {
		m := s.members[s.next]
		switch {
		case m.state != stateWaiting:
		case len(m.Steps) == 0:
			s.move(m, statePassed)
			s.notify()
		case s.count[statePreparing]-s.slow == places:
			return started
		default:
			s.move(m, statePreparing)
			started = append(started, m)
		}
	}
	return started
}

// givePlace lets another member start, because the steps of this member have run for placeTime.
func (s *roster) givePlace(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state == statePreparing {
		m.slow = true
		s.slow++
		s.notify()
	}
}

// beginStep records that the member's next step begins. It returns false if the member has already failed.
func (s *roster) beginStep(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state != statePreparing {
		return false
	}
	m.begun++
	m.running, m.since = true, time.Now()
	return true
}

// returned records that the member's running step has returned.
func (s *roster) returned(m *member) {
	s.mu.Lock()
	m.running, m.since = false, time.Now()
	s.mu.Unlock()
	s.reportEnd(m)
}

// pass records that all steps of the member have returned. It returns false if the member has failed.
func (s *roster) pass(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.state != statePreparing {
		return false
	}
	s.move(m, statePassed)
	s.notify()
	return true
}

// commit moves the chosen members past the barrier. It returns false if more members are lost than when the Gatekeeper
// decided, or if Abort was called, which ends ctx.
func (s *roster) commit(ctx context.Context, chosen []*member, lost int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > lost || ctx.Err() != nil {
		return false
	}
	for _, m := range chosen {
		s.move(m, stateBinding)
	}
	s.phase = phaseBind
	return true
}

// enterFinalState moves the member to a final state, after Ledger.Bound or Ledger.Released was called.
func (s *roster) enterFinalState(m *member, final memberState) {
	s.mu.Lock()
	s.move(m, final)
	s.mu.Unlock()
	s.reportEnd(m)
}

// unbound fails a member that has passed the barrier and is known not to be bound.
func (s *roster) unbound(m *member, err error) {
	s.mu.Lock()
	s.discard(m, err)
	s.mu.Unlock()
	s.reportEnd(m)
}

// abandon leaves the member, with its resources and steps, to the next leader.
func (s *roster) abandon(m *member, err error) {
	m.stuck.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.err == nil {
		m.err = err
	}
	s.move(m, stateAbandoned)
}

// notBound records the last error of the member's Bindings and look-ups.
func (s *roster) notBound(m *member, err error) {
	s.mu.Lock()
	m.bindErr = err
	s.mu.Unlock()
	s.reportErr(m)
}

// takePendingRollbacks removes and returns the failed members that no goroutine rolls back yet. The caller must roll
// them back.
func (s *roster) takePendingRollbacks() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	orphans := s.orphans
	s.orphans = nil
	return orphans
}

// lastOwed returns the next step of the failed member to roll back, which is the last one that needs it; nil if no step
// needs it.
func (s *roster) lastOwed(m *member) *Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := m.owed()
	if i < 0 {
		return nil
	}
	return &m.Steps[i]
}

// undone records that the rollback that lastOwed returned for the member has succeeded.
func (s *roster) undone(m *member) {
	s.mu.Lock()
	m.kept = m.owed()
	m.undoErr, m.since = nil, time.Now()
	s.mu.Unlock()
	s.reportEnd(m)
}

// notUndone records that a try of the member's rollback failed.
func (s *roster) notUndone(m *member, err error) {
	s.mu.Lock()
	m.undoErr = err
	s.mu.Unlock()
	s.reportErr(m)
}
