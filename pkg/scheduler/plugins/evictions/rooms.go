// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"maps"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// rooms are of gangs that wait for their victims to terminate, in queues. A gang may hold resources of its queue that its victims still use, so that it
// need not wait for the last of them. For all others victims count until they are gone: otherwise a tenant could run any number of pods in its
// queue by evicting each with the next. Others see the larger of what the victims use and what the gang holds already.
type rooms struct {
	ssn *framework.Session
	of  map[api.JobID]*room
	// tiers are all plugins. An explanation asks them one by one. asking is true while they are asked about a task beside rooms.
	tiers  []conf.Tier
	asking bool
}

// room is of one gang: what its victims use, by queue, and what its nominees hold.
type room struct {
	queue    api.QueueID
	victims  map[api.QueueID]*api.Resource
	nominees map[api.TaskID]bool
	held     *api.Resource
}

// openRooms has the session count no victims of gangs whose claims last, and reserves their room for these gangs.
func (p *plugin) openRooms(ssn *framework.Session) {
	r := &rooms{ssn: ssn, of: map[api.JobID]*room{}, tiers: ssn.Tiers}
	now := time.Now()
	for _, gang := range slices.Sorted(maps.Keys(p.claims)) {
		c := p.claims[gang]
		if !now.Before(c.until) {
			continue
		}
		own := &room{queue: ssn.Jobs[gang].Queue, victims: map[api.QueueID]*api.Resource{}, nominees: c.nominees, held: api.EmptyResource()}
		for pod, of := range c.victims {
			if job, task := framework.Discharge(ssn.Jobs, of, pod); job != nil {
				own.add(job.Queue, task)
			}
		}
		if len(own.victims) == 0 {
			continue
		}
		for nominee := range c.nominees {
			if task := ssn.Jobs[gang].Tasks[nominee]; task != nil && api.AllocatedStatus(task.Status) {
				own.held.Add(task.Resreq)
			}
		}
		r.of[gang] = own
	}
	if len(r.of) == 0 {
		return
	}
	ssn.AddAllocatableFn(Name, r.allocatable)
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc: func(e *vcframework.Event) {
			if own := r.of[e.Task.Job]; own != nil && own.nominees[e.Task.UID] {
				own.held.Add(e.Task.Resreq)
			}
		},
		DeallocateFunc: func(e *vcframework.Event) {
			if own := r.of[e.Task.Job]; own != nil && own.nominees[e.Task.UID] {
				own.held.SubWithoutAssert(e.Task.Resreq)
			}
		},
	})
}

func (r *room) add(queue api.QueueID, victim *api.TaskInfo) {
	if r.victims[queue] == nil {
		r.victims[queue] = api.EmptyResource()
	}
	r.victims[queue].Add(victim.Resreq)
}

// allocatable reports whether the queue admits the task beside the rooms of other gangs.
func (r *rooms) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	if r.asking {
		return true
	}
	r.asking = true
	defer func() { r.asking = false }()
	admits := false
	r.ssn.WithTiers(r.tiers, func() { admits = r.ssn.QueueUse.AdmitsAs(queue, task, r.beside(queue.UID, task)) })
	return admits
}

// beside returns the task's request with, of the resources that it asks for, what victims of other gangs use in the queue, or in one that shares a
// parent with it.
func (r *rooms) beside(queue api.QueueID, task *api.TaskInfo) *api.Resource {
	request := task.Resreq.Clone()
	for gang, own := range r.of {
		if gang == task.Job || r.together(gang, task.Job) {
			continue
		}
		for of, used := range own.victims {
			if !r.ssn.QueueUse.ShareLimit(queue, of) {
				continue
			}
			used = used.Clone()
			if r.ssn.QueueUse.ShareLimit(queue, own.queue) {
				used.SubWithoutAssert(own.held)
			}
			addNamed(request, used)
		}
	}
	return request
}

// together reports whether the gangs are placed together.
func (r *rooms) together(gang, other api.JobID) bool {
	companions, _ := framework.Companions(r.ssn.Jobs, r.ssn.Placement.Unit(r.ssn.Jobs[gang]))
	return slices.Contains(companions, r.ssn.Jobs[other])
}

// addNamed adds, of the resources that are requested, the amount to the request.
func addNamed(request, amount *api.Resource) {
	if request.MilliCPU > 0 {
		request.MilliCPU += max(0, amount.MilliCPU)
	}
	if request.Memory > 0 {
		request.Memory += max(0, amount.Memory)
	}
	for name, requested := range request.ScalarResources {
		if requested > 0 {
			request.ScalarResources[name] += max(0, amount.ScalarResources[name])
		}
	}
}
