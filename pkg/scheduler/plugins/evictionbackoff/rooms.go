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

// rooms holds the rooms of gangs that wait for their victims to terminate. The room of a gang is the amount of
// resources that its victims still use in their queues. The gang may be placed in its room, so that it need not wait
// for the last victim. For all other gangs, queues count the larger of two amounts: the resources that the victims use,
// and the resources that the gang already holds. Otherwise a tenant could run any number of pods in its queue by
// evicting each pod with the next pod.
//
// While its victims still run, the gang is bound only if the capability of its queue suffices for the gang and its
// victims together.
type rooms struct {
	ssn *framework.Session
	of  map[api.JobID]*room
	// nominees are the nominees of all gangs with a room: the tasks to be placed once the victims have terminated
	// (claim.nominees).
	nominees map[api.TaskID]bool
	// taken is, for each queue, how much the victims of all gangs with a room use beyond the resources that these gangs
	// hold.
	taken map[api.QueueID]*api.Resource
	// tiers are the tiers with all plugins. The methods allocatable and ready ask these plugins, because ssn.Tiers has
	// only one plugin while framework.QueueUse finds out which plugin refuses a task. asking is set during these calls:
	// a nested call of allocatable then returns at once, which ends the recursion.
	tiers  []conf.Tier
	asking bool
	// binding is set while the method ready asks the plugins whether a gang may be bound. The gang's victims then
	// count, because they have not terminated.
	binding bool
}

// room has the resources that were freed by evictions for one gang, or for several gangs if they have a victim in
// common. It has each amount by queue: the queue of the pods, and each ancestor of that queue.
type room struct {
	// victims are the resources of the evicted pods. held is the part of them that the gangs' nominees already use.
	// taken is the rest, which is still reserved for the gangs.
	victims, held, taken map[api.QueueID]*api.Resource
	// leaving are the victims that are counted in this room.
	leaving []*api.TaskInfo
}

// openRooms makes a room for each gang of the session whose claim on its victims' resources has not expired. In this
// session, queues then no longer count the victims of these gangs. For all other gangs, queues count instead by how much the victims'
// resources exceed what the gangs with rooms already hold.
func (p *plugin) openRooms(ssn *framework.Session) {
	r := &rooms{ssn: ssn, of: map[api.JobID]*room{}, nominees: map[api.TaskID]bool{}, taken: map[api.QueueID]*api.Resource{}, tiers: ssn.Tiers}
	now, shared := time.Now(), sharers{}
	for gang, c := range p.claims {
		if ssn.Jobs[gang] != nil && now.Before(c.until) {
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
	p.rooms = r
	ssn.AddAllocatableFn(Name, r.allocatable)
	ssn.AddJobReadyFn(Name, func(job any) bool { return r.ready(job.(*api.JobInfo)) })
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(e *vcframework.Event) { r.updateRoom(e.Task, (*api.Resource).Add) },
		DeallocateFunc: func(e *vcframework.Event) { r.updateRoom(e.Task, (*api.Resource).SubWithoutAssert) },
	})
}

// sharers groups gangs with claims. Gangs that have a victim in common share a room: each may use the resources of that
// victim.
type sharers struct {
	// with is, for each gang, another gang with which it shares a room, or the gang itself. of is, for each victim, a
	// gang that evicted it.
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

// first returns the gang that represents all gangs that share a room with the given gang.
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

// fill adds to own, the room of the gang, the victims of the gang, and the gang's nominees that already hold nodes. A
// victim of several gangs is counted only for the gang that countedFor names.
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

// count changes the amounts in sums for all queues that count tasks of the given queue: the queue and its ancestors.
// sums has one amount of resources for each queue. change adds the task's request to an amount or subtracts it.
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

// updateRoom updates the room of the task's gang after the task was placed or removed. It ignores tasks that are not
// nominees, the tasks to be placed once the victims have terminated. change adds the task's request to the resources
// that the gang holds, or subtracts it.
func (r *rooms) updateRoom(task *api.TaskInfo, change func(sum, by *api.Resource) *api.Resource) {
	if own := r.of[task.Job]; own != nil && r.nominees[task.UID] {
		r.count(own.held, r.ssn.Jobs[task.Job].Queue, task, change)
		r.recount(own)
	}
}

// recount computes again by how much the resources of the room's victims exceed the resources that the room's gangs
// already hold.
func (r *rooms) recount(own *room) {
	for id, victims := range own.victims {
		taken := beyond(victims, sumOf(own.held, id))
		sumOf(r.taken, id).Add(taken).SubWithoutAssert(sumOf(own.taken, id))
		own.taken[id] = taken
	}
}

// beyond returns, for each resource, by how much amount exceeds other; 0 if it does not.
func beyond(amount, other *api.Resource) *api.Resource {
	more := amount.Clone()
	more.MilliCPU, more.Memory = max(0, more.MilliCPU-other.MilliCPU), max(0, more.Memory-other.Memory)
	for name := range more.ScalarResources {
		more.ScalarResources[name] = max(0, more.ScalarResources[name]-other.ScalarResources[name])
	}
	return more
}

// allocatable reports whether the queue admits the task if the queue also counts the rooms of other gangs: the
// resources of their victims that the gangs do not hold yet.
func (r *rooms) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	job := r.ssn.Jobs[task.Job]
	if r.asking || job == nil {
		return true
	}
	others := r.others(queue, job)
	if len(others) == 0 { // there is nothing to add, and the other plugins vote for themselves
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

// ready reports whether the job's placed tasks fit into the capability of the queue, together with the job's own
// victims and the rooms of other gangs: the resources of their victims that the gangs do not hold yet. Without this
// check, a tenant could run a gang on other nodes while its victims still run, and use up to twice the capability.
func (r *rooms) ready(job *api.JobInfo) (admits bool) {
	queue, own, placed := r.ssn.Queues[job.Queue], r.own(job), slices.Collect(maps.Values(job.TaskStatusIndex[api.Allocated]))
	if len(own) == 0 || len(placed) == 0 || queue == nil {
		return true
	}
	beside := r.others(queue, job)
	for _, room := range own {
		for id, victims := range room.victims {
			sumOf(beside, id).Add(victims)
		}
	}
	ask := r.ssn.QueueUse.Ask(queue, placed).With(placed...)
	if r.ssn.QueueUse.Exceeds(ask.Beside(beside)) {
		return false
	}
	asking := r.asking
	r.asking, r.binding = true, true
	defer func() { r.asking, r.binding = asking, false }()
	// QueueUse.Exceeds compares only requests with the capability. Plugins may also limit other amounts than requests,
	// such as devices, so the plugins are asked, too.
	r.ssn.WithTiers(r.tiers, func() { admits = r.ssn.QueueUse.Admits(ask) })
	return admits
}

// own returns the rooms of the job and of the gangs that are placed together with it. A room counts the resources of a
// gang's victims.
func (r *rooms) own(job *api.JobInfo) (own []*room) {
	companions, _ := framework.Companions(r.ssn.Jobs, r.ssn.Placements.GangGroup(job))
	for _, gang := range append(companions, job) {
		if room := r.of[gang.UID]; room != nil && !slices.Contains(own, room) {
			own = append(own, room)
		}
	}
	return own
}

// leaving returns the victims of the task's gang and of the gangs that are placed together with it. It returns none
// while the method ready asks the plugins, because the victims still use their resources.
func (r *rooms) leaving(task *api.TaskInfo) (victims []*api.TaskInfo) {
	if job := r.ssn.Jobs[task.Job]; job != nil && !r.binding {
		for _, room := range r.own(job) {
			victims = append(victims, room.leaving...)
		}
	}
	return victims
}

// others returns, for each queue that counts tasks of the given queue, the rooms of other gangs: the resources of their
// victims that the gangs do not hold yet. Gangs that are placed together with the job are not included.
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
