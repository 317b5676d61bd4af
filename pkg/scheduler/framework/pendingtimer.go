// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/conditions"
)

// GangObserver records how long gangs waited, and which gangs timed out, for metrics. Its methods must not block.
type GangObserver interface {
	// GangWaited reports how long a gang waited for the reason. It is called when the gang's wait has ended in the given
	// way.
	GangWaited(reason PendingCategory, end PendingEnd, waited time.Duration)
	// GangTimedOut reports that a gang was returned to Pending because its waiting time had passed.
	GangTimedOut()
}

// unobserved is the GangObserver of a registry until Registry.Observe sets another. It ignores all calls.
type unobserved struct{}

func (unobserved) GangWaited(PendingCategory, PendingEnd, time.Duration) {}
func (unobserved) GangTimedOut()                                         {}

// PendingCategory classifies why a gang waits, in a fixed set of values that tenants do not control.
type PendingCategory string

// The categories.
const (
	// PendingUnseen is the time from the creation of the PodGroup to the first session of this process that saw it.
	PendingUnseen      PendingCategory = "unseen"
	PendingIncomplete  PendingCategory = "incomplete"
	PendingGated       PendingCategory = "gated"
	PendingGroup       PendingCategory = "group"
	PendingNotAdmitted PendingCategory = "not_admitted"
	PendingQueue       PendingCategory = "queue"
	PendingResources   PendingCategory = "resources"
	// PendingBackoff is a pause after a timeout or after a transaction that failed.
	PendingBackoff PendingCategory = "backoff"
	// PendingBinding is the time in which a bind transaction of the gang runs its pre-bind steps and Bindings.
	PendingBinding PendingCategory = "binding"
	PendingOther   PendingCategory = "other"
)

// PendingCategories lists all categories of reasons why gangs wait.
var PendingCategories = []PendingCategory{
	PendingUnseen, PendingIncomplete, PendingGated, PendingGroup, PendingNotAdmitted, PendingQueue, PendingResources, PendingBackoff, PendingBinding, PendingOther,
}

// PendingEnd is the way in which a wait ended.
type PendingEnd string

// PendingEnd values. If a gang is deleted, its wait is not reported.
const (
	EndBound    PendingEnd = "bound"
	EndTimedOut PendingEnd = "timed_out"
)

// PendingCategory returns the category of the reason.
func (ssn *Session) PendingCategory(reason PendingReason) PendingCategory {
	switch reason.Reason {
	case NotEnoughPods, NotEnoughPodsOfTask, PodGroupNotFound:
		return PendingIncomplete
	case SchedulingGated:
		return PendingGated
	case NotEnqueued:
		return PendingNotAdmitted
	case QueueFull, QueueNotOpen, QueueNotFound, QueueHasChildren:
		return PendingQueue
	case NotEnoughResources, NotTried:
		return PendingResources
	case BindBackoff, PreBindFailed, BindFailed:
		return PendingBackoff
	case string(binding.StepWaits), string(binding.PreBindTimedOut), string(binding.RollbackStuck), string(binding.BindWaits):
		return PendingBinding
	}
	return cmp.Or(ssn.waits.categories[reason.Reason], PendingOther)
}

// waitRecords hold how long gangs have waited for reasons of each category. A change of the configuration does not
// reset them.
type waitRecords struct {
	timers   pendingTimers
	observer GangObserver
	// categories maps pending reasons to their categories, as the specs of all plugins declare them.
	categories map[string]PendingCategory
}

func newWaitRecords() *waitRecords {
	return &waitRecords{timers: pendingTimers{}, observer: unobserved{}, categories: map[string]PendingCategory{}}
}

// pendingTimers are the timers of the gangs whose minimum is not bound.
type pendingTimers map[api.JobID]*pendingTimer

// pendingTimer measures how long a gang has waited for reasons of each category.
type pendingTimer struct {
	podGroup types.UID
	spent    map[PendingCategory]time.Duration
	// reason is the category in which the gang waits now. since is when the gang began to wait in it.
	reason PendingCategory
	since  time.Time
}

// tick updates the timers of all gangs from the reasons that the session has found.
func (timers pendingTimers) tick(ssn *Session, now time.Time) {
	maps.DeleteFunc(timers, func(uid api.JobID, c *pendingTimer) bool {
		job := ssn.Jobs[uid]
		return job == nil || job.PodGroup == nil || job.PodGroup.UID != c.podGroup
	})
	for uid, job := range ssn.Jobs {
		c, reason := timers[uid], ssn.pendingReasons[uid]
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
			c.end(EndBound, ssn.waits.observer, now)
			delete(timers, uid)
		}
	}
}

func someHaveNodes(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Bound])+len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Succeeded]) > 0
}

// TimedOut records that the gang is returned to Pending because its waiting time has passed.
func (ssn *Session) TimedOut(gang api.JobID) {
	ssn.waits.observer.GangTimedOut()
	if c := ssn.waits.timers[gang]; c != nil {
		now := time.Now()
		c.end(EndTimedOut, ssn.waits.observer, now)
		ssn.waits.timers[gang] = &pendingTimer{podGroup: c.podGroup, spent: map[PendingCategory]time.Duration{}, reason: PendingBackoff, since: now}
	}
}

// Observer returns the observer that records how long gangs waited, and which gangs timed out.
func (ssn *Session) Observer() GangObserver { return ssn.waits.observer }

func categoryOf(ssn *Session, job *api.JobInfo, reason PendingReason) PendingCategory {
	if len(job.TaskStatusIndex[api.Binding]) > 0 {
		return PendingBinding
	}
	return ssn.PendingCategory(reason)
}

// newPendingTimer returns the timer of a gang that starts to wait. The wait began when the PodGroup was created. If the
// gang was scheduled before, the wait begins now.
func newPendingTimer(job *api.JobInfo, now time.Time) *pendingTimer {
	c := &pendingTimer{podGroup: job.PodGroup.UID, spent: map[PendingCategory]time.Duration{}, reason: PendingUnseen, since: job.PodGroup.CreationTimestamp.Time}
	if conditions.Find(&job.PodGroup.Status, scheduling.PodGroupScheduled) != nil || c.since.IsZero() {
		c.since = now
	}
	return c
}

// switchTo records that the gang now waits for a reason of the given category. It counts the time since the last call
// as waiting for the previous category.
func (c *pendingTimer) switchTo(reason PendingCategory, now time.Time) {
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
