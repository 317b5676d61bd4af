// SPDX-License-Identifier: Apache-2.0

package books

import "volcano.sh/volcano/pkg/scheduler/api"

// book enters the task in its job, and on its node unless it has finished.
func (p *Pods) book(task *api.TaskInfo) {
	if task.Job != "" {
		p.jobs.of(task.Job).put(task)
	}
	if holdsNode(task) {
		put(p.nodes.of(task.NodeName).info, task)
	}
}

// strike takes the record's task out of its job and off its node.
func (p *Pods) strike(r *record) {
	task := r.task
	if task == nil {
		return
	}
	if task.Job != "" {
		p.jobs.of(task.Job).take(task)
	}
	if holdsNode(task) {
		p.nodes.of(task.NodeName).take(task)
	}
}

// tidy drops the entries of the task's job and node if nothing is left of them.
func (p *Pods) tidy(task *api.TaskInfo) {
	if task != nil {
		p.jobs.tidy(task.Job)
		p.nodes.tidy(task.NodeName)
	}
}

func holdsNode(task *api.TaskInfo) bool {
	return task.NodeName != "" && !api.CompletedStatus(task.Status)
}

// put enters a copy of the task on the node, also if the node has no room left: the task is there, or is about to be.
func put(info *api.NodeInfo, task *api.TaskInfo) {
	status := task.Status
	if status == api.Binding {
		task.Status = api.Bound // upstream refuses a Binding task without room
	}
	err := withoutUnknownNUMA(info, task, func() error { return info.AddTask(task) })
	task.Status = status
	if err != nil {
		logger().Error(err, "Entering a task on its node", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
		return
	}
	info.Tasks[api.PodKey(task.Pod)].Status = status
}

// withoutUnknownNUMA calls f. While it does the node has no NUMA topology if the task was given a resource that the topology does not
// have: upstream panics at such a task.
func withoutUnknownNUMA(info *api.NodeInfo, task *api.TaskInfo, f func() error) error {
	if info.NumaInfo == nil {
		return f()
	}
	for _, resources := range api.GetPodResourceNumaInfo(task) {
		for name := range resources {
			if info.NumaInfo.NumaResMap[string(name)] == nil {
				numa := info.NumaInfo
				info.NumaInfo = nil
				defer func() { info.NumaInfo = numa }()
				return f()
			}
		}
	}
	return f()
}
