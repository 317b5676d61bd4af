// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// HasClaims reports whether the pod has claims of volumes or devices. Plugins reserve these claims when the pod is
// placed.
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

// undoPlacements undoes the placements that remain at the end of the session: no action has undone them, and their
// tasks were not handed over to be bound. Such a task belongs to a gang that action backfill could not complete, was
// refused by the cache, or waits for resources being released. If its placement remained, the reservations for its
// claims would last as long as the scheduler runs. Tasks without claims need not be undone: only Reservers still hold
// resources for them, and these reservations are undone, too.
func undoPlacements(ssn *Session) {
	defer ssn.reservers.undoAll() // undoAll also undoes reservations for which the statement sends no event
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

// takeBackOne undoes the placement of the task with the function undo. A panic in a plugin becomes an error, so that
// the other placements are still undone. The pod's nodeName is cleared only after undo has run, because plugins
// reserved claims for the node that the action set there. preempt and reclaim set no node when they pipeline a task.
func takeBackOne(task *api.TaskInfo, undo func(*api.TaskInfo) error) (err error) {
	defer func() {
		task.Pod.Spec.NodeName = ""
		if p := recover(); p != nil {
			err = fmt.Errorf("a plugin panicked: %v", p)
		}
	}()
	task.GenerateLastTxContext() // the task's nominated node is derived from this context
	return undo(task)
}

// UndoPlacements undoes the placements of the session that was opened last, except placements of tasks that were handed
// over to be bound. It is used after a session has panicked, and so was not closed.
func (r *Registry) UndoPlacements() {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last != nil && last.Session != nil {
		undoPlacements(last)
	}
}
