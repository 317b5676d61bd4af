// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// GangObserver records how long gangs waited, which gangs timed out, and node reservations, for metrics. Its methods
// must not block.
type GangObserver interface {
	// GangWaited reports how long a gang waited for the reason. It is called when the gang's wait has ended in the given
	// way.
	GangWaited(reason framework.PendingCategory, end PendingEnd, waited time.Duration)
	// GangTimedOut reports that a gang was returned to Pending because its waiting time had passed.
	GangTimedOut()
	gangs.ReservationObserver
}

// unobserved is a GangObserver that ignores all calls.
type unobserved struct{}

func (unobserved) GangWaited(framework.PendingCategory, PendingEnd, time.Duration) {}
func (unobserved) GangTimedOut()                                                   {}
func (unobserved) ReservationEnded(gangs.ReservationEnd)                           {}
func (unobserved) Reservations(int)                                                {}

// PendingEnd is the way in which a wait ended.
type PendingEnd string

// PendingEnd values. If a gang is deleted, its wait is not reported.
const (
	EndBound    PendingEnd = "bound"
	EndTimedOut PendingEnd = "timed_out"
)

// pendingTimers are the timers of the gangs whose minimum is not bound.
type pendingTimers map[api.JobID]*pendingTimer

// pendingTimer measures how long a gang has waited for reasons of each category.
type pendingTimer struct {
	podGroup types.UID
	spent    map[framework.PendingCategory]time.Duration
	// reason is the category in which the gang waits now. since is when the gang began to wait in it.
	reason framework.PendingCategory
	since  time.Time
}

// tick updates the timers of all gangs from the reasons for which they wait.
func (p *PendingGangs) tick(ssn *framework.Session, reasons map[api.JobID]framework.PendingReason, now time.Time) {
	timers := p.timers
	maps.DeleteFunc(timers, func(uid api.JobID, c *pendingTimer) bool {
		job := ssn.Jobs[uid]
		return job == nil || job.PodGroup == nil || job.PodGroup.UID != c.podGroup
	})
	for uid, job := range ssn.Jobs {
		c, reason := timers[uid], reasons[uid]
		if job.PodGroup == nil || c == nil && reason.Reason == "" && len(job.TaskStatusIndex[api.Binding]) == 0 {
			continue
		}
		switch bound := someHaveNodes(job) && binding.MinimumBound(job); {
		case !bound && c == nil:
			timers[uid] = newPendingTimer(job, now)
			timers[uid].switchTo(categoryOf(ssn, job, reason), now)
		case !bound:
			c.switchTo(categoryOf(ssn, job, reason), now)
		case c != nil:
			c.end(EndBound, p.observer, now)
			delete(timers, uid)
		}
	}
}

func someHaveNodes(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Bound])+len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Succeeded]) > 0
}

// TimedOut implements framework.PendingReporter.
func (p *PendingGangs) TimedOut(gang api.JobID) {
	p.observer.GangTimedOut()
	if c := p.timers[gang]; c != nil {
		now := time.Now()
		c.end(EndTimedOut, p.observer, now)
		p.timers[gang] = &pendingTimer{podGroup: c.podGroup, spent: map[framework.PendingCategory]time.Duration{}, reason: framework.PendingBackoff, since: now}
	}
}

func categoryOf(ssn *framework.Session, job *api.JobInfo, reason framework.PendingReason) framework.PendingCategory {
	if len(job.TaskStatusIndex[api.Binding]) > 0 {
		return framework.PendingBinding
	}
	return ssn.PendingCategory(reason)
}

// newPendingTimer returns the timer of a gang that starts to wait. The wait began when the PodGroup was created. If the
// gang was scheduled before, the wait begins now.
func newPendingTimer(job *api.JobInfo, now time.Time) *pendingTimer {
	c := &pendingTimer{podGroup: job.PodGroup.UID, spent: map[framework.PendingCategory]time.Duration{}, reason: framework.PendingUnseen, since: job.PodGroup.CreationTimestamp.Time}
	if conditions.Find(&job.PodGroup.Status, scheduling.PodGroupScheduled) != nil || c.since.IsZero() {
		c.since = now
	}
	return c
}

// switchTo records that the gang now waits for a reason of the given category. It counts the time since the last call
// as waiting for the previous category.
func (c *pendingTimer) switchTo(reason framework.PendingCategory, now time.Time) {
	c.spent[c.reason] += max(0, now.Sub(c.since))
	c.reason, c.since = reason, now
}

// end reports to the observer how long the gang has waited for reasons of each category.
func (c *pendingTimer) end(end PendingEnd, observer GangObserver, now time.Time) {
	c.switchTo(c.reason, now)
	for reason, spent := range c.spent {
		observer.GangWaited(reason, end, spent)
	}
}
