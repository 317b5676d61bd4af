// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// currentJob is the job that a session is working on.
type currentJob struct {
	// begins is called each time the session starts to work on a job.
	begins func()

	mu  sync.Mutex
	job api.JobID
}

// SetCurrentJob records that the session works on the job from now on, so that a later panic is attributed to the job.
// It also calls the function set by OnJob. That call shows that a long action makes progress: preempt for thousands of
// pods may take minutes.
func (ssn *Session) SetCurrentJob(job api.JobID) {
	ssn.currentJob.begins()
	ssn.currentJob.mu.Lock()
	defer ssn.currentJob.mu.Unlock()
	ssn.currentJob.job = job
}

// OnJob sets a function that is called when a session begins to work on a job. It must be set before the first session
// is opened.
func (r *Registry) OnJob(begins func()) { r.jobBegins = begins }

// CurrentJob returns the last job that the most recently opened session worked on; empty if that session worked on no
// job. It is safe for concurrent use.
func (r *Registry) CurrentJob() api.JobID {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last == nil {
		return ""
	}
	last.currentJob.mu.Lock()
	defer last.currentJob.mu.Unlock()
	return last.currentJob.job
}

// Action returns the name of the last action that the most recently opened session ran; empty if that session ran none.
func (r *Registry) Action() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return ""
	}
	return r.last.Action
}
