// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/conditions"
)

// Reasons why a gang waits, as in the condition of its PodGroup. Plugins may return other reasons in the result of
// JobValid.
const (
	NotEnoughResources  = v1beta1.NotEnoughResourcesReason
	NotEnoughPods       = v1beta1.NotEnoughPodsReason
	NotEnoughPodsOfTask = v1beta1.NotEnoughPodsOfTaskReason
	// SchedulingGated means that the gang has too few pods without scheduling gates.
	SchedulingGated = "SchedulingGated"
	// NotEnqueued means that the PodGroup is Pending because a plugin did not admit it.
	NotEnqueued = "NotEnqueued"
	// NotTried means that no action has tried to place the gang in this session, because failed attempts for gangs of its
	// namespace have used up their time.
	NotTried = "NotTried"
	// QueueFull means that the gang's queue is at its limit.
	QueueFull = "QueueFull"
	// QueueNotOpen, QueueNotFound and QueueHasChildren mean that the gang's queue is closed, does not exist, or may
	// contain only queues.
	QueueNotOpen     = "QueueNotOpen"
	QueueNotFound    = "QueueNotFound"
	QueueHasChildren = "QueueHasChildren"
	// PodGroupNotFound means that pods name a PodGroup that does not exist.
	PodGroupNotFound = "PodGroupNotFound"
	// PreBindFailed and BindFailed mean that the gang's last transaction failed. BindBackoff means that the rollback of
	// the last transaction is in progress, or the queue is paused during a search for an object that makes cycles panic.
	PreBindFailed = "PreBindFailed"
	BindFailed    = "BindFailed"
	BindBackoff   = "BindBackoff"
)

// PendingReason is the reason why a gang waits, as its PodGroup and its pods report it. As long as the cluster's state
// does not change, the text does not change.
type PendingReason struct {
	Reason, Message string
}

// SetPendingReason records why an action of this session did not place the gang.
func (ssn *Session) SetPendingReason(job api.JobID, reason PendingReason) {
	if ssn.pendingReasons == nil {
		ssn.pendingReasons = map[api.JobID]PendingReason{}
	}
	ssn.pendingReasons[job] = reason
}

// PendingReason returns why the gang waits, as far as actions have recorded it. Once the session closes, every gang
// that waits has a reason.
func (ssn *Session) PendingReason(job api.JobID) (PendingReason, bool) {
	reason, ok := ssn.pendingReasons[job]
	return reason, ok
}

// explainPending finds one reason for every gang that waits, and for no other gang. The reason comes from the session's
// data, or else from the actions that tried to place the gang. For each gang it reads the gang's tasks and, if the
// PodGroup was not admitted, repeats the plugins' votes. Plugins that write conditions when they close then write this
// reason instead of the filter results of every node for every pod. lastReports limits how often a gang's text changes.
func explainPending(ssn *Session, lastReports lastReports) {
	var waiting []*api.JobInfo
	for uid, job := range ssn.Jobs {
		if HasPending(job) {
			waiting = append(waiting, job)
		} else {
			delete(ssn.pendingReasons, uid)
		}
	}
	// Some plugins count the gangs that they have admitted, so their votes depend on the order of gangs. A fixed order
	// gives the same votes in each session.
	slices.SortFunc(waiting, func(l, r *api.JobInfo) int { return cmp.Compare(l.UID, r.UID) })
	for _, job := range waiting {
		reason := pendingReasonOf(ssn, job)
		reason.Message = brief.Text(reason.Message)
		reason = lastReports.pace(job, reason)
		ssn.pendingReasons[job.UID] = reason
		job.JobFitErrors = reason.Message
		clear(job.NodesFitErrors)
	}
	lastReports.keep(ssn.pendingReasons)
}

// HasPending reports whether members of the gang wait or are missing. A gang in phase Completed lacks no members. But
// its pods may still wait: with minMember 0, upstream also sets this phase while no pod of the gang is scheduled.
func HasPending(job *api.JobInfo) bool {
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
func pendingReasonOf(ssn *Session, job *api.JobInfo) PendingReason {
	invalid := ssn.JobValid(job)
	if invalid != nil && invalid.Reason != NotEnoughPods && invalid.Reason != NotEnoughPodsOfTask {
		return PendingReason{invalid.Reason, invalid.Message}
	}
	if job.IsPending() {
		if reason, refused := ssn.QueueUse.notEnqueued(job, ssn.pendingReasons); refused {
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
			return PendingReason{SchedulingGated, furtherGatesText(job) + "; " + pendingCount}
		}
	}
	if reason, ok := awaitsRelease(job); ok {
		return reason
	}
	if reason, ok := ssn.pendingReasons[job.UID]; ok {
		return reason
	}
	return unexplained(job)
}

// unexplained returns the reason for a gang for which no action has recorded one.
func unexplained(job *api.JobInfo) PendingReason {
	if job.JobFitErrors != "" {
		return PendingReason{NotEnoughResources, job.JobFitErrors}
	}
	var first *api.TaskInfo
	for uid := range job.NodesFitErrors {
		if task := job.Tasks[uid]; task != nil && task.Status == api.Pending && (first == nil || task.Name < first.Name) {
			first = task
		}
	}
	if first != nil {
		return PendingReason{NotEnoughResources, job.NodesFitErrors[first.UID].Error()}
	}
	if gated := gatedPods(job); gated > 0 && gated == countPending(job) {
		return PendingReason{SchedulingGated, furtherGatesText(job)}
	}
	if job.IsPending() {
		return PendingReason{NotEnqueued, "not admitted by action enqueue yet; if this lasts, check that the scheduler's configuration has actions enqueue and allocate"}
	}
	return PendingReason{NotEnoughResources, "not tried by any action yet; if this lasts, check that the scheduler's configuration has action allocate"}
}

// show writes the reason to the session's PodGroup. While the gang's minimum is not bound, the reason is its
// Unschedulable condition. After that it is the message of the Scheduled condition, because only some members wait.
// While a bind transaction of the gang runs, show writes nothing, because the transaction reports its own results.
func (w PendingReason) show(job *api.JobInfo, session types.UID) {
	status := &job.PodGroup.Status
	switch {
	case job.IsReady() && len(job.TaskStatusIndex[api.Binding]) > 0:
	case !binding.MinimumBound(job):
		conditions.Set(status, session, scheduling.PodGroupUnschedulableType, w.Reason, w.Message)
	case conditions.Find(status, scheduling.PodGroupScheduled) != nil || !job.IsReady():
		// Upstream sets the condition of gangs that are ready. A gang whose further members must be placed together is not.
		conditions.Set(status, session, scheduling.PodGroupScheduled, "tasks in gang are ready to be scheduled", w.Message)
	}
}
