// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// Upstream's actions evict pods for one gang at a time. If several gangs must be placed together, evictions for one
// gang are useless when another gang has no room. So in a session with such gangs, all evictions are deferred until the
// session closes. An eviction is then sent only if all gangs of the gang group have room. A paused gang may not hold
// idle resources for now (Session.Paused). In a session with paused gangs, all evictions are deferred, too. Evictions
// for a paused gang are sent only if the gang holds no idle resources beside the resources of its victims.

// Eviction is a task that was evicted in the session.
type Eviction struct {
	Task *api.TaskInfo
	// Action is the name of the action that evicted the task.
	Action string
	// For is the gang for which the task was evicted (Placements.Preemptor), if known.
	For api.JobID
}

// deferredEviction is an eviction that is sent, or dropped, when the session closes.
type deferredEviction struct {
	Eviction
	reason string
}

// evictions are the evictions of one session.
type evictions struct {
	// upstream is upstream's session; nil until it is open. placements has where each job may be placed, and
	// its gang group.
	upstream   *vcframework.Session
	placements *Placements
	// paused reports whether the job is paused: it may not hold idle resources for now (Session.Paused).
	paused func(job *api.JobInfo) bool
	// send is the cache's method that evicts a task.
	send func(task *api.TaskInfo, reason string) error
	// deferred are the evictions that are sent or dropped when the session closes. cancelled maps each gang whose
	// evictions were dropped to its members that would have replaced the victims. evicted are all tasks that were evicted, also
	// those in deferred.
	deferred  []deferredEviction
	evicted   []*api.TaskInfo
	cancelled map[api.JobID][]*api.TaskInfo
	// defers reports whether evictions are deferred; nil before the first eviction. They are if the session has gangs
	// that are placed together, or paused gangs, which may not hold idle resources for now.
	defers *bool
}

// EvictsOneByOne reports whether the session's running action evicts pods for one member of a gang after the other.
// Plugins then keep these members in one place.
func EvictsOneByOne(ssn *Session) bool {
	return (ssn.Action == "preempt" || ssn.Action == "reclaim") && ssn.Placements.Preemptor == ""
}

// Evicted returns the tasks that were evicted in the session so far, also those whose evictions are not sent yet.
func Evicted(ssn *Session) []*api.TaskInfo { return ssn.evictions.evicted }

// CancelledEvictions returns, for each gang whose evictions were dropped, the members that would have replaced the
// victims. Evictions are dropped if the gang's gang group has no room, or if the gang would hold idle resources
// although it is paused (Session.Paused). The result is complete once the session closes.
func (ssn *Session) CancelledEvictions() map[api.JobID][]*api.TaskInfo {
	return ssn.evictions.cancelled
}

// Evict evicts the task. It defers the eviction if the session has gangs that are placed together, or paused gangs,
// which may not hold idle resources for now.
func (c *sessionCache) Evict(task *api.TaskInfo, reason string) error {
	eviction, e := Eviction{Task: task, Action: c.session.Action, For: c.session.Placements.Preemptor}, &c.session.evictions
	e.evicted = append(e.evicted, task)
	if eviction.Action != "" && e.defersAll() {
		e.deferred = append(e.deferred, deferredEviction{eviction, reason})
		return nil
	}
	return e.evict(eviction, reason)
}

func (e *evictions) evict(eviction Eviction, reason string) error {
	if err := e.send(eviction.Task, reason); err != nil {
		return err
	}
	e.placements.evicted(eviction)
	return nil
}

// defersAll reports whether all evictions are deferred. They are if the session has gangs that are placed together, or
// paused gangs, which may not hold idle resources for now.
func (e *evictions) defersAll() bool {
	if e.defers == nil {
		found := false
		for _, job := range e.upstream.Jobs {
			if gangs, all := e.companions(job); gangs != nil || !all || e.paused(job) {
				found = true
				break
			}
		}
		e.defers = &found
	}
	return *e.defers
}

func (e *evictions) companions(job *api.JobInfo) ([]*api.JobInfo, bool) {
	return Companions(e.upstream.Jobs, e.placements.GangGroup(job))
}

// flush sends the deferred evictions, except useless evictions. A gang whose evictions are cancelled no longer needs
// the resources of its victims. A victim on a node of such a gang's members is not evicted if it still fits beside the
// members of other gangs that are placed there. Victims of the highest priority are considered first.
func (e *evictions) flush() {
	if len(e.deferred) == 0 {
		return
	}
	unsuccessful := e.cancel()
	slices.SortStableFunc(e.deferred, func(l, r deferredEviction) int { return cmp.Compare(e.priorityOf(r.Task), e.priorityOf(l.Task)) })
	var sent []deferredEviction
	for _, held := range e.deferred {
		if unsuccessful[held.Task.NodeName] && e.hasRoomFor(held.Task) {
			Unevict(e.upstream, held.Task)
		} else {
			sent = append(sent, held)
		}
	}
	for _, held := range sent {
		if err := e.evict(held.Eviction, held.reason); err != nil {
			klog.Background().Error(err, "Evicting a pod failed", "pod", klog.KObj(held.Task.Pod))
			Unevict(e.upstream, held.Task)
		}
	}
}

func (e *evictions) priorityOf(task *api.TaskInfo) int32 {
	if job := e.upstream.Jobs[task.Job]; job != nil {
		return job.Priority
	}
	return task.Priority
}

// hasRoomFor reports whether the victim still fits on its node beside the members that are to replace other victims
// there.
func (e *evictions) hasRoomFor(task *api.TaskInfo) bool {
	node := e.upstream.Nodes[task.NodeName]
	return node == nil || task.Resreq.LessEqual(node.FutureIdle(), api.Zero)
}

// cancel resets the pipelined members of some gangs to Pending: gangs whose gang group has no room, and gangs that hold
// idle resources although they are paused. It returns the nodes on which such members were to replace victims.
func (e *evictions) cancel() map[string]bool {
	var unsuccessful []*api.TaskInfo
	for _, job := range e.upstream.Jobs {
		if pipelined := job.TaskStatusIndex[api.Pipelined]; len(pipelined) > 0 && (!e.groupHasRoom(job) || e.holdsInPause(job)) {
			unsuccessful = slices.AppendSeq(unsuccessful, maps.Values(pipelined))
		}
	}
	nodes := map[string]bool{}
	for _, task := range unsuccessful {
		if task.EvictionOccurred {
			nodes[task.NodeName] = true
			e.cancelled[task.Job] = append(e.cancelled[task.Job], task)
		}
		if err := vcframework.NewStatement(e.upstream).UnPipeline(task); err != nil {
			klog.Background().Error(err, "Resetting a member that waited for evicted pods to Pending failed", "pod", klog.KObj(task.Pod))
		}
	}
	return nodes
}

// groupHasRoom reports whether all gangs of the job's gang group fit into the cluster, now or once the victims have
// terminated.
func (e *evictions) groupHasRoom(job *api.JobInfo) bool {
	gangs, all := e.companions(job)
	for _, gang := range gangs {
		all = all && (e.upstream.JobReady(gang) || e.upstream.JobPipelined(gang))
	}
	return all
}

// holdsInPause reports whether the evictions for the job must not be sent, because the job is in a pause after earlier
// evictions. This is so if pods are to be evicted for the job or a gang of its gang group, while one of these gangs
// would hold idle resources until the victims end.
func (e *evictions) holdsInPause(job *api.JobInfo) bool {
	if !e.paused(job) {
		return false
	}
	gangs, _ := e.companions(job)
	evicts, holds := false, false
	for _, gang := range append(gangs, job) {
		for _, task := range gang.TaskStatusIndex[api.Pipelined] {
			node := e.upstream.Nodes[task.NodeName]
			evicts = evicts || task.EvictionOccurred
			holds = holds || node != nil && !node.Pipelined.LessEqual(node.Releasing, api.Zero)
		}
	}
	return evicts && holds
}

// Unevict resets the status of a task whose eviction was undone or is not sent: the task runs or, if its pod does not run
// yet, is bound.
func Unevict(ssn *vcframework.Session, task *api.TaskInfo) {
	status := api.Running
	if task.Pod.Status.Phase != v1.PodRunning {
		status = api.Bound
	}
	if job := ssn.Jobs[task.Job]; job != nil {
		if err := job.UpdateTaskStatus(task, status); err != nil {
			klog.Background().Error(err, "Resetting the status of a task that is not evicted failed", "pod", klog.KObj(task.Pod))
		}
	}
	if node := ssn.Nodes[task.NodeName]; node != nil {
		if err := node.UpdateTask(task); err != nil {
			klog.Background().Error(err, "Returning a task that is not evicted to its node failed", "pod", klog.KObj(task.Pod))
		}
	}
}
