// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"sync"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// roster holds the members of a transaction with their states and waits. It decides which transitions a member may
// make, and reports delays to the Observer. It starts no steps or binds, and does not use the engine or the run.
type roster struct {
	members    []*member
	observer   Observer
	stuckAfter time.Duration
	// changed wakes run.run after members passed or failed.
	changed chan struct{}

	// reporting is held while a delay is reported, so that reports stay in order.
	reporting sync.Mutex
	// mu guards the fields below and the state of members. It is never held across a call.
	mu    sync.Mutex
	phase phase
	// count is the number of members in each state.
	count [numStates]int
	// next is the index of the first member that may still be in state waiting. All members before it have left that
	// state.
	next int
	// slow counts the members in state preparing that no longer count against perGang.
	slow int
	// lost counts the members that failed before the barrier.
	lost int
	// ready is when the last member passed its steps or failed; zero before that.
	ready time.Time
	// gateErr is why the last read of the gang's minimum failed.
	gateErr error
	// draining reports whether a Drain is about to call Abort. If so, every wait is reported.
	draining bool
	// orphans are failed members that no goroutine is rolling back yet.
	orphans []*member
}

func newRoster(ctx context.Context, members []*Member, observer Observer, stuckAfter time.Duration) *roster {
	s := &roster{members: make([]*member, len(members)), observer: observer, stuckAfter: stuckAfter, changed: make(chan struct{}, 1)}
	for i, m := range members {
		s.members[i] = newMember(ctx, m)
	}
	s.count[stateWaiting] = len(members)
	return s
}

func (s *roster) enter(p phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = p
}

// notify wakes run.run if it waits for a change. If run.run does not wait, its next wait returns at once.
func (s *roster) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// forgetChange drops a pending wake-up of run.run, because the caller is about to check the members' states itself.
func (s *roster) forgetChange() {
	select {
	case <-s.changed:
	default:
	}
}

func (s *roster) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != phaseEnded
}

func (s *roster) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[stateFailed]+s.count[stateReleased] > 0
}

func (s *roster) describe(gang api.JobID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	unsettled := len(s.members) - s.count[stateBound] - s.count[stateReleased] - s.count[stateAbandoned]
	return fmt.Sprintf("gang %s is %s, with %d of %d members neither bound nor released%s", gang, s.phase, unsettled, len(s.members), s.firstDelay())
}

// unread records the error because of which the gang's minimum could not be read.
func (s *roster) unread(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateErr = err
}
