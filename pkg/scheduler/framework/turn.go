// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// turn is whose turn it is in a session.
type turn struct {
	// begins is called with each turn.
	begins func()

	mu  sync.Mutex
	job api.JobID
}

// Turn notes that what the session does from now on it does for the job, so that a panic can be laid at its door. It is a sign of life of
// the session: preempt for thousands of pods may take minutes.
func (ssn *Session) Turn(job api.JobID) {
	ssn.turn.begins()
	ssn.turn.mu.Lock()
	defer ssn.turn.mu.Unlock()
	ssn.turn.job = job
}

// OnTurn has the function called with each turn of a job in sessions. It is called before the first session is opened.
func (r *Registry) OnTurn(begins func()) { r.turnBegins = begins }

// Turn returns whose turn it was last in the session that was opened last; empty when it was nobody's. It is safe for
// concurrent use.
func (r *Registry) Turn() api.JobID {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last == nil {
		return ""
	}
	last.turn.mu.Lock()
	defer last.turn.mu.Unlock()
	return last.turn.job
}

// Action returns the action that ran last in the session that was opened last; empty when none did.
func (r *Registry) Action() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return ""
	}
	return r.last.Action
}
