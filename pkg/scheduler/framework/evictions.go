// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// Eviction is a task that was evicted in the session.
type Eviction struct {
	Task *api.TaskInfo
	// Action is the name of the action that evicted the task, and Reason is why, for events and conditions.
	Action, Reason string
	// For is the gang for which the task was evicted; nil if it is not known.
	For *api.JobInfo
	// Protected reports whether a PodDisruptionBudget selects the task's pod and allows its eviction. The API server is then
	// asked to evict the pod, and may refuse.
	Protected bool
}

// evictions are the evictions of one session.
type evictions struct {
	// sent are the evicted tasks, in the order of their evictions.
	sent []*api.TaskInfo
	// placements has the plugins that are notified.
	placements *Placements
}

// MakesRoom reports whether the session's running action is preempt or reclaim, which evict pods for whole gangs. The tasks that
// these place wait for their victims, so what victims release counts as free.
func MakesRoom(ssn *Session) bool { return ssn.Action == "preempt" || ssn.Action == "reclaim" }

// Waits reports whether the task would wait on the node for pods that leave it. That is so if the task does not fit into the node's
// idle resources, or if the session makes room.
func Waits(ssn *Session, task *api.TaskInfo, node *api.NodeInfo) bool {
	return MakesRoom(ssn) || !task.InitResreq.LessEqual(node.Idle, api.Zero)
}

// Evicted returns the tasks that were evicted in the session so far.
func (ssn *Session) Evicted() []*api.TaskInfo { return ssn.evictions.sent }

// EvictTogether sends evictions that are useless without each other. Their tasks are already evicted in the session
// (Statement.Evict). If it returns an error, none of them is sent.
func (ssn *Session) EvictTogether(all []Eviction) error {
	if err := ssn.cache.EvictTogether(all); err != nil {
		return err
	}
	for _, eviction := range all {
		ssn.evictions.note(eviction)
	}
	return nil
}

// Evict evicts the task for one of upstream's actions.
func (c *sessionCache) Evict(task *api.TaskInfo, reason string) error {
	if err := c.Cache.Evict(task, reason); err != nil {
		return err
	}
	c.session.evictions.note(Eviction{Task: task, Action: c.session.Action, Reason: reason})
	return nil
}

func (e *evictions) note(eviction Eviction) {
	e.sent = append(e.sent, eviction.Task)
	e.placements.evicted(eviction)
}

// Unevict resets the status of a task whose eviction was undone: the task runs or, if its pod does not run yet, is bound.
func Unevict(ssn *vcframework.Session, task *api.TaskInfo) {
	status := api.Running
	if task.Pod.Status.Phase != v1.PodRunning {
		status = api.Bound
	}
	if job := ssn.Jobs[task.Job]; job != nil {
		if err := job.UpdateTaskStatus(task, status); err != nil {
			klog.Background().Error(err, "Resetting the status of a task that is not evicted failed", "pod", klog.KObj(task.Pod))
		}
	}
	if node := ssn.Nodes[task.NodeName]; node != nil {
		if err := node.UpdateTask(task); err != nil {
			klog.Background().Error(err, "Returning a task that is not evicted to its node failed", "pod", klog.KObj(task.Pod))
		}
	}
}
