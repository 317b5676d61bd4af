// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"time"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// retellEvery is how often the pods of a gang that waits are told again what they wait for, as far as the recorder lets
// that through.
const retellEvery = 10 * time.Minute

// retell tells the gang's pods that wait once more what their conditions say. A pod is told only when its condition
// changes; the API server drops the event after an hour, or it may have been lost, and the pod waits on.
func (c *Cache) retell(job *api.JobInfo) {
	if !c.isTimeToRetell(job) {
		return
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		c.retellPod(task.Pod)
	}
}

// retellDelays does so for the members of its transaction that wait long.
func (c *Cache) retellDelays(job *api.JobInfo) {
	if !c.isTimeToRetell(job) {
		return
	}
	for _, delay := range c.delays.of(job.UID) {
		delay.tell(c.Recorder)
	}
}

func (c *Cache) retellPod(pod *v1.Pod) {
	recorder, ok := c.Recorder.(*events.Recorder)
	_, condition := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	if !ok || condition == nil || condition.Status != v1.ConditionFalse {
		return
	}
	switch condition.Reason { // others are told by those who wrote them
	case api.PodReasonUnschedulable, api.PodReasonSchedulable, framework.PodGroupNotFound:
		recorder.Again(pod, v1.EventTypeWarning, "FailedScheduling", condition.Message)
	}
}

func (c *Cache) isTimeToRetell(job *api.JobInfo) bool {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	last, ok := c.retold[job.UID]
	if ok && time.Since(last) < retellEvery {
		return false
	}
	if _, err := c.podGroups.PodGroups(job.Namespace).Get(job.Name); err == nil { // else it is forgotten already
		c.retold[job.UID] = time.Now()
	}
	return ok // a gang that is new is being told by the session
}
