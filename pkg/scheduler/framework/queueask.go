// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// QueueAsk asks whether a queue would admit tasks together if tasks that count in queues now were gone.
type QueueAsk struct {
	Queue       *api.QueueInfo
	Tasks, Gone []*api.TaskInfo
	// request is the sum of the tasks' requests, and freed the resources of the gone tasks, by each queue that counts them.
	request *api.Resource
	freed   map[api.QueueID]*api.Resource
}

// Ask returns an ask without tasks. A gone task that is charged to no queue (ChargedTo) frees nothing.
func (u *QueueUse) Ask(queue *api.QueueInfo, gone []*api.TaskInfo) *QueueAsk {
	ask := &QueueAsk{Queue: queue, Gone: gone, request: api.EmptyResource(), freed: map[api.QueueID]*api.Resource{}}
	for _, task := range gone {
		job := ChargedTo(u.upstream.Jobs, task)
		if job == nil {
			continue
		}
		for _, id := range u.levels(job.Queue) {
			if ask.freed[id] == nil {
				ask.freed[id] = api.EmptyResource()
			}
			ask.freed[id].Add(task.Resreq)
		}
	}
	return ask
}

// With returns an ask for these tasks too, which come first.
func (a *QueueAsk) With(tasks ...*api.TaskInfo) *QueueAsk {
	with := *a
	with.Tasks, with.request = slices.Concat(tasks, a.Tasks), a.request.Clone()
	for _, task := range tasks {
		with.request.Add(task.Resreq)
	}
	return &with
}

// levels returns the queues in whose limits the plugins count the queue's tasks, the queue first.
func (u *QueueUse) levels(queue api.QueueID) []api.QueueID {
	if !u.nested {
		return []api.QueueID{queue}
	}
	path := u.Path(queue)
	if !slices.Contains(path, rootQueue) { // upstream puts a queue without a parent under the root
		path = append(path, rootQueue)
	}
	return path
}

// Admits reports whether all plugins that limit queues admit the tasks, of which there is at least one. The plugins get a copy of the first task.
// Its request is the sum of the requests minus the resources that the gone tasks free in the topmost queue. Where queues are nested, that may be
// too much for a queue below, so Admits checks the capability of each queue itself. Plugins that do not count by requests call Asked.
func (u *QueueUse) Admits(ask *QueueAsk) bool {
	levels := u.levels(ask.Queue.UID)
	if u.nested && slices.ContainsFunc(levels, func(id api.QueueID) bool { return u.exceeds(id, ask) }) {
		return false
	}
	request := ask.request.Clone()
	if freed := ask.freed[levels[len(levels)-1]]; freed != nil {
		request.SubWithoutAssert(freed)
	}
	return u.pose(ask, ask.Tasks[0], request)
}

// AdmitsAs reports whether all plugins admit the task with another request. It stands for the same tasks as before.
func (u *QueueUse) AdmitsAs(queue *api.QueueInfo, task *api.TaskInfo, request *api.Resource) bool {
	tasks, gone := u.Asked(task)
	return u.pose(&QueueAsk{Queue: queue, Tasks: tasks, Gone: gone}, task, request)
}

// pose hands plugins a copy of the task with the request.
func (u *QueueUse) pose(ask *QueueAsk, task *api.TaskInfo, request *api.Resource) bool {
	one := *task
	one.Resreq, one.InitResreq = request, request
	outer, by := u.asked, u.askedBy
	u.asked, u.askedBy = ask, &one
	defer func() { u.asked, u.askedBy = outer, by }()
	return u.upstream.Allocatable(ask.Queue, &one)
}

// exceeds reports whether the ask exceeds the capability of the queue itself.
func (u *QueueUse) exceeds(id api.QueueID, ask *QueueAsk) bool {
	queue := u.upstream.Queues[id]
	if queue == nil || len(queue.Queue.Spec.Capability) == 0 {
		return false
	}
	u.count()
	capability, freed := api.NewResource(queue.Queue.Spec.Capability), ask.freed[id]
	if freed == nil {
		freed = api.EmptyResource()
	}
	return slices.ContainsFunc(resourceNames(ask.request), func(name v1.ResourceName) bool {
		_, limited := queue.Queue.Spec.Capability[name]
		return limited && u.of(id).Get(name)-freed.Get(name)+ask.request.Get(name) > capability.Get(name)
	})
}

// Asked returns the tasks for which the task stands when Admits hands it to a plugin, and the gone tasks. Any other task stands for itself.
func (u *QueueUse) Asked(task *api.TaskInfo) (tasks, gone []*api.TaskInfo) {
	if u.asked != nil && u.askedBy == task {
		return u.asked.Tasks, u.asked.Gone
	}
	return []*api.TaskInfo{task}, nil
}
