// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
)

// tellVerdict lets the pods of a gang that wait say what its PodGroup says of them, word by word, and tells both with events.
func (c *Cache) tellVerdict(job *api.JobInfo) {
	condition := verdictOf(job.PodGroup)
	if condition == nil {
		return
	}
	if isUnschedulable(*condition) && !reportedAsTimeOut(job.PodGroup, condition.Message) {
		c.podGroupEvent(job.PodGroup, v1.EventTypeWarning, string(condition.Type), condition.Message)
	}
	for _, status := range []api.TaskStatus{api.Allocated, api.Pending, api.Pipelined} {
		for uid, task := range job.TaskStatusIndex[status] {
			if task.SchGated {
				continue // the API server has told it
			}
			_, _, nominated := job.TaskSchedulingReason(uid)
			c.tellPod(task.Pod, v1.PodReasonUnschedulable, condition.Message, nominated)
		}
	}
}

// reportedAsTimeOut reports whether the event of the gang's time-out has the message already.
func reportedAsTimeOut(pg *api.PodGroup, message string) bool {
	return hasCondition(pg.Status, func(condition scheduling.PodGroupCondition) bool {
		return isSentBack(condition) && condition.Message == message
	})
}

// verdictOf is the condition that says why members of the gang wait: Unschedulable, or of a gang whose minimum is placed
// Scheduled, when that has something to say; nil when neither does.
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

func isUnschedulable(c scheduling.PodGroupCondition) bool {
	return c.Type == scheduling.PodGroupUnschedulableType
}

func isScheduled(c scheduling.PodGroupCondition) bool { return c.Type == scheduling.PodGroupScheduled }

// tellPod has the pod's PodScheduled condition written, and its nomination if there is one, and tells the former with
// an event, unless the pod has them.
func (c *Cache) tellPod(pod *v1.Pod, reason, message, nominated string) {
	_, current := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	said := current != nil && current.Status == v1.ConditionFalse && current.Reason == reason && current.Message == message
	if said && (nominated == "" || nominated == pod.Status.NominatedNodeName) {
		return
	}
	pod = pod.DeepCopy()
	if nominated != "" {
		pod.Status.NominatedNodeName = nominated
	}
	podutil.UpdatePodCondition(&pod.Status, &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message})
	c.Recorder.Event(pod, v1.EventTypeWarning, "FailedScheduling", message)
	c.status.PutPod(pod, statuswriter.Settle)
}

func (c *Cache) podGroupEvent(group *api.PodGroup, eventType, reason, message string) {
	if pg, err := podgroup.External(&group.PodGroup); err == nil {
		c.Recorder.Event(pg, eventType, reason, message)
	}
}

// tellScheduled tells with an event that the gang's minimum is placed, when that is news.
func (c *Cache) tellScheduled(pg *api.PodGroup) {
	last, known := c.status.LastKnown(pg)
	if !known || !hasCondition(pg.Status, isScheduled) || hasCondition(last, isScheduled) {
		return
	}
	c.podGroupEvent(pg, v1.EventTypeNormal, string(scheduling.PodGroupScheduled), string(scheduling.PodGroupReady))
}

func hasCondition(status scheduling.PodGroupStatus, is func(scheduling.PodGroupCondition) bool) bool {
	return slices.ContainsFunc(status.Conditions, is)
}
