// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Reasons for which a gang waits, as its PodGroup's condition has them. What plugins give as the reason of a JobValid verdict
// comes beside them.
const (
	NotEnoughResources  = v1beta1.NotEnoughResourcesReason
	NotEnoughPods       = v1beta1.NotEnoughPodsReason
	NotEnoughPodsOfTask = v1beta1.NotEnoughPodsOfTaskReason
	// SchedulingGated: too few pods are left when those with scheduling gates are not counted.
	SchedulingGated = "SchedulingGated"
	// NotEnqueued: the PodGroup is Pending because a plugin did not let it in.
	NotEnqueued = "NotEnqueued"
	// QueueFull: the gang's queue may take no more.
	QueueFull = "QueueFull"
	// QueueNotOpen, QueueNotFound and QueueHasChildren: the gang's queue takes nothing, is not there, or is for queues alone.
	QueueNotOpen     = "QueueNotOpen"
	QueueNotFound    = "QueueNotFound"
	QueueHasChildren = "QueueHasChildren"
	// PodGroupNotFound: pods name a PodGroup that is not there.
	PodGroupNotFound = "PodGroupNotFound"
	// WaitingForGroup: not all gangs of the gang's group are there. InvalidGangGroup: what they say of it does not agree.
	WaitingForGroup  = "WaitingForGroup"
	InvalidGangGroup = "InvalidGangGroup"
	// PreBindFailed and BindFailed: what the gang's last transaction failed of. BindBackoff: it waits after that.
	PreBindFailed = "PreBindFailed"
	BindFailed    = "BindFailed"
	BindBackoff   = "BindBackoff"
)

// GangTimeLimit is the type of the condition of a gang that was let in, or sent back when its waiting time was up.
const GangTimeLimit scheduling.PodGroupConditionType = "GangTimeLimit"

// GangTimedOut is that condition's reason once the gang's waiting time was up.
const GangTimedOut = "GangTimedOut"

// Wait says why a gang waits, in the words that its PodGroup and its pods show. Equal worlds give equal words.
type Wait struct {
	Reason, Message string
}

// ExplainWait keeps why a gang was not placed by an action of this session.
func (ssn *Session) ExplainWait(job api.JobID, wait Wait) { ssn.waits[job] = wait }

// Wait is why the gang waits, as far as an action has told; all of it is known once the session closes.
func (ssn *Session) Wait(job api.JobID) (Wait, bool) {
	wait, ok := ssn.waits[job]
	return wait, ok
}

// explainWaits finds for every gang that waits, and for no other, one explanation: what the session's data say of it, and
// else what actions found when they tried to place it. It costs a look at the gang's tasks and, for a PodGroup that was not
// let in, another round of its plugins' votes. Plugins that write conditions of their own when they close find the same text,
// and not the verdicts of every node for every pod. What gangs were told before bounds how often that is another text.
func (ssn *Session) explainWaits(told tellings) {
	var waiting []*api.JobInfo
	for uid, job := range ssn.Jobs {
		if Waits(job) {
			waiting = append(waiting, job)
		} else {
			delete(ssn.waits, uid)
		}
	}
	// Plugins that count what they let in answer by whom they were asked about before.
	slices.SortFunc(waiting, func(l, r *api.JobInfo) int { return cmp.Compare(l.UID, r.UID) })
	for _, job := range waiting {
		wait := ssn.waitOf(job)
		wait.Message = brief.Text(wait.Message)
		wait = told.pace(job, wait)
		ssn.waits[job.UID] = wait
		job.JobFitErrors = wait.Message
		clear(job.NodesFitErrors)
	}
	told.keep(ssn.waits)
}

// Waits is true if members of the gang wait, or are missing: of one that is completed none are, but upstream calls one so whose
// minMember is 0, too, while its pods wait.
func Waits(job *api.JobInfo) bool {
	if job.PodGroup == nil {
		return false
	}
	return waiting(job) > 0 || job.PodGroup.Status.Phase != scheduling.PodGroupCompleted && len(job.TaskStatusIndex[api.Binding]) == 0 && !job.IsReady()
}

// waiting is how many tasks wait to be placed.
func waiting(job *api.JobInfo) int {
	return len(job.TaskStatusIndex[api.Pending]) + len(job.TaskStatusIndex[api.Pipelined])
}

// waitOf finds why the gang waits, the first cause first: that it was not let in, for the pods of a Volcano Job are made after
// that; then what it lacks itself; then room.
func (ssn *Session) waitOf(job *api.JobInfo) Wait {
	if verdict := ssn.JobValid(job); verdict != nil && !verdict.Pass &&
		verdict.Reason != NotEnoughPods && verdict.Reason != NotEnoughPodsOfTask {
		return Wait{verdict.Reason, verdict.Message}
	}
	if job.IsPending() {
		if wait, refused := ssn.notEnqueued(job); refused {
			return wait
		}
	}
	if wait, lacks := lacksPods(job); lacks {
		wait.Message += ssn.foreignPods(job)
		return wait
	}
	if wait, ok := awaitsRelease(job); ok {
		return wait
	}
	if wait, ok := ssn.waits[job.UID]; ok {
		return wait
	}
	return Wait{NotEnoughResources, untold(job)}
}

// untold is what is known of a gang that no action has explained.
func untold(job *api.JobInfo) string {
	if job.JobFitErrors != "" {
		return job.JobFitErrors
	}
	var first *api.TaskInfo
	for uid := range job.NodesFitErrors {
		if task := job.Tasks[uid]; task != nil && task.Status == api.Pending && (first == nil || task.Name < first.Name) {
			first = task
		}
	}
	if first != nil {
		return job.NodesFitErrors[first.UID].Error()
	}
	if job.IsPending() {
		return "action enqueue has not let it in yet"
	}
	return "no action of the configuration has tried to place it yet"
}

// show puts the explanation on the PodGroup that the session writes: as its Unschedulable condition while the gang's minimum
// is not bound, and else as the message of its Scheduled condition, for then some of its members wait and the gang does not.
// In between its bind transaction has the word.
func (w Wait) show(job *api.JobInfo, session string) {
	status := &job.PodGroup.Status
	at := func(kind scheduling.PodGroupConditionType) int {
		return slices.IndexFunc(status.Conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == kind })
	}
	if job.IsReady() && len(job.TaskStatusIndex[api.Binding]) > 0 {
		return
	}
	if binding.ShortOf(job, &job.PodGroup.Spec, binding.Placed) == nil {
		if i := at(scheduling.PodGroupScheduled); i >= 0 {
			status.Conditions[i].Message = w.Message
		}
		return
	}
	condition := scheduling.PodGroupCondition{
		Type: scheduling.PodGroupUnschedulableType, Status: v1.ConditionTrue, Reason: w.Reason, Message: w.Message,
		LastTransitionTime: metav1.Now(), TransitionID: session,
	}
	if i := at(condition.Type); i >= 0 {
		status.Conditions[i] = condition
	} else {
		status.Conditions = append(status.Conditions, condition)
	}
}
