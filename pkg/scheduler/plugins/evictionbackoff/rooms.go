// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

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
	// nominees are those of all gangs in rooms.
	nominees map[api.TaskID]bool
	// taken is what others see of all rooms together, by queue.
	taken map[api.QueueID]*api.Resource
	// tiers are all plugins. An explanation asks them one by one. asking is true while they are asked about a task beside rooms.
	tiers  []conf.Tier
	asking bool
}

// room is of one gang, or of gangs that evicted a victim together. All is counted by each queue that the plugins count it in.
type room struct {
	// victims is what the victims use, held what the nominees hold, and taken what others see of the room.
	victims, held, taken map[api.QueueID]*api.Resource
	// leaving are the victims.
	leaving []*api.TaskInfo
}

// openRooms has the session count no victims of gangs whose claims last, and reserves their room for these gangs.
func (p *plugin) openRooms(ssn *framework.Session) {
	r := &rooms{ssn: ssn, of: map[api.JobID]*room{}, nominees: map[api.TaskID]bool{}, taken: map[api.QueueID]*api.Resource{}, tiers: ssn.Tiers}
	now, shared := time.Now(), sharers{}
	for gang, c := range p.claims {
		if now.Before(c.until) {
			shared.add(gang, c)
		}
	}
	made := map[api.JobID]*room{}
	for gang := range shared.with {
		first := shared.first(gang)
		if made[first] == nil {
			made[first] = newRoom()
		}
		r.of[gang] = made[first]
		r.fill(r.of[gang], ssn.Jobs[gang], p.claims[gang], shared.of)
	}
	maps.DeleteFunc(r.of, func(_ api.JobID, own *room) bool { return len(own.victims) == 0 })
	if len(r.of) == 0 {
		return
	}
	for _, own := range made {
		r.recount(own)
	}
	ssn.QueueUse.LeaveFor(r.leaving)
	ssn.AddAllocatableFn(Name, r.allocatable)
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(e *vcframework.Event) { r.note(e.Task, (*api.Resource).Add) },
		DeallocateFunc: func(e *vcframework.Event) { r.note(e.Task, (*api.Resource).SubWithoutAssert) },
	})
}

// sharers are gangs with claims. Gangs that have a victim in common share a room.
type sharers struct {
	// with is another gang with which the gang shares, or the gang itself. of is a gang of each victim.
	with map[api.JobID]api.JobID
	of   map[api.TaskID]api.JobID
}

func (s *sharers) add(gang api.JobID, c *claim) {
	if s.with == nil {
		s.with, s.of = map[api.JobID]api.JobID{}, map[api.TaskID]api.JobID{}
	}
	s.with[gang] = gang
	for pod := range c.victims {
		if other, known := s.of[pod]; known {
			s.with[s.first(other)] = s.first(gang)
		}
		s.of[pod] = gang
	}
}

// first returns the gang that stands for all that share with the gang.
func (s *sharers) first(gang api.JobID) api.JobID {
	for s.with[gang] != gang {
		s.with[gang] = s.with[s.with[gang]]
		gang = s.with[gang]
	}
	return gang
}

func newRoom() *room {
	return &room{victims: map[api.QueueID]*api.Resource{}, held: map[api.QueueID]*api.Resource{}, taken: map[api.QueueID]*api.Resource{}}
}

// fill counts the victims of the gang, each for one of its gangs, and its nominees that hold nodes.
func (r *rooms) fill(own *room, gang *api.JobInfo, c *claim, countedFor map[api.TaskID]api.JobID) {
	for pod, of := range c.victims {
		if countedFor[pod] != gang.UID {
			continue
		}
		if job, task := framework.Discharge(r.ssn.Jobs, of, pod); job != nil {
			r.count(own.victims, job.Queue, task, (*api.Resource).Add)
			own.leaving = append(own.leaving, task)
		}
	}
	for nominee := range c.nominees {
		r.nominees[nominee] = true
		if task := gang.Tasks[nominee]; task != nil && api.AllocatedStatus(task.Status) {
			r.count(own.held, gang.Queue, task, (*api.Resource).Add)
		}
	}
}

// count changes the sums of the queues that count the task.
func (r *rooms) count(sums map[api.QueueID]*api.Resource, queue api.QueueID, task *api.TaskInfo, change func(sum, by *api.Resource) *api.Resource) {
	for _, id := range r.ssn.QueueUse.Levels(queue) {
		change(sumOf(sums, id), task.Resreq)
	}
}

func sumOf(sums map[api.QueueID]*api.Resource, id api.QueueID) *api.Resource {
	if sums[id] == nil {
		sums[id] = api.EmptyResource()
	}
	return sums[id]
}

// note counts a task that was placed, or taken back.
func (r *rooms) note(task *api.TaskInfo, change func(sum, by *api.Resource) *api.Resource) {
	if own := r.of[task.Job]; own != nil && r.nominees[task.UID] {
		r.count(own.held, r.ssn.Jobs[task.Job].Queue, task, change)
		r.recount(own)
	}
}

// recount computes what others see of the room.
func (r *rooms) recount(own *room) {
	for id, victims := range own.victims {
		taken := beyond(victims, sumOf(own.held, id))
		sumOf(r.taken, id).Add(taken).SubWithoutAssert(sumOf(own.taken, id))
		own.taken[id] = taken
	}
}

// beyond returns what of the amount exceeds the other.
func beyond(amount, other *api.Resource) *api.Resource {
	more := amount.Clone()
	more.MilliCPU, more.Memory = max(0, more.MilliCPU-other.MilliCPU), max(0, more.Memory-other.Memory)
	for name := range more.ScalarResources {
		more.ScalarResources[name] = max(0, more.ScalarResources[name]-other.ScalarResources[name])
	}
	return more
}

// allocatable reports whether the queue admits the task beside the rooms of other gangs.
func (r *rooms) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	job := r.ssn.Jobs[task.Job]
	if r.asking || job == nil {
		return true
	}
	others := r.others(queue, job)
	if len(others) == 0 { // the other plugins are asked anyway
		return true
	}
	r.asking = true
	defer func() { r.asking = false }()
	admits := false
	r.ssn.WithTiers(r.tiers, func() {
		admits = r.ssn.QueueUse.Admits(r.ssn.QueueUse.AskFor(queue, task).Beside(others))
	})
	return admits
}

// own returns the rooms of the job and the gangs that are placed together with it.
func (r *rooms) own(job *api.JobInfo) (own []*room) {
	companions, _ := framework.Companions(r.ssn.Jobs, r.ssn.Placements.GangGroup(job))
	for _, gang := range append(companions, job) {
		if room := r.of[gang.UID]; room != nil && !slices.Contains(own, room) {
			own = append(own, room)
		}
	}
	return own
}

// leaving returns the victims of the task's gang and the gangs that are placed together with it.
func (r *rooms) leaving(task *api.TaskInfo) (victims []*api.TaskInfo) {
	if job := r.ssn.Jobs[task.Job]; job != nil {
		for _, room := range r.own(job) {
			victims = append(victims, room.leaving...)
		}
	}
	return victims
}

// others returns what the job sees of the rooms of all other gangs, by each queue that counts tasks of the queue.
func (r *rooms) others(queue *api.QueueInfo, job *api.JobInfo) map[api.QueueID]*api.Resource {
	own, others := r.own(job), map[api.QueueID]*api.Resource{}
	for _, id := range r.ssn.QueueUse.Levels(queue.UID) {
		if r.taken[id] == nil {
			continue
		}
		taken := r.taken[id].Clone()
		for _, room := range own {
			taken.SubWithoutAssert(sumOf(room.taken, id))
		}
		if !taken.IsEmpty() {
			others[id] = taken
		}
	}
	return others
}
