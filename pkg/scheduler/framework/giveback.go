// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// HasClaims tells whether volumes or devices are claimed for the pod, which plugins reserve for it when it is placed.
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

// giveBack takes back the placements that no action took back and that were not handed over to be bound: a task whose
// gang backfill could not complete, one that the cache refused, one that waits for room. What plugins reserved for its
// claims would stay reserved for as long as the scheduler runs. Of tasks without claims nothing is held beyond the session but by
// Reservers, which know of what.
func (ssn *Session) giveBack() {
	defer ssn.reservers.giveBack() // what no event told of
	statement := vcframework.NewStatement(ssn.Session)
	takeBack := map[api.TaskStatus]func(*api.TaskInfo) error{api.Allocated: statement.UnAllocate, api.Pipelined: statement.UnPipeline}
	for _, job := range ssn.Jobs {
		for status, undo := range takeBack {
			for _, task := range job.TaskStatusIndex[status] {
				if !HasClaims(task.Pod) {
					continue
				}
				if err := takeBackOne(task, undo); err != nil {
					klog.Background().Error(err, "Taking back a placement failed", "pod", klog.KObj(task.Pod))
				}
			}
		}
	}
}

// takeBackOne takes back one placement; a panic in a plugin is an error, so that the others are taken back too.
func takeBackOne(task *api.TaskInfo, undo func(*api.TaskInfo) error) (err error) {
	defer func() {
		task.Pod.Spec.NodeName = ""
		if p := recover(); p != nil {
			err = fmt.Errorf("a plugin panicked: %v", p)
		}
	}()
	task.GenerateLastTxContext() // the node it is nominated to is told from that
	task.Pod.Spec.NodeName = task.NodeName
	return undo(task)
}

// GiveBack takes back what the session that was opened last and not closed has placed and not handed over to be bound. It
// is for a session that panicked, of which nothing else is closed.
func (r *Registry) GiveBack() {
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last != nil && last.Session != nil {
		last.giveBack()
	}
}
