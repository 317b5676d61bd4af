// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// QueueAsk is a question to the plugins that limit queues: would the queue admit Tasks together if the tasks in Gone,
// which queues now count, no longer existed?
type QueueAsk struct {
	Queue       *api.QueueInfo
	Tasks, Gone []*api.TaskInfo
	// request is the sum of the requests of Tasks. freed is, for each queue, the sum of the requests of those tasks in
	// Gone that the queue counts. more is, for each queue, the resources that the queue counts in addition to its use
	// (Beside).
	request     *api.Resource
	freed, more map[api.QueueID]*api.Resource
}

// Ask returns a QueueAsk for the queue, without tasks to admit. gone are the tasks that are assumed not to exist. A
// task in gone that no queue counts (ChargedTo) frees no resources.
func (u *QueueUse) Ask(queue *api.QueueInfo, gone []*api.TaskInfo) *QueueAsk {
	ask := &QueueAsk{Queue: queue, Gone: gone, request: api.EmptyResource(), freed: map[api.QueueID]*api.Resource{}}
	for _, task := range gone {
		job := ChargedTo(u.upstream.Jobs, task)
		if job == nil {
			continue
		}
		for _, id := range u.Levels(job.Queue) {
			if ask.freed[id] == nil {
				ask.freed[id] = api.EmptyResource()
			}
			ask.freed[id].Add(task.Resreq)
		}
	}
	return ask
}

// AskFor returns the question that a plugin must answer about the task. While Admits calls plugins with exactly this
// task, it is the QueueAsk that was passed to Admits. Otherwise it is a QueueAsk for this task alone.
func (u *QueueUse) AskFor(queue *api.QueueInfo, task *api.TaskInfo) *QueueAsk {
	if u.asked != nil && u.askedBy == task {
		return u.asked
	}
	return u.Ask(queue, nil).With(task)
}

// With returns a copy of the QueueAsk with the given tasks in Tasks, before the tasks that Tasks already has.
func (a *QueueAsk) With(tasks ...*api.TaskInfo) *QueueAsk {
	with := *a
	with.Tasks, with.request = slices.Concat(tasks, a.Tasks), a.request.Clone()
	for _, task := range tasks {
		with.request.Add(task.Resreq)
	}
	return &with
}

// Beside returns a copy of the QueueAsk in which each queue counts, in addition to its use, the resources that the
// parameter `more` has for it.
func (a *QueueAsk) Beside(more map[api.QueueID]*api.Resource) *QueueAsk {
	beside := *a
	beside.more = more
	return &beside
}

// freedIn returns by how much the queue's use of the resource would fall if the tasks in Gone did not exist. It
// subtracts the amount that the queue counts in addition (Beside), so it may be negative.
func (a *QueueAsk) freedIn(id api.QueueID, name v1.ResourceName) (amount float64) {
	if freed := a.freed[id]; freed != nil {
		amount += freed.Get(name)
	}
	if more := a.more[id]; more != nil {
		amount -= more.Get(name)
	}
	return amount
}

// Levels returns the queues whose limits apply to tasks of the queue: the queue itself first, and then, if queues are
// nested, its ancestors.
func (u *QueueUse) Levels(queue api.QueueID) []api.QueueID {
	if !u.nested {
		return []api.QueueID{queue}
	}
	path := u.Path(queue)
	if !slices.Contains(path, rootQueue) { // upstream puts a queue without a parent under the root
		path = append(path, rootQueue)
	}
	return path
}

// Admits reports whether all plugins that limit queues admit the tasks of the QueueAsk, which must have at least one
// task. The plugins are called with a copy of the first task, whose request is the sum of all requests minus what the
// tasks in Gone free. If queues are nested, this amount differs from queue to queue. The copy then has the smallest
// request (leastRequest), and Admits itself checks the capability of each queue. Plugins that need the single tasks
// call Asked.
func (u *QueueUse) Admits(ask *QueueAsk) bool {
	levels := u.Levels(ask.Queue.UID)
	if u.nested && u.Exceeds(ask) {
		return false
	}
	one := *ask.Tasks[0]
	one.Resreq = leastRequest(ask, levels)
	one.InitResreq = one.Resreq
	outer, by := u.asked, u.askedBy
	u.asked, u.askedBy = ask, &one
	defer func() { u.asked, u.askedBy = outer, by }()
	return u.upstream.Allocatable(ask.Queue, &one)
}

// leastRequest returns the smallest request that the queues must admit: the sum of the requests of Tasks minus, for
// each resource, the largest amount that Gone frees in any of the queues (freedIn).
func leastRequest(ask *QueueAsk, queues []api.QueueID) *api.Resource {
	least := ask.request.Clone()
	for _, name := range least.ResourceNames() {
		most := math.Inf(-1)
		for _, id := range queues {
			most = max(most, ask.freedIn(id, name))
		}
		switch name {
		case v1.ResourceCPU:
			least.MilliCPU -= most
		case v1.ResourceMemory:
			least.Memory -= most
		default:
			least.ScalarResources[name] -= most
		}
	}
	return least
}

// Exceeds reports whether the queue of the QueueAsk, or an ancestor that also counts its tasks, would exceed its own
// capability if it admitted the tasks.
func (u *QueueUse) Exceeds(ask *QueueAsk) bool {
	return slices.ContainsFunc(u.Levels(ask.Queue.UID), func(id api.QueueID) bool { return u.exceeds(id, ask) })
}

// exceeds reports whether the use of the queue with this ID would exceed its own capability if it admitted the tasks.
func (u *QueueUse) exceeds(id api.QueueID, ask *QueueAsk) bool {
	queue := u.upstream.Queues[id]
	if queue == nil || len(queue.Queue.Spec.Capability) == 0 {
		return false
	}
	u.count()
	capability := api.NewResource(queue.Queue.Spec.Capability)
	return slices.ContainsFunc(resourceNames(ask.request), func(name v1.ResourceName) bool {
		_, limited := queue.Queue.Spec.Capability[name]
		return limited && u.of(id).Get(name)-ask.freedIn(id, name)+ask.request.Get(name) > capability.Get(name)
	})
}

// Asked returns the tasks that a plugin must consider when it is called with the given task. If Admits made the call,
// tasks are the tasks to admit, and gone includes the tasks that are assumed not to exist. Otherwise tasks is only the
// given task. In both cases gone also includes the tasks that give way to the gang of the given task (EvictionTracker).
func (u *QueueUse) Asked(task *api.TaskInfo) (tasks, gone []*api.TaskInfo) {
	gone = u.leaving(task)
	if u.asked == nil || u.askedBy != task {
		return []*api.TaskInfo{task}, gone
	}
	for _, of := range u.asked.Gone { // leaving may also have returned this task: a victim of the given task's gang, on a node that is reserved for that gang
		if !slices.ContainsFunc(gone, func(other *api.TaskInfo) bool { return other.UID == of.UID }) {
			gone = append(gone, of)
		}
	}
	return u.asked.Tasks, gone
}
