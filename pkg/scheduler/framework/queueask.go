// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// QueueAsk asks whether a queue would admit tasks together if tasks that count in queues now were gone, and others counted.
type QueueAsk struct {
	Queue       *api.QueueInfo
	Tasks, Gone []*api.TaskInfo
	// request is the sum of the tasks' requests. freed is the resources of the gone tasks, and more those of the others, by each queue that
	// counts them.
	request     *api.Resource
	freed, more map[api.QueueID]*api.Resource
}

// Ask returns an ask without tasks. A gone task that is charged to no queue (ChargedTo) frees nothing.
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

// AskFor returns the ask for which Admits handed the task to a plugin, or an ask for the task alone.
func (u *QueueUse) AskFor(queue *api.QueueInfo, task *api.TaskInfo) *QueueAsk {
	if u.asked != nil && u.askedBy == task {
		return u.asked
	}
	return u.Ask(queue, nil).With(task)
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

// Beside returns an ask in which the queues also count these resources.
func (a *QueueAsk) Beside(more map[api.QueueID]*api.Resource) *QueueAsk {
	beside := *a
	beside.more = more
	return &beside
}

// freedIn returns how much less of the resource the queue would count.
func (a *QueueAsk) freedIn(id api.QueueID, name v1.ResourceName) (amount float64) {
	if freed := a.freed[id]; freed != nil {
		amount += freed.Get(name)
	}
	if more := a.more[id]; more != nil {
		amount -= more.Get(name)
	}
	return amount
}

// Levels returns the queues in whose limits the plugins count the queue's tasks, the queue first.
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

// Admits reports whether all plugins that limit queues admit the tasks, of which there is at least one. The plugins get a copy of the first task.
// Its request is the sum of the requests minus what is freed. Where queues are nested, that differs from queue to queue; the request is then the
// least, and Admits checks the capability of each queue itself. Plugins that do not count by requests call Asked.
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

// leastRequest returns the request of the ask minus, of each resource that is requested, the most that is freed in one of the queues.
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

// Exceeds reports whether the ask exceeds the capability of one of the queues that count the tasks.
func (u *QueueUse) Exceeds(ask *QueueAsk) bool {
	return slices.ContainsFunc(u.Levels(ask.Queue.UID), func(id api.QueueID) bool { return u.exceeds(id, ask) })
}

// exceeds reports whether the ask exceeds the capability of the queue itself.
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

// Asked returns the tasks for which the task stands when Admits hands it to a plugin, and the gone tasks. Any other task stands for itself. The tasks
// that leave for the task (LeaveFor) are gone in both cases.
func (u *QueueUse) Asked(task *api.TaskInfo) (tasks, gone []*api.TaskInfo) {
	if u.leaving != nil {
		gone = u.leaving(task)
	}
	if u.asked == nil || u.askedBy != task {
		return []*api.TaskInfo{task}, gone
	}
	for _, of := range u.asked.Gone { // a victim may be on a node that is reserved for the gang
		if !slices.ContainsFunc(gone, func(other *api.TaskInfo) bool { return other.UID == of.UID }) {
			gone = append(gone, of)
		}
	}
	return u.asked.Tasks, gone
}

// LeaveFor sets which tasks, which the session discharged (Discharge), leave for the gang of a task, so that plugins that do not count by requests
// leave them out for that gang alone. The caller owns what leaving returns.
func (u *QueueUse) LeaveFor(leaving func(task *api.TaskInfo) []*api.TaskInfo) { u.leaving = leaving }
