// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// GangObserver is told what becomes of gangs, for metrics. Its methods must not block.
type GangObserver interface {
	// GangWaited tells for how long a gang, whose wait has come to that end, waited for that reason.
	GangWaited(reason WaitReason, end WaitEnd, waited time.Duration)
	// GangTimedOut tells that a gang was sent back because its waiting time was up.
	GangTimedOut()
}

// unobserved is the observer of a registry that has none.
type unobserved struct{}

func (unobserved) GangWaited(WaitReason, WaitEnd, time.Duration) {}
func (unobserved) GangTimedOut()                                 {}

// WaitReason says what a gang waits for, in few words that tenants do not choose.
type WaitReason string

// The reasons.
const (
	// WaitUnseen is the time from when the PodGroup was made to the first session of this process that saw it.
	WaitUnseen      WaitReason = "unseen"
	WaitIncomplete  WaitReason = "incomplete"
	WaitGated       WaitReason = "gated"
	WaitGroup       WaitReason = "group"
	WaitNotAdmitted WaitReason = "not_admitted"
	WaitQueue       WaitReason = "queue"
	WaitResources   WaitReason = "resources"
	// WaitBackoff is a pause after a time-out or after a transaction that failed.
	WaitBackoff WaitReason = "backoff"
	// WaitBinding is a transaction: pre-bind steps and Bindings.
	WaitBinding WaitReason = "binding"
	WaitOther   WaitReason = "other"
)

// WaitReasons are all there are.
var WaitReasons = []WaitReason{
	WaitUnseen, WaitIncomplete, WaitGated, WaitGroup, WaitNotAdmitted, WaitQueue, WaitResources, WaitBackoff, WaitBinding, WaitOther,
}

// WaitEnd says how a wait ended.
type WaitEnd string

// The ends of a wait. One of a gang that is deleted has none.
const (
	EndBound    WaitEnd = "bound"
	EndTimedOut WaitEnd = "timed_out"
)

// ReasonOf is what the explanation comes down to.
func ReasonOf(wait Wait) WaitReason {
	switch wait.Reason {
	case NotEnoughPods, NotEnoughPodsOfTask, PodGroupNotFound:
		return WaitIncomplete
	case SchedulingGated:
		return WaitGated
	case WaitingForGroup, InvalidGangGroup:
		return WaitGroup
	case NotEnqueued:
		return WaitNotAdmitted
	case QueueFull, QueueNotOpen, QueueNotFound, QueueHasChildren:
		return WaitQueue
	case NotEnoughResources:
		return WaitResources
	case GangTimedOut, BindBackoff, PreBindFailed, BindFailed:
		return WaitBackoff
	case string(binding.StepWaits), string(binding.PreBindTimedOut), string(binding.RollbackStuck), string(binding.BindWaits):
		return WaitBinding
	}
	return WaitOther
}

// waitClocks are those of the gangs whose minimum is not bound.
type waitClocks map[api.JobID]*waitClock

// waitClock says how long a gang has waited for what.
type waitClock struct {
	podGroup types.UID
	spent    map[WaitReason]time.Duration
	// reason is what it waits for since then.
	reason WaitReason
	since  time.Time
}

// tick has the clocks go on by what the session has found.
func (clocks waitClocks) tick(ssn *Session, now time.Time) {
	maps.DeleteFunc(clocks, func(uid api.JobID, c *waitClock) bool {
		job := ssn.Jobs[uid]
		return job == nil || job.PodGroup == nil || job.PodGroup.UID != c.podGroup
	})
	for uid, job := range ssn.Jobs {
		c, wait := clocks[uid], ssn.waits[uid]
		if job.PodGroup == nil || c == nil && wait.Reason == "" && len(job.TaskStatusIndex[api.Binding]) == 0 {
			continue
		}
		switch bound := someHaveNodes(job) && binding.ShortOf(job, &job.PodGroup.Spec, binding.Placed) == nil; {
		case !bound && c == nil:
			clocks[uid] = newWaitClock(job, now)
			clocks[uid].goOn(reasonOf(job, wait), now)
		case !bound:
			c.goOn(reasonOf(job, wait), now)
		case c != nil:
			c.end(EndBound, ssn.observer, now)
			delete(clocks, uid)
		}
	}
}

func someHaveNodes(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Bound])+len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Succeeded]) > 0
}

// TimedOut tells that the gang is sent back now, because its waiting time was up.
func (ssn *Session) TimedOut(gang api.JobID) {
	ssn.observer.GangTimedOut()
	if c := ssn.clocks[gang]; c != nil {
		now := time.Now()
		c.end(EndTimedOut, ssn.observer, now)
		ssn.clocks[gang] = &waitClock{podGroup: c.podGroup, spent: map[WaitReason]time.Duration{}, reason: WaitBackoff, since: now}
	}
}

// Observer is told what becomes of gangs.
func (ssn *Session) Observer() GangObserver { return ssn.observer }

func reasonOf(job *api.JobInfo, wait Wait) WaitReason {
	if len(job.TaskStatusIndex[api.Binding]) > 0 {
		return WaitBinding
	}
	return ReasonOf(wait)
}

// newWaitClock is the clock of a gang that was not known to wait: since it was made, or sent back, unless it ran before.
func newWaitClock(job *api.JobInfo, now time.Time) *waitClock {
	c := &waitClock{podGroup: job.PodGroup.UID, spent: map[WaitReason]time.Duration{}, reason: WaitUnseen, since: job.PodGroup.CreationTimestamp.Time}
	for _, condition := range job.PodGroup.Status.Conditions {
		switch {
		case condition.Type == scheduling.PodGroupScheduled:
			c.since = now
		case condition.Type == GangTimeLimit && condition.Reason == GangTimedOut && condition.LastTransitionTime.After(c.since):
			c.since = condition.LastTransitionTime.Time
		}
	}
	if c.since.IsZero() {
		c.since = now
	}
	return c
}

// goOn has the gang wait for the reason from now on.
func (c *waitClock) goOn(reason WaitReason, now time.Time) {
	c.spent[c.reason] += max(0, now.Sub(c.since))
	c.reason, c.since = reason, now
}

// end tells for what the gang has waited how long, each reason that it was told.
func (c *waitClock) end(end WaitEnd, observer GangObserver, now time.Time) {
	c.goOn(c.reason, now)
	for reason, spent := range c.spent {
		observer.GangWaited(reason, end, spent)
	}
}
