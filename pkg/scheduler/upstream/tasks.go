// SPDX-License-Identifier: Apache-2.0

package upstream

import "volcano.sh/volcano/pkg/scheduler/api"

// exact is the largest sum of resources that float64 adds up exactly. A tenant may request more in a pod. The sum then
// loses smaller amounts, so it must be recomputed when a task is removed: upstream panics when it subtracts more than
// the sum.
const exact = 1 << 52

// AddToJob adds the task to the job, and clears the job's sums of requested and allocated resources. Clone computes
// the sums of a copy from its tasks.
func AddToJob(job *api.JobInfo, task *api.TaskInfo) {
	job.AddTaskInfo(task)
	job.TotalRequest, job.Allocated = api.EmptyResource(), api.EmptyResource()
}

// RemoveFromJob removes a task that AddToJob has added. The job's sums of requested and allocated resources are empty
// before and after it. Upstream subtracts the task's request from them, so RemoveFromJob first sets them to that
// request. It returns the sub-job that lost its last task, which upstream keeps; empty if there is none.
func RemoveFromJob(job *api.JobInfo, task *api.TaskInfo) (emptied api.SubJobID, err error) {
	job.TotalRequest, job.Allocated = task.Resreq.Clone(), task.Resreq.Clone()
	within := job.TaskToSubJob[task.UID]
	err = job.DeleteTaskInfo(task)
	job.TotalRequest, job.Allocated = api.EmptyResource(), api.EmptyResource()
	if sub := job.SubJobs[within]; sub != nil && len(sub.Tasks) == 0 {
		emptied = within
	}
	return emptied, err
}

// AddToNode adds a copy of the task to the node, even if the node lacks the resources.
func AddToNode(node *api.NodeInfo, task *api.TaskInfo) error {
	status := task.Status
	if status == api.Binding {
		task.Status = api.Bound // upstream refuses a task in status Binding if the node lacks resources
	}
	err := withoutNUMA(node, func() error { return node.AddTask(task) })
	task.Status = status
	if err != nil {
		return err
	}
	node.Tasks[api.PodKey(task.Pod)].Status = status
	return nil
}

// RemoveFromNode removes the task from the node. It reports whether the node's sums of resources are inexact, so that
// the caller must recompute them from the tasks before it reads them. wereInexact reports whether they were inexact
// before, and have not been recomputed since.
func RemoveFromNode(node *api.NodeInfo, task *api.TaskInfo, wereInexact bool) (inexact bool, err error) {
	inexact = wereInexact || large(node.Used)
	if inexact {
		node.Used, node.Releasing = task.Resreq.Clone(), task.Resreq.Clone()
	}
	return inexact, withoutNUMA(node, func() error { return node.RemoveTask(task) })
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

// withoutNUMA calls f while the node's NUMA topology is hidden. Otherwise upstream would count the NUMA nodes in the
// task's annotation, which any user with write access to the pod may change. Upstream panics if the annotation has a
// resource that the topology lacks. These counts are not needed here.
func withoutNUMA(node *api.NodeInfo, f func() error) error {
	numa := node.NumaInfo
	node.NumaInfo = nil
	defer func() { node.NumaInfo = numa }()
	return f()
}
