// SPDX-License-Identifier: Apache-2.0

package books

import "volcano.sh/volcano/pkg/scheduler/api"

// exact is the sum of a resource up to which float64 adds up whole numbers without loss. A tenant may write more into a pod. Beside it smaller
// amounts are lost, so the sum that is left when a task goes has to be added up again; upstream panics when it subtracts more than there is.
const exact = 1 << 52

// take takes the task out of the job.
func (j *job) take(task *api.TaskInfo) {
	info := j.info
	lossy := large(info.TotalRequest)
	if lossy {
		info.TotalRequest, info.Allocated = task.Resreq.Clone(), task.Resreq.Clone()
	}
	within := info.TaskToSubJob[task.UID]
	if err := info.DeleteTaskInfo(task); err != nil {
		logger().Error(err, "Taking a task out of its job", "pod", task.Namespace+"/"+task.Name)
	}
	if sub := info.SubJobs[within]; sub != nil && len(sub.Tasks) == 0 {
		j.emptied = append(j.emptied, within)
	}
	if !lossy {
		return
	}
	info.TotalRequest, info.Allocated = api.EmptyResource(), api.EmptyResource()
	for _, other := range info.Tasks {
		info.TotalRequest.Add(other.Resreq)
		if api.AllocatedStatus(other.Status) {
			info.Allocated.Add(other.Resreq)
		}
	}
}

// take takes the task off the node.
func (n *node) take(task *api.TaskInfo) {
	info := n.info
	lossy := large(info.Used)
	if lossy {
		info.Used, info.Releasing = task.Resreq.Clone(), task.Resreq.Clone()
	}
	if err := withoutUnknownNUMA(info, task, func() error { return info.RemoveTask(task) }); err != nil {
		logger().Error(err, "Taking a task off its node", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
	}
	if lossy {
		n.rebuild(info.Node)
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
