// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Pauses decides when jobs may not hold idle resources, because their namespaces have held some for too long
// (crosssession.Holds).
type Pauses struct {
	session *framework.Session
	holds   *crosssession.Holds
}

// NewPauses returns the pauses of the session.
func NewPauses(ssn *framework.Session, m *crosssession.Cache) Pauses { return Pauses{ssn, &m.Holds} }

// nominees returns the tasks that may hold idle resources even in a pause: resources are being released for them,
// because pods were evicted (framework.EvictionTracker). jobs are placed together. If nominees could not hold idle resources,
// the evictions would be useless.
//
// Tasks that were added after the evictions are no nominees. Otherwise a gang could evict pods in a pause, and then
// grow to hold more idle resources.
func (p Pauses) nominees(jobs []*api.JobInfo) map[api.TaskID]bool {
	return p.session.Placements.Nominees(jobs)
}

// IsPromised reports whether resources are being released for a task of the jobs, which are placed together.
func (p Pauses) IsPromised(jobs []*api.JobInfo) bool { return len(p.nominees(jobs)) > 0 }

// Until returns the time until which the pending tasks of the jobs, which are placed together, may not hold idle
// resources; zero if they may.
func (p Pauses) Until(pending map[api.JobID]*Pending, jobs ...*api.JobInfo) time.Time {
	last := p.ends(jobs)
	if last.IsZero() {
		return last
	}
	nominees := p.nominees(jobs)
	for _, job := range jobs {
		if !pending[job.UID].within(nominees) {
			return last
		}
	}
	return time.Time{}
}

// KeepNominees removes all tasks except the nominees of the jobs from pending, if the jobs are in a pause and each of
// them has a nominee. It returns a function that restores the removed tasks that still wait.
func (p Pauses) KeepNominees(pending map[api.JobID]*Pending, jobs []*api.JobInfo) (restore func()) {
	restore = func() {}
	nominees := p.nominees(jobs)
	if p.ends(jobs).IsZero() || slices.ContainsFunc(jobs, func(job *api.JobInfo) bool { return !pending[job.UID].has(nominees) }) {
		return restore
	}
	for _, job := range jobs {
		if whole := pending[job.UID].Restrict(nominees); whole != nil {
			others := restore
			restore = func() { pending[job.UID].Restore(whole); others() }
		}
	}
	return restore
}

// ends returns when the last pause of the jobs' namespaces ends; zero if none of them is paused.
func (p Pauses) ends(jobs []*api.JobInfo) (last time.Time) {
	for _, job := range jobs {
		if until := p.holds.PausedUntil(job.Namespace, time.Now()); until.After(last) {
			last = until
		}
	}
	return last
}

// Paused reports whether the namespace of the job, or of a job that is placed together with it, is paused.
func (p Pauses) Paused(job *api.JobInfo) bool { return !p.ends(Together(p.session, job)).IsZero() }

// Together returns the job and the jobs that are placed together with it.
func Together(ssn *framework.Session, job *api.JobInfo) []*api.JobInfo {
	if jobs, _ := framework.Companions(ssn.Jobs, ssn.Placements.GangGroup(job)); jobs != nil {
		return jobs
	}
	return []*api.JobInfo{job}
}
