// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// takeBack resets pipelined members to Pending if preempt or reclaim pipelined them without evicting a pod for their
// gang or gang group. These actions may run before allocate, and pipeline members also on nodes whose resources are
// idle, or are released for another reason. If that repeats in each session, such members are never bound and hold idle
// resources without limit. So allocate places them itself.
func takeBack(ssn *framework.Session) {
	var pipelined []*api.TaskInfo
	for _, job := range ssn.Jobs {
		if len(job.TaskStatusIndex[api.Pipelined]) == 0 || slices.ContainsFunc(state.Together(ssn, job), evictsForIt) {
			continue
		}
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			pipelined = append(pipelined, task)
		}
	}
	statement := vcframework.NewStatement(ssn.Session)
	for _, task := range pipelined {
		// UnPipeline calls event handlers, which release the claims that are reserved for a pod with a node. If
		// allocate pipelined the task earlier in this session, the pod has a node and its claims are reserved. Other
		// actions set no node and reserve nothing. For their tasks, no node is set here either. With a node, the event
		// handlers would release claims that are reserved for other pods.
		if err := statement.UnPipeline(task); err != nil {
			klog.ErrorS(err, "Reverting a placement failed", "pod", klog.KObj(task.Pod))
		}
		task.Pod.Spec.NodeName = ""
	}
}

// evictsForIt reports whether pods were evicted in this session for members of the job.
func evictsForIt(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pipelined] {
		if task.EvictionOccurred {
			return true
		}
	}
	return false
}
