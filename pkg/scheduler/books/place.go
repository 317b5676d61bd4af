// SPDX-License-Identifier: Apache-2.0

package books

import "volcano.sh/volcano/pkg/scheduler/api"

// book adds the record's task to its job, and to its node unless the task has ended.
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
		p.nodes.removeTask(p.nodes.of(task.NodeName), task)
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

// put adds a copy of the task to the node, even if the node lacks the resources, because the pod is already on the node
// or about to be bound to it.
func put(info *api.NodeInfo, task *api.TaskInfo) {
	status := task.Status
	if status == api.Binding {
		task.Status = api.Bound // upstream refuses a task in status Binding if the node lacks resources
	}
	err := withoutNUMA(info, func() error { return info.AddTask(task) })
	task.Status = status
	if err != nil {
		logger().Error(err, "Adding a task to its node failed", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
		return
	}
	info.Tasks[api.PodKey(task.Pod)].Status = status
}

// withoutNUMA calls f while the node's NUMA topology is hidden. Otherwise upstream would count the NUMA nodes in the
// task's annotation, which any user with write access to the pod may change. Upstream panics if the annotation has a
// resource that the topology lacks. These counts are not needed here.
func withoutNUMA(info *api.NodeInfo, f func() error) error {
	numa := info.NumaInfo
	info.NumaInfo = nil
	defer func() { info.NumaInfo = numa }()
	return f()
}
