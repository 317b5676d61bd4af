// SPDX-License-Identifier: Apache-2.0

package report

import (
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// hasPending reports whether members of the gang wait or are missing. A gang in phase Completed lacks no members. But
// its pods may still wait: with minMember 0, upstream also sets this phase while no pod of the gang is scheduled.
func hasPending(job *api.JobInfo) bool {
	if job.PodGroup == nil {
		return false
	}
	return countPending(job) > 0 || job.PodGroup.Status.Phase != scheduling.PodGroupCompleted && len(job.TaskStatusIndex[api.Binding]) == 0 && !job.IsReady()
}

// countPending returns how many tasks wait to be placed.
func countPending(job *api.JobInfo) int {
	return len(job.TaskStatusIndex[api.Pending]) + len(job.TaskStatusIndex[api.Pipelined])
}

// pendingReasonOf returns why the gang waits. It looks for causes in this order: a plugin calls the gang invalid
// (JobValid), the gang is not admitted, it lacks pods, it lacks resources. Admission comes before pods, because the
// pods of a Volcano Job are created only after admission.
func pendingReasonOf(ssn *framework.Session, job *api.JobInfo) framework.PendingReason {
	invalid := ssn.JobValid(job)
	if invalid != nil && invalid.Reason != framework.NotEnoughPods && invalid.Reason != framework.NotEnoughPodsOfTask {
		return framework.PendingReason{Reason: invalid.Reason, Message: invalid.Message}
	}
	if job.IsPending() {
		if reason, refused := ssn.QueueUse.NotAdmitted(job, ssn.PendingReason); refused {
			return reason
		}
	}
	// A plugin lowers MinAvailable of a gang whose further members are placed one by one.
	if reason, lacks := lacksPods(job); lacks && (invalid != nil || job.MinAvailable >= job.PodGroup.Spec.MinMember) {
		reason.Message += foreignPods(ssn.InformerFactory(), job)
		return reason
	}
	if job.MinAvailable > job.PodGroup.Spec.MinMember {
		if invalid != nil {
			return lacksPendingPods(job, invalid.Reason)
		}
		if gatedPods(job) > 0 && job.ReadyTaskNum()+int32(countPending(job)-gatedPods(job)) < job.MinAvailable {
			return framework.PendingReason{Reason: framework.SchedulingGated, Message: furtherGatesText(job) + "; " + pendingCount}
		}
	}
	if reason, ok := awaitsRelease(job); ok {
		return reason
	}
	if reason, ok := ssn.PendingReason(job.UID); ok {
		return reason
	}
	return unexplained(job)
}

// unexplained returns the reason for a gang for which no action has recorded one.
func unexplained(job *api.JobInfo) framework.PendingReason {
	if job.JobFitErrors != "" {
		return framework.PendingReason{Reason: framework.NotEnoughResources, Message: job.JobFitErrors}
	}
	var first *api.TaskInfo
	for uid := range job.NodesFitErrors {
		if task := job.Tasks[uid]; task != nil && task.Status == api.Pending && (first == nil || task.Name < first.Name) {
			first = task
		}
	}
	if first != nil {
		return framework.PendingReason{Reason: framework.NotEnoughResources, Message: job.NodesFitErrors[first.UID].Error()}
	}
	if gated := gatedPods(job); gated > 0 && gated == countPending(job) {
		return framework.PendingReason{Reason: framework.SchedulingGated, Message: furtherGatesText(job)}
	}
	if job.IsPending() {
		return framework.PendingReason{Reason: framework.NotEnqueued, Message: "not admitted by action enqueue yet; if this lasts, check that the scheduler's configuration has actions enqueue and allocate"}
	}
	return framework.PendingReason{Reason: framework.NotEnoughResources, Message: "not tried by any action yet; if this lasts, check that the scheduler's configuration has action allocate"}
}

// Show implements framework.PendingReporter.
func (*PendingGangs) Show(ssn *framework.Session, job *api.JobInfo) {
	if reason, ok := ssn.PendingReason(job.UID); ok {
		show(reason, job, ssn.UID)
	}
}

// show writes the reason to the session's PodGroup. While the gang's minimum is not bound, the reason is its
// Unschedulable condition. After that it is the message of the Scheduled condition, because only some members wait.
// While a bind transaction of the gang runs, show writes nothing, because the transaction reports its own results.
func show(reason framework.PendingReason, job *api.JobInfo, session types.UID) {
	status := &job.PodGroup.Status
	switch {
	case job.IsReady() && len(job.TaskStatusIndex[api.Binding]) > 0:
	case !binding.MinimumBound(job):
		conditions.Set(status, session, scheduling.PodGroupUnschedulableType, reason.Reason, reason.Message)
	case conditions.Find(status, scheduling.PodGroupScheduled) != nil || !job.IsReady():
		// Upstream sets the condition of gangs that are ready. A gang whose further members must be placed together is not.
		conditions.Set(status, session, scheduling.PodGroupScheduled, "tasks in gang are ready to be scheduled", reason.Message)
	}
}
