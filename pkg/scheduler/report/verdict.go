// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
)

// Verdict reports, with events and conditions, why the gang waits. The gang's waiting pods get the message of its
// PodGroup.
func (r *Reporter) Verdict(job *api.JobInfo) {
	condition := verdictOf(job.PodGroup)
	if condition == nil {
		return
	}
	if condition.Type == scheduling.PodGroupUnschedulableType && !repeats(job.PodGroup, condition) {
		r.outlet.gangEvent(job.PodGroup, v1.EventTypeWarning, string(condition.Type), condition.Message)
	}
	for _, status := range []api.TaskStatus{api.Allocated, api.Pending, api.Pipelined} {
		for uid, task := range job.TaskStatusIndex[status] {
			if task.SchGated {
				continue // for a gated pod, the API server sets the condition
			}
			_, _, nominated := job.TaskSchedulingReason(uid)
			r.outlet.pod(task.Pod, v1.PodReasonUnschedulable, condition.Message, nominated)
		}
	}
}

// repeats reports whether another condition of the PodGroup has the same message, such as the condition about the end of
// the gang's waiting time. The plugin that has set the other condition has recorded an event with the message.
func repeats(pg *api.PodGroup, condition *scheduling.PodGroupCondition) bool {
	return slices.ContainsFunc(pg.Status.Conditions, func(other scheduling.PodGroupCondition) bool {
		return other.Type != condition.Type && other.Message == condition.Message
	})
}

// verdictOf returns the condition that says why members of the gang wait; nil if none exists. It prefers the condition
// Unschedulable. Otherwise it returns a condition Scheduled with a message, which means that the gang has its minimum
// but other members wait.
func verdictOf(pg *api.PodGroup) *scheduling.PodGroupCondition {
	for _, kind := range []scheduling.PodGroupConditionType{scheduling.PodGroupUnschedulableType, scheduling.PodGroupScheduled} {
		if c := conditions.Find(&pg.Status, kind); c != nil && c.Status == v1.ConditionTrue && c.Message != "" {
			return c
		}
	}
	return nil
}

// reportScheduled records an event on the PodGroup when the PodGroup gets the condition Scheduled.
func (r *Reporter) reportScheduled(pg *api.PodGroup) {
	last, known := r.outlet.status.LastKnown(pg)
	if !known || !isScheduled(&pg.Status) || isScheduled(&last) {
		return
	}
	r.outlet.gangEvent(pg, v1.EventTypeNormal, string(scheduling.PodGroupScheduled), string(scheduling.PodGroupReady))
}

// reportQuarantined reports, with events and conditions, why a quarantined gang waits. Sessions still see this gang,
// because its members hold resources.
func (r *Reporter) reportQuarantined(job *api.JobInfo, why quarantine.Verdict) {
	r.outlet.gangEvent(job.PodGroup, v1.EventTypeWarning, why.Reason, why.Message)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			r.outlet.pod(task.Pod, v1.PodReasonUnschedulable, why.Message, "")
		}
	}
	r.resend(job)
}

// resend records the events of the gang's waiting pods again if ResendEvery has passed since the last time.
func (r *Reporter) resend(job *api.JobInfo) {
	if !r.history.isTimeToResend(job) {
		return
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		r.outlet.podAgain(task.Pod)
	}
}

// resendDelays records again the events of the gang's members that wait long in their transaction, if ResendEvery has
// passed since the last time.
func (r *Reporter) resendDelays(job *api.JobInfo) {
	if !r.history.isTimeToResend(job) {
		return
	}
	for _, delay := range r.delays.of(job.UID) {
		delay.record(r.outlet.recorder)
	}
}
