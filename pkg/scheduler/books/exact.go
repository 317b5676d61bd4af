// SPDX-License-Identifier: Apache-2.0

package books

import "volcano.sh/volcano/pkg/scheduler/api"

// exact is the largest sum of resources that float64 adds up exactly. A tenant may request more in a pod. The sum then
// loses smaller amounts, so it must be recomputed when a task is removed: upstream panics when it subtracts more than
// the sum.
const exact = 1 << 52

// put adds the task to the job, and clears the job's sums of requested and allocated resources. The books do not
// maintain these sums, because each copy of the job computes its own.
func (j *job) put(task *api.TaskInfo) {
	j.info.AddTaskInfo(task)
	j.info.TotalRequest, j.info.Allocated = api.EmptyResource(), api.EmptyResource()
}

// removeTask removes the task from the job. The job's sums of requested and allocated resources are always empty in the
// books. Upstream subtracts the task's request from them, so removeTask first sets them to that request.
func (j *job) removeTask(task *api.TaskInfo) {
	info := j.info
	info.TotalRequest, info.Allocated = task.Resreq.Clone(), task.Resreq.Clone()
	within := info.TaskToSubJob[task.UID]
	if err := info.DeleteTaskInfo(task); err != nil {
		logger().Error(err, "Removing a task from its job failed", "pod", task.Namespace+"/"+task.Name)
	}
	info.TotalRequest, info.Allocated = api.EmptyResource(), api.EmptyResource()
	if sub := info.SubJobs[within]; sub != nil && len(sub.Tasks) == 0 {
		j.emptied = append(j.emptied, within)
	}
}

// removeTask removes the task from the node of the entry. If float64 cannot hold the node's sum of used resources exactly,
// removeTask marks the sums as inexact. countNode then recomputes them before they are read, and not at each event.
func (n *Nodes) removeTask(e *node, task *api.TaskInfo) {
	info := e.info
	if n.inexact[info.Name] || large(info.Used) {
		n.inexact[info.Name] = true
		info.Used, info.Releasing = task.Resreq.Clone(), task.Resreq.Clone()
	}
	if err := withoutNUMA(info, func() error { return info.RemoveTask(task) }); err != nil {
		logger().Error(err, "Removing a task from its node failed", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
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
