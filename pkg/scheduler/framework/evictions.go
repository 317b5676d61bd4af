// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// Upstream's actions evict for one gang at a time. For gangs that are placed together that would be in vain where the others have no room
// all the same. So what actions evict in a session with such gangs is held until it closes, and then sent only if all gangs of the
// group have room by then.

// Eviction is a task that the session has had evicted.
type Eviction struct {
	Task *api.TaskInfo
	// Action is the name of the action that did it.
	Action string
}

// heldEviction is sent, or withdrawn, when the session closes.
type heldEviction struct {
	Eviction
	reason string
}

// AddEvictedFn has the function called with each eviction once it is sent; those of statements that are discarded never are, and those that
// are held when the session closes.
func (ssn *Session) AddEvictedFn(fn func(Eviction)) { ssn.evicted = append(ssn.evicted, fn) }

// Withdrawn are the gangs for which tasks were evicted in vain, with the members that were to take their place. It is known once the
// session closes.
func (ssn *Session) Withdrawn() map[api.JobID][]*api.TaskInfo { return ssn.withdrawn }

// Evict evicts the task and notes it; or holds it, where gangs wait for one another.
func (c *sessionCache) Evict(task *api.TaskInfo, reason string) error {
	eviction := Eviction{Task: task, Action: c.session.Action}
	if eviction.Action != "" && c.session.hasGroups() {
		c.session.held = append(c.session.held, heldEviction{eviction, reason})
		return nil
	}
	return c.evict(eviction, reason)
}

func (c *sessionCache) evict(eviction Eviction, reason string) error {
	if err := c.Cache.Evict(eviction.Task, reason); err != nil {
		return err
	}
	for _, evicted := range c.session.evicted {
		evicted(eviction)
	}
	return nil
}

// hasGroups is true if gangs of the session are placed together.
func (ssn *Session) hasGroups() bool {
	if ssn.groups == nil {
		found := false
		for _, job := range ssn.Jobs {
			if gangs, all := Companions(ssn.Jobs, ssn.Placement.Unit(job)); gangs != nil || !all {
				found = true
				break
			}
		}
		ssn.groups = &found
	}
	return *ssn.groups
}

// settleEvictions sends what was held, but for what is in vain: on the nodes where members of gangs whose group has no room were to follow,
// the victims without which the other members fit are kept, from the highest priority down.
func (ssn *Session) settleEvictions() {
	if len(ssn.held) == 0 {
		return
	}
	vain := ssn.withdraw()
	slices.SortStableFunc(ssn.held, func(l, r heldEviction) int { return cmp.Compare(ssn.priorityOf(r.Task), ssn.priorityOf(l.Task)) })
	var sent []heldEviction
	for _, held := range ssn.held {
		if vain[held.Task.NodeName] && ssn.hasRoomFor(held.Task) {
			ssn.keep(held.Task)
		} else {
			sent = append(sent, held)
		}
	}
	for _, held := range sent {
		if err := ssn.evict(held.Eviction, held.reason); err != nil {
			klog.Background().Error(err, "Evicting failed", "pod", klog.KObj(held.Task.Pod))
			ssn.keep(held.Task)
		}
	}
}

func (ssn *Session) priorityOf(task *api.TaskInfo) int32 {
	if job := ssn.Jobs[task.Job]; job != nil {
		return job.Priority
	}
	return task.Priority
}

// hasRoomFor reports whether the task can stay on its node beside the members that are to follow others.
func (ssn *Session) hasRoomFor(task *api.TaskInfo) bool {
	node := ssn.Nodes[task.NodeName]
	return node == nil || task.Resreq.LessEqual(node.FutureIdle(), api.Zero)
}

// withdraw has the members of gangs whose group has no room wait again, and returns the nodes on which they were to follow evicted ones.
func (ssn *Session) withdraw() map[string]bool {
	var vain []*api.TaskInfo
	for _, job := range ssn.Jobs {
		if pipelined := job.TaskStatusIndex[api.Pipelined]; len(pipelined) > 0 && !ssn.groupHasRoom(job) {
			vain = slices.AppendSeq(vain, maps.Values(pipelined))
		}
	}
	nodes := map[string]bool{}
	for _, task := range vain {
		if task.EvictionOccurred {
			nodes[task.NodeName] = true
			ssn.withdrawn[task.Job] = append(ssn.withdrawn[task.Job], task)
		}
		if err := vcframework.NewStatement(ssn.Session).UnPipeline(task); err != nil {
			klog.Background().Error(err, "A member that was to follow evicted ones is not shown as waiting", "pod", klog.KObj(task.Pod))
		}
	}
	return nodes
}

// groupHasRoom is true if all gangs with which the job's is placed have room, or will once what was evicted is gone.
func (ssn *Session) groupHasRoom(job *api.JobInfo) bool {
	gangs, all := Companions(ssn.Jobs, ssn.Placement.Unit(job))
	for _, gang := range gangs {
		all = all && (ssn.JobReady(gang) || ssn.JobPipelined(gang))
	}
	return all
}

// keep shows the task as running again.
func (ssn *Session) keep(task *api.TaskInfo) {
	if job := ssn.Jobs[task.Job]; job != nil {
		if err := job.UpdateTaskStatus(task, api.Running); err != nil {
			klog.Background().Error(err, "A task that is not evicted is not shown as running", "pod", klog.KObj(task.Pod))
		}
	}
	if node := ssn.Nodes[task.NodeName]; node != nil {
		if err := node.UpdateTask(task); err != nil {
			klog.Background().Error(err, "A task that is not evicted is not shown on its node", "pod", klog.KObj(task.Pod))
		}
	}
}
