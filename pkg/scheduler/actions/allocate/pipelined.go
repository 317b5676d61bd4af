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

// takeBack makes members pending again that preempt or reclaim pipelined without an eviction for their gang or its group. These actions may run before
// allocate, and also pipeline members on nodes whose resources are idle, or are being released for another reason. Such members would not be bound
// while that repeats in each session, and would hold idle resources without bound. allocate places them itself.
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
		// The pod has a node if allocate, which may run twice, pipelined the task. Event handlers release the claims reserved there. Other actions
		// set none, and nothing is reserved: plugins would release what they have reserved for other pods since.
		if err := statement.UnPipeline(task); err != nil {
			klog.ErrorS(err, "Reverting a placement failed", "pod", klog.KObj(task.Pod))
		}
		task.Pod.Spec.NodeName = ""
	}
}

// evictsForIt reports whether pods were evicted for members of the job in this session.
func evictsForIt(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pipelined] {
		if task.EvictionOccurred {
			return true
		}
	}
	return false
}
