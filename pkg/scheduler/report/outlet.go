// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
)

// failedScheduling is the reason of the event on a pod that waits to be placed.
const failedScheduling = "FailedScheduling"

// outlet publishes conditions and events of gangs and pods.
type outlet struct {
	books    *books.Books
	status   *statuswriter.Writer
	recorder *events.Recorder
}

// group returns the gang's PodGroup with the status that was decided last, which may not be written yet. It returns nil
// if the PodGroup does not exist.
func (o *outlet) group(gang api.JobID) *api.PodGroup {
	o.books.Lock()
	defer o.books.Unlock()
	job := o.books.Jobs.Get(gang)
	if job == nil || job.PodGroup == nil {
		return nil
	}
	return o.groupOf(job)
}

// groupOf returns the job's PodGroup with the status that was decided last. The caller holds the mutex of the books.
func (o *outlet) groupOf(job *api.JobInfo) *api.PodGroup {
	group := job.PodGroup.Clone()
	if status, ok := o.status.Decided(job); ok {
		group.Status = *status.DeepCopy()
	}
	return group
}

// gangEvent records an event on the PodGroup.
func (o *outlet) gangEvent(group *api.PodGroup, eventType, reason, message string) {
	if pg, err := podgroup.External(&group.PodGroup); err == nil {
		o.recorder.Event(pg, eventType, reason, message)
	}
}

// gangUnschedulable reports on the PodGroup, with a condition and an event, why the gang is not placed.
func (o *outlet) gangUnschedulable(gang api.JobID, reason, message string) {
	group := o.group(gang)
	if group == nil {
		return
	}
	setUnschedulable(&group.Status, reason, message)
	o.status.PutPodGroup(group, false)
	o.gangEvent(group, v1.EventTypeWarning, reason, message)
}

// pod reports in a condition and an event why the pod waits. It also writes the nominated node if one is given. It does
// nothing if the pod already has the condition and the nominated node.
func (o *outlet) pod(pod *v1.Pod, reason, message, nominated string) {
	_, current := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	said := current != nil && current.Status == v1.ConditionFalse && current.Reason == reason && current.Message == message
	if said && (nominated == "" || nominated == pod.Status.NominatedNodeName) {
		return
	}
	pod = ownStatus(pod)
	if nominated != "" {
		pod.Status.NominatedNodeName = nominated
	}
	podutil.UpdatePodCondition(&pod.Status, notScheduled(reason, message))
	o.recorder.Event(pod, v1.EventTypeWarning, failedScheduling, message)
	o.status.PutPod(pod, statuswriter.Settle)
}

// podAgain records the event again that belongs to the pod's current condition PodScheduled.
func (o *outlet) podAgain(pod *v1.Pod) {
	_, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	if condition == nil || condition.Status != v1.ConditionFalse {
		return
	}
	switch condition.Reason { // events for other reasons are not repeated here
	case api.PodReasonUnschedulable, api.PodReasonSchedulable, framework.PodGroupNotFound:
		o.recorder.Again(pod, v1.EventTypeWarning, failedScheduling, condition.Message)
	}
}

// podNotBound reports in an event and a condition that the pod was not bound. It does so again after a repeated failure:
// the earlier event may have been lost, and the earlier condition is dropped if the pod was being bound again before it
// was written. A report that the pod still has is not sent again.
func (o *outlet) podNotBound(n podNotice, reason string) {
	pod := ownStatus(n.Member.Task.Pod)
	pod.Spec.NodeName = ""
	o.recorder.Event(pod, v1.EventTypeWarning, reason, n.message)
	podutil.UpdatePodCondition(&pod.Status, notScheduled(v1.PodReasonSchedulerError, n.message))
	pod.Status.NominatedNodeName = ""
	o.status.PutPod(pod, 0)
}

// podCondition writes the condition PodScheduled, with status False, of a pod that is being bound.
func (o *outlet) podCondition(of *v1.Pod, reason, message string) {
	pod := &v1.Pod{ObjectMeta: of.ObjectMeta}
	podutil.UpdatePodCondition(&pod.Status, notScheduled(reason, message))
	o.status.PutPod(pod, 0)
}

// ownStatus returns a copy of the pod whose status the caller may change. All other parts are shared and read-only.
func ownStatus(pod *v1.Pod) *v1.Pod {
	own := *pod
	own.Status.Conditions = slices.Clone(pod.Status.Conditions)
	return &own
}

func notScheduled(reason, message string) *v1.PodCondition {
	return &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message}
}
