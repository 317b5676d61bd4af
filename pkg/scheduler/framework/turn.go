// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// turn is the job that a session currently works on.
type turn struct {
	// begins is called with each turn.
	begins func()

	mu  sync.Mutex
	job api.JobID
}

// Turn records that the session works on the job from here on, so that a panic can be attributed to it. It also shows that the
// session makes progress: preempt for thousands of pods may take minutes.
func (ssn *Session) Turn(job api.JobID) {
	ssn.turn.begins()
	ssn.turn.mu.Lock()
	defer ssn.turn.mu.Unlock()
	ssn.turn.job = job
}

// OnTurn sets a function that is called when a session begins to work on a job. It must be set before the first session
// is opened.
func (r *Registry) OnTurn(begins func()) { r.turnBegins = begins }

// Turn returns the job that the last opened session worked on last; empty if there was none. It is safe for concurrent use.
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

// Action returns the name of the last action that ran in the last opened session; empty if none did.
func (r *Registry) Action() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return ""
	}
	return r.last.Action
}
