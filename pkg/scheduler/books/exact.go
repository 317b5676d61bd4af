// SPDX-License-Identifier: Apache-2.0

package books

import "volcano.sh/volcano/pkg/scheduler/api"

// exact is the sum of a resource up to which float64 adds up whole numbers without loss. A tenant may write more into a pod. Beside it smaller
// amounts are lost, so the sum that is left when a task goes has to be added up again; upstream panics when it subtracts more than there is.
const exact = 1 << 52

// put enters the task in the job. What the tasks of an entry request together is not kept: a copy adds up its own.
func (j *job) put(task *api.TaskInfo) {
	j.info.AddTaskInfo(task)
	j.info.TotalRequest, j.info.Allocated = api.EmptyResource(), api.EmptyResource()
}

// take takes the task out of the job. Upstream subtracts what it requests, so that is the sum meanwhile.
func (j *job) take(task *api.TaskInfo) {
	info := j.info
	info.TotalRequest, info.Allocated = task.Resreq.Clone(), task.Resreq.Clone()
	within := info.TaskToSubJob[task.UID]
	if err := info.DeleteTaskInfo(task); err != nil {
		logger().Error(err, "Taking a task out of its job", "pod", task.Namespace+"/"+task.Name)
	}
	info.TotalRequest, info.Allocated = api.EmptyResource(), api.EmptyResource()
	if sub := info.SubJobs[within]; sub != nil && len(sub.Tasks) == 0 {
		j.emptied = append(j.emptied, within)
	}
}

// take takes the task off the node. Sums from which something was lost are added up again before they are read (countNode), and not with each event.
func (n *node) take(task *api.TaskInfo) {
	info := n.info
	n.inexact = n.inexact || large(info.Used)
	if n.inexact {
		info.Used, info.Releasing = task.Resreq.Clone(), task.Resreq.Clone()
	}
	if err := withoutNUMA(info, func() error { return info.RemoveTask(task) }); err != nil {
		logger().Error(err, "Taking a task off its node", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
	}
}

func large(r *api.Resource) bool {
	if r.MilliCPU >= exact || r.Memory >= exact {
		return true
	}
	for _, amount := range r.ScalarResources {
		if amount >= exact {
			return true
		}
	}
	return false
}
