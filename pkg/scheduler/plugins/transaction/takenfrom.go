// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang whose members were evicted for other gangs is partially bound, too. Unlike other partially bound gangs, it is
// not placed first but waits in its usual order. Otherwise it would take the resources back before the gang of a higher
// priority gets them.
//
// The leader remembers its evictions. A new leader does not know why members are missing. So it compares two times that
// the API server writes and tenants cannot change: when pods were created and when they were bound. After a crash
// between two Bindings, the pending members were created before the first Binding. If such members do not complete the
// minimum, members were evicted, deleted or lost, and the gang waits in its usual order.

// Evicted implements framework.EvictionObserver. It records that an action has evicted a member of the gang.
func (p *plugin) Evicted(e framework.Eviction) {
	if e.Action != "" {
		p.memory.takenFrom[e.Task.Job] = true
	}
}

// keepTakenFrom removes the gangs that have their minimum again from takenFrom, the partially bound gangs whose members
// were evicted. It adds partially bound gangs that the last session did not have, unless a crash explains their state:
// gangs of a former leader, and gangs whose PodGroup was deleted and created again.
func (p *plugin) keepTakenFrom(jobs map[api.JobID]*api.JobInfo) {
	known := make(map[api.JobID]types.UID, len(jobs))
	for uid, job := range jobs {
		if job.PodGroup == nil {
			continue
		}
		known[uid] = job.PodGroup.UID
		switch before, same := p.memory.known[uid]; {
		case same && before == job.PodGroup.UID:
			if p.memory.takenFrom[uid] && binding.MinimumPlaced(job) {
				delete(p.memory.takenFrom, uid)
			}
		case (p.fellShort(job) != nil || p.groupFellShort(jobs, job) != nil) && !p.leftByCrash(jobs, job):
			p.memory.takenFrom[uid] = true
		default:
			delete(p.memory.takenFrom, uid)
		}
	}
	maps.DeleteFunc(p.memory.takenFrom, func(uid api.JobID, _ bool) bool { _, exists := known[uid]; return !exists })
	p.memory.known = known
}

// leftByCrash reports whether a crash between two Bindings can explain why the gang is partially bound. That is so if
// the members that hold nodes, together with pending members created before the first Binding, reach the minimum.
func (p *plugin) leftByCrash(jobs map[api.JobID]*api.JobInfo, job *api.JobInfo) bool {
	bound := placedTasks(job)
	for _, other := range p.boundWith(jobs, job) {
		bound = append(bound, placedTasks(other)...)
	}
	first, known := firstBind(bound)
	return binding.ShortOf(job, &job.PodGroup.Spec, func(task *api.TaskInfo) bool {
		return binding.Placed(task) || task.Status == api.Pending && (!known || !task.Pod.CreationTimestamp.After(first))
	}) == nil
}

// firstBind returns when the first of the tasks was bound; known is false if no pod has the time of its bind.
func firstBind(tasks []*api.TaskInfo) (first time.Time, known bool) {
	for _, task := range tasks {
		for _, c := range task.Pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && (!known || c.LastTransitionTime.Time.Before(first)) {
				first, known = c.LastTransitionTime.Time, true
			}
		}
	}
	return first, known
}
