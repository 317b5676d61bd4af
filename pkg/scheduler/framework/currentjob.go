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

// SetCurrentJob records that the session works on the job from here on, so that a panic can be attributed to it. It also calls the
// function set by OnJob, which shows that the session makes progress: preempt for thousands of pods may take minutes.
func (ssn *Session) SetCurrentJob(job api.JobID) {
	ssn.currentJob.begins()
	ssn.currentJob.mu.Lock()
	defer ssn.currentJob.mu.Unlock()
	ssn.currentJob.job = job
}

// OnJob sets a function that is called when a session begins to work on a job. It must be set before the first session
// is opened.
func (r *Registry) OnJob(begins func()) { r.jobBegins = begins }

// CurrentJob returns the job on which the session that was opened last worked last; empty if it worked on none. It is safe for
// concurrent use.
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

// Action returns the name of the action that ran last in the session that was opened last; empty if none ran.
func (r *Registry) Action() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return ""
	}
	return r.last.Action
}
