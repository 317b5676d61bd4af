// SPDX-License-Identifier: Apache-2.0

package report

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
)

// Verdict reports, with events and conditions, why the gang waits. Its waiting pods get the message of its PodGroup.
func (r *Reporter) Verdict(job *api.JobInfo) {
	condition := verdictOf(job.PodGroup)
	if condition == nil {
		return
	}
	if isUnschedulable(*condition) && !reportedAsTimeOut(job.PodGroup, condition.Message) {
		r.outlet.gangEvent(job.PodGroup, v1.EventTypeWarning, string(condition.Type), condition.Message)
	}
	for _, status := range []api.TaskStatus{api.Allocated, api.Pending, api.Pipelined} {
		for uid, task := range job.TaskStatusIndex[status] {
			if task.SchGated {
				continue // the API server has set the condition
			}
			_, _, nominated := job.TaskSchedulingReason(uid)
			r.outlet.pod(task.Pod, v1.PodReasonUnschedulable, condition.Message, nominated)
		}
	}
}

// reportedAsTimeOut reports whether the event of the gang's time-out has the message already.
func reportedAsTimeOut(pg *api.PodGroup, message string) bool {
	return hasCondition(pg.Status, func(condition scheduling.PodGroupCondition) bool {
		return isTimedOut(condition) && condition.Message == message
	})
}

// verdictOf returns the condition that says why members of the gang wait: Unschedulable, or else Scheduled with a
// message, which a gang has whose minimum is placed; nil if neither exists.
func verdictOf(pg *api.PodGroup) *scheduling.PodGroupCondition {
	var found *scheduling.PodGroupCondition
	for i := range pg.Status.Conditions {
		condition := &pg.Status.Conditions[i]
		switch {
		case condition.Status != v1.ConditionTrue || condition.Message == "":
		case isUnschedulable(*condition):
			return condition
		case isScheduled(*condition):
			found = condition
		}
	}
	return found
}

// reportScheduled records an event when the condition Scheduled of the PodGroup is new.
func (r *Reporter) reportScheduled(pg *api.PodGroup) {
	last, known := r.outlet.status.LastKnown(pg)
	if !known || !hasCondition(pg.Status, isScheduled) || hasCondition(last, isScheduled) {
		return
	}
	r.outlet.gangEvent(pg, v1.EventTypeNormal, string(scheduling.PodGroupScheduled), string(scheduling.PodGroupReady))
}

// reportQuarantined reports on a gang that is quarantined and stays in sessions because it holds resources.
func (r *Reporter) reportQuarantined(job *api.JobInfo, why quarantine.Verdict) {
	r.outlet.gangEvent(job.PodGroup, v1.EventTypeWarning, why.Reason, why.Message)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			r.outlet.pod(task.Pod, v1.PodReasonUnschedulable, why.Message, "")
		}
	}
	r.resend(job)
}

// resend records the events of the gang's waiting pods again, every ResendEvery.
func (r *Reporter) resend(job *api.JobInfo) {
	if !r.memory.isTimeToResend(job) {
		return
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		r.outlet.podAgain(task.Pod)
	}
}

// resendDelays records again, every ResendEvery, the events of the gang's members that wait long in their transaction.
func (r *Reporter) resendDelays(job *api.JobInfo) {
	if !r.memory.isTimeToResend(job) {
		return
	}
	for _, delay := range r.delays.of(job.UID) {
		delay.record(r.outlet.recorder)
	}
}
