// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// GangObserver receives the outcomes of gangs, for metrics. Its methods must not block.
type GangObserver interface {
	// GangWaited reports how long a gang waited for the reason, once its wait has ended in the given way.
	GangWaited(reason WaitReason, end WaitEnd, waited time.Duration)
	// GangTimedOut reports that a gang was returned to Pending because its waiting time had passed.
	GangTimedOut()
}

// unobserved is used if a registry has no observer.
type unobserved struct{}

func (unobserved) GangWaited(WaitReason, WaitEnd, time.Duration) {}
func (unobserved) GangTimedOut()                                 {}

// WaitReason classifies why a gang waits, in a fixed set of values that tenants do not control.
type WaitReason string

// The reasons.
const (
	// WaitUnseen is the time from the creation of the PodGroup to the first session of this process that saw it.
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

// WaitReasons are all reasons.
var WaitReasons = []WaitReason{
	WaitUnseen, WaitIncomplete, WaitGated, WaitGroup, WaitNotAdmitted, WaitQueue, WaitResources, WaitBackoff, WaitBinding, WaitOther,
}

// WaitEnd is the way in which a wait ended.
type WaitEnd string

// The ends of a wait. The wait of a deleted gang has none.
const (
	EndBound    WaitEnd = "bound"
	EndTimedOut WaitEnd = "timed_out"
)

// WaitReason classifies the explanation.
func (ssn *Session) WaitReason(wait Wait) WaitReason {
	switch wait.Reason {
	case NotEnoughPods, NotEnoughPodsOfTask, PodGroupNotFound:
		return WaitIncomplete
	case SchedulingGated:
		return WaitGated
	case NotEnqueued:
		return WaitNotAdmitted
	case QueueFull, QueueNotOpen, QueueNotFound, QueueHasChildren:
		return WaitQueue
	case NotEnoughResources:
		return WaitResources
	case BindBackoff, PreBindFailed, BindFailed:
		return WaitBackoff
	case string(binding.StepWaits), string(binding.PreBindTimedOut), string(binding.RollbackStuck), string(binding.BindWaits):
		return WaitBinding
	}
	return cmp.Or(ssn.waitReasons[wait.Reason], WaitOther)
}

// waitClocks are the clocks of the gangs whose minimum is not bound.
type waitClocks map[api.JobID]*waitClock

// waitClock measures how long a gang has waited for each reason.
type waitClock struct {
	podGroup types.UID
	spent    map[WaitReason]time.Duration
	// reason is the current reason, since the given time.
	reason WaitReason
	since  time.Time
}

// tick updates the clocks from the explanations of the session.
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
		switch bound := someHaveNodes(job) && binding.ShortOfPlaced(job) == nil; {
		case !bound && c == nil:
			clocks[uid] = newWaitClock(job, now)
			clocks[uid].goOn(reasonOf(ssn, job, wait), now)
		case !bound:
			c.goOn(reasonOf(ssn, job, wait), now)
		case c != nil:
			c.end(EndBound, ssn.observer, now)
			delete(clocks, uid)
		}
	}
}

func someHaveNodes(job *api.JobInfo) bool {
	return len(job.TaskStatusIndex[api.Bound])+len(job.TaskStatusIndex[api.Running])+len(job.TaskStatusIndex[api.Succeeded]) > 0
}

// TimedOut records that the gang is returned to Pending because its waiting time has passed.
func (ssn *Session) TimedOut(gang api.JobID) {
	ssn.observer.GangTimedOut()
	if c := ssn.clocks[gang]; c != nil {
		now := time.Now()
		c.end(EndTimedOut, ssn.observer, now)
		ssn.clocks[gang] = &waitClock{podGroup: c.podGroup, spent: map[WaitReason]time.Duration{}, reason: WaitBackoff, since: now}
	}
}

// Observer returns the observer of gangs.
func (ssn *Session) Observer() GangObserver { return ssn.observer }

func reasonOf(ssn *Session, job *api.JobInfo, wait Wait) WaitReason {
	if len(job.TaskStatusIndex[api.Binding]) > 0 {
		return WaitBinding
	}
	return ssn.WaitReason(wait)
}

// newWaitClock returns the clock of a gang that starts to wait. The wait began when the gang was created, unless the
// gang ran before.
func newWaitClock(job *api.JobInfo, now time.Time) *waitClock {
	c := &waitClock{podGroup: job.PodGroup.UID, spent: map[WaitReason]time.Duration{}, reason: WaitUnseen, since: job.PodGroup.CreationTimestamp.Time}
	ran := slices.ContainsFunc(job.PodGroup.Status.Conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == scheduling.PodGroupScheduled })
	if ran || c.since.IsZero() {
		c.since = now
	}
	return c
}

// goOn switches the clock to the reason.
func (c *waitClock) goOn(reason WaitReason, now time.Time) {
	c.spent[c.reason] += max(0, now.Sub(c.since))
	c.reason, c.since = reason, now
}

// end reports the time that the gang has waited for each reason.
func (c *waitClock) end(end WaitEnd, observer GangObserver, now time.Time) {
	c.goOn(c.reason, now)
	for reason, spent := range c.spent {
		observer.GangWaited(reason, end, spent)
	}
}
