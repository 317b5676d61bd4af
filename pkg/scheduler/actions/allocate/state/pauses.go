// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Pauses decides when jobs of a session may not hold idle resources. Actions that run before allocate ask it, too.
type Pauses struct {
	session *framework.Session
	holds   *crosssession.Holds
}

var _ framework.Pauses = Pauses{}

// NewPauses returns the pauses of the session.
func NewPauses(ssn *framework.Session, m *crosssession.Cache) Pauses { return Pauses{ssn, &m.Holds} }

// IsPromised reports whether the jobs, which are placed together, may hold idle resources even in a pause: resources
// are being released for a task of one of them, and a plugin limits how long. Otherwise the evictions for that task
// would be useless.
func (p Pauses) IsPromised(jobs []*api.JobInfo) bool {
	return slices.ContainsFunc(jobs, func(job *api.JobInfo) bool {
		precedence, first := p.session.Placements.Precedence(job)
		return first && len(precedence.Only) > 0
	})
}

// Until returns until when the jobs, which are placed together, may not hold idle resources; zero if they may.
func (p Pauses) Until(jobs ...*api.JobInfo) time.Time {
	last := p.ends(jobs)
	if !last.IsZero() && p.IsPromised(jobs) {
		return time.Time{}
	}
	return last
}

// ends returns when the last pause of a namespace of the jobs ends; zero if none is paused.
func (p Pauses) ends(jobs []*api.JobInfo) (last time.Time) {
	for _, job := range jobs {
		if until := p.holds.PausedUntil(job.Namespace, time.Now()); until.After(last) {
			last = until
		}
	}
	return last
}

// IdleOnly reports whether the job, or a job that is placed together with it, may not hold idle resources now.
func (p Pauses) IdleOnly(job *api.JobInfo) bool {
	return !p.Until(Together(p.session, job)...).IsZero()
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
