// SPDX-License-Identifier: Apache-2.0

package books

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// book adds the record's task to its job, and to its node unless the task has ended.
func (p *Pods) book(r *record) {
	task := r.task
	if task.Job != "" {
		upstream.AddToJob(p.jobs.of(task.Job).info, task)
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
	if err := upstream.AddToNode(info, task); err != nil {
		logger().Error(err, "Adding a task to its node failed", "pod", task.Namespace+"/"+task.Name, "node", info.Name)
	}
}

// removeTask removes the task from the node of the entry. If the node's sums are then inexact, countNode recomputes them
// before they are read, and not at each event.
func (n *Nodes) removeTask(e *node, task *api.TaskInfo) {
	inexact, err := upstream.RemoveFromNode(e.info, task, n.inexact[e.info.Name])
	if err != nil {
		logger().Error(err, "Removing a task from its node failed", "pod", task.Namespace+"/"+task.Name, "node", e.info.Name)
	}
	if inexact {
		n.inexact[e.info.Name] = true
	}
}

// removeTask removes the task from the job of the entry.
func (j *job) removeTask(task *api.TaskInfo) {
	emptied, err := upstream.RemoveFromJob(j.info, task)
	if err != nil {
		logger().Error(err, "Removing a task from its job failed", "pod", task.Namespace+"/"+task.Name)
	}
	if emptied != "" {
		j.emptied = append(j.emptied, emptied)
	}
}
