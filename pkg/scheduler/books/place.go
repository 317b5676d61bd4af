// SPDX-License-Identifier: Apache-2.0

package books

import "volcano.sh/volcano/pkg/scheduler/api"

// book adds the record's task to its job, and to its node unless it has finished.
func (p *Pods) book(r *record) {
	task := r.task
	if task.Job != "" {
		p.jobs.of(task.Job).put(task)
	}
	if holdsNode(task) {
		put(p.nodes.of(task.NodeName).info, r.onNode())
	}
}

// strike removes the record's task from its job and from its node.
func (p *Pods) strike(r *record) {
	task := r.task
	if task == nil {
		return
	}
	if task.Job != "" {
		p.jobs.of(task.Job).removeTask(task)
	}
	if holdsNode(task) {
		p.nodes.of(task.NodeName).removeTask(task)
	}
}

// tidy drops the entries of the task's job and node if they are no longer needed.
func (p *Pods) tidy(task *api.TaskInfo) {
	if task != nil {
		p.jobs.tidy(task.Job)
		p.nodes.tidy(task.NodeName)
	}
}

func holdsNode(task *api.TaskInfo) bool {
	return task.NodeName != "" && !api.CompletedStatus(task.Status)
}

// put adds a copy of the task to the node, even if the node has no room left, because the task is on the node, or about
// to be.
func put(info *api.NodeInfo, task *api.TaskInfo) {
	status := task.Status
	if status == api.Binding {
		task.Status = api.Bound // upstream refuses a Binding task without room
	}
	err := withoutNUMA(info, func() error { return info.AddTask(task) })
	task.Status = status
	if err != nil {
		logger().Error(err, "Adding a task to its node failed", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
		return
	}
	info.Tasks[api.PodKey(task.Pod)].Status = status
}

// withoutNUMA calls f while the node has no NUMA topology. Otherwise upstream would count the NUMA nodes in the task's
// annotation, which everyone with write access to the pod may change: it panics on a resource that the topology lacks,
// and keeps the counts, which are not used here.
func withoutNUMA(info *api.NodeInfo, f func() error) error {
	numa := info.NumaInfo
	info.NumaInfo = nil
	defer func() { info.NumaInfo = numa }()
	return f()
}
