// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// reservation is what the books owe a member of a transaction: its task is Binding on the member's node until the engine
// says what became of it, and Bound from then on, if it was bound, until the watch shows that.
//
//	                      Bound             the watch shows the pod on a node, or its end
//	reserve ──► Binding ─────────► Bound ───────────────────────────────────────────────► over
//	               │ Released
//	               └──────► over: the task is what the watch shows
//
// Upstream's cache, whose handlers of the watch know nothing of transactions, does other things to such tasks: one whose
// pod comes to name another PodGroup is taken off its node, and is Pending in its new job; a node that is registered
// anew has nobody on it. So nothing here relies on what was booked before. The reservation says what is due, and mend
// makes it so, in the critical section in which somebody acts on the books: a snapshot, another reservation, the outcome.
type reservation struct {
	member *binding.Member
	uid    api.TaskID
	key    api.TaskID // of the pod, as nodes know it
	node   string
	// status is Binding or Bound.
	status api.TaskStatus
	// decided are the annotations that the session decided on, from which upstream tells what devices are taken; the
	// books have a copy of the pod with them. pod is the one that the watch showed.
	decided map[string]string
	numa    *api.TopologyInfo
	pod     *v1.Pod
	// task is the cache's own, when it was booked last.
	task *api.TaskInfo
}

// marked is the pod as the books have it.
func (r *reservation) marked(pod *v1.Pod) *v1.Pod {
	if len(r.decided) == 0 {
		return pod
	}
	marked := *pod
	marked.Annotations = maps.Clone(pod.Annotations)
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	maps.Copy(marked.Annotations, r.decided)
	return &marked
}

// mend makes the books of the reservation's task what is due, whatever became of them. Those of a pod that is gone, or
// that the watch shows on a node, are upstream's, and the reservation is over once the engine agrees.
// The cache's mutex is held.
func (c *Cache) mend(r *reservation) {
	job, task := c.reservedTask(r)
	if task == nil || task.Pod.Spec.NodeName != "" {
		vacated := c.vacate(r)
		switch { // upstream did not take what was on its node already, or another pod of its name there
		case task != nil && (vacated || job == nil):
			c.rebook(task.Pod)
		case task == nil && vacated:
			c.bookSuccessor(r)
		}
		if r.status == api.Bound {
			delete(c.reserved, r.key)
		}
		return
	}
	if task != r.task {
		r.pod, r.task = task.Pod, task
		task.Pod, task.NumaInfo = r.marked(task.Pod), r.numa.Clone()
	}
	if job != nil && task.Status != r.status {
		if err := job.UpdateTaskStatus(task, r.status); err != nil {
			logger().Error(err, "Booking a task that is being bound", "pod", string(r.key))
		}
	}
	task.NodeName = r.node
	if node := c.Nodes[r.node]; node != nil && !r.isOn(node) {
		c.vacate(r)
		occupy(node, task)
	}
}

// reservedTask finds the task, and its job; nil when the pod is gone. The PodGroup that the pod names may be another one by
// now, and another yet the one that upstream's cache was told last. When it names none, or upstream's cache has lost it on
// the way, the task is in no job, and its node's all the same.
func (c *Cache) reservedTask(r *reservation) (*api.JobInfo, *api.TaskInfo) {
	if job := c.Jobs[r.task.Job]; job != nil && job.Tasks[r.uid] != nil {
		return job, job.Tasks[r.uid]
	}
	pod := c.watched(r.pod)
	if pod == nil {
		return nil, nil
	}
	if job := c.Jobs[gangOf(pod)]; job != nil && job.Tasks[r.uid] != nil {
		return job, job.Tasks[r.uid]
	}
	if pod.ResourceVersion == r.pod.ResourceVersion {
		return nil, r.task
	}
	for _, job := range c.Jobs {
		if task := job.Tasks[r.uid]; task != nil {
			return job, task
		}
	}
	return nil, api.NewTaskInfo(ownPod(pod))
}

// bookSuccessor books the pod that the watch shows on the reservation's node by the name of its own, which is gone.
func (c *Cache) bookSuccessor(r *reservation) {
	latest, err := c.SharedInformerFactory().Core().V1().Pods().Lister().Pods(r.pod.Namespace).Get(r.pod.Name)
	if err == nil && latest.Spec.NodeName == r.node {
		c.rebook(latest)
	}
}

// isOn is true if the node has the task as the reservation wants it.
func (r *reservation) isOn(node *api.NodeInfo) bool {
	on := node.Tasks[r.key]
	return on != nil && on.Pod == r.task.Pod
}

// vacate takes the reservation's own copy of the task off its node. What the watch put there stays: its pod has the node's
// name. Any other is the reservation's, of which there is one for the pods of a name.
func (c *Cache) vacate(r *reservation) bool {
	node := c.Nodes[r.node]
	if node == nil {
		return false
	}
	on := node.Tasks[r.key]
	if on == nil || on.Pod.Spec.NodeName != "" {
		return false
	}
	takeOff(node, on)
	return true
}

// occupy puts the task on the node even if there is no room, as for one that is there already: it may be bound any
// moment. It stays off a node that has another pod of its name.
func occupy(node *api.NodeInfo, task *api.TaskInfo) {
	due := task.Status
	task.Status, task.NodeName = api.Bound, node.Name
	if err := node.AddTask(task); err != nil {
		logger().Error(err, "Booking a task on its node", "pod", task.Namespace+"/"+task.Name, "node", node.Name)
	}
	task.Status = due
}

func takeOff(node *api.NodeInfo, task *api.TaskInfo) {
	if err := node.RemoveTask(task); err != nil {
		logger().Error(err, "Taking a task off its node", "pod", task.Namespace+"/"+task.Name, "node", node.Name)
	}
}
