// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"time"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// retellEvery is how often the pods of a gang that waits are told again what they wait for, as far as the recorder lets
// that through.
const retellEvery = 10 * time.Minute

// retell tells the pods that wait once more what their conditions say. A pod is told only when its condition
// changes; the API server drops the event after an hour, or it may have been lost, and the pod waits on.
func (c *Cache) retell(job *api.JobInfo) {
	recorder, ok := c.Recorder.(*recorder)
	if !ok || !c.isTimeToRetell(job.UID) {
		return
	}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		_, condition := podutil.GetPodCondition(&task.Pod.Status, v1.PodScheduled)
		if condition == nil || condition.Status != v1.ConditionFalse {
			continue
		}
		switch condition.Reason { // others are told by those who wrote them
		case api.PodReasonUnschedulable, api.PodReasonSchedulable:
			recorder.again(task.Pod, notice{
				object: task.Pod, eventType: v1.EventTypeWarning, reason: "FailedScheduling", message: condition.Message,
			})
		}
	}
}

func (c *Cache) isTimeToRetell(gang api.JobID) bool {
	c.reportMu.Lock()
	defer c.reportMu.Unlock()
	last, ok := c.retold[gang]
	if ok && time.Since(last) < retellEvery {
		return false
	}
	c.retold[gang] = time.Now()
	return ok // a gang that is new is being told by the session
}
