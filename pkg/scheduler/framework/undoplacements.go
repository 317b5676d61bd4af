// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// HasClaims reports whether the pod has claims of volumes or devices. Plugins reserve these when the pod is placed.
func HasClaims(pod *v1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil || pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// undoPlacements undoes placements that are left when the session ends: neither undone by an action nor handed over to be
// bound. They are of tasks whose gang action backfill could not complete, tasks that the cache refused, and tasks that wait
// for resources being released. Otherwise the reservations for their claims would last as long as the scheduler runs. Tasks
// without claims hold nothing beyond the session, except by Reservers, whose reservations are undone, too.
func undoPlacements(ssn *Session) {
	defer ssn.reservers.undoAll() // reservations that the statement sends no event for
	statement := vcframework.NewStatement(ssn.Session)
	takeBack := map[api.TaskStatus]func(*api.TaskInfo) error{api.Allocated: statement.UnAllocate, api.Pipelined: statement.UnPipeline}
	for _, job := range ssn.Jobs {
		for status, undo := range takeBack {
			for _, task := range job.TaskStatusIndex[status] {
				if !HasClaims(task.Pod) {
					continue
				}
				if err := takeBackOne(task, undo); err != nil {
					klog.Background().Error(err, "Reverting a placement failed", "pod", klog.KObj(task.Pod))
				}
			}
		}
	}
}

// takeBackOne undoes the placement of the task. A panic in a plugin becomes an error, so that other placements are undone, too. While
// undo runs, the pod's node stays as the action set it, because plugins reserve claims for that node. preempt and reclaim set none
// when they pipeline a task.
func takeBackOne(task *api.TaskInfo, undo func(*api.TaskInfo) error) (err error) {
	defer func() {
		task.Pod.Spec.NodeName = ""
		if p := recover(); p != nil {
			err = fmt.Errorf("a plugin panicked: %v", p)
		}
	}()
	task.GenerateLastTxContext() // its nominated node is derived from the context
	return undo(task)
}

// UndoPlacements undoes the placements of the session that was opened last, except for tasks that were handed over to be
// bound. It is used after a session has panicked, and so was not closed.
func (r *Registry) UndoPlacements() {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last != nil && last.Session != nil {
		undoPlacements(last)
	}
}
