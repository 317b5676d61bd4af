// SPDX-License-Identifier: Apache-2.0

package framework

import (
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
			if gangs, all := ssn.Companions(job); gangs != nil || !all {
				found = true
				break
			}
		}
		ssn.groups = &found
	}
	return *ssn.groups
}

// settleEvictions sends what was held, but for what is in vain.
func (ssn *Session) settleEvictions() {
	if len(ssn.held) == 0 {
		return
	}
	vain := ssn.nodesOfVain()
	for _, tasks := range vain {
		for _, task := range tasks {
			ssn.withdrawn[task.Job] = append(ssn.withdrawn[task.Job], task)
			task.EvictionOccurred = false
			if err := vcframework.NewStatement(ssn.Session).UnPipeline(task); err != nil {
				klog.Background().Error(err, "A member that was to follow evicted ones is not shown as waiting", "pod", klog.KObj(task.Pod))
			}
		}
	}
	for _, held := range ssn.held {
		_, withdrawn := vain[held.Task.NodeName]
		if !withdrawn {
			err := ssn.evict(held.Eviction, held.reason)
			if err == nil {
				continue
			}
			klog.Background().Error(err, "Evicting failed", "pod", klog.KObj(held.Task.Pod))
		}
		ssn.keep(held.Task)
	}
}

// nodesOfVain are the nodes on which tasks are evicted only for gangs whose group has no room, with those that were to take their place.
func (ssn *Session) nodesOfVain() map[string][]*api.TaskInfo {
	vain, needed := map[string][]*api.TaskInfo{}, map[string]bool{}
	for _, job := range ssn.Jobs {
		nominees := ssn.nominees(job)
		if len(nominees) == 0 {
			continue
		}
		has := ssn.groupHasRoom(job)
		for _, task := range nominees {
			if has {
				needed[task.NodeName] = true
			} else {
				vain[task.NodeName] = append(vain[task.NodeName], task)
			}
		}
	}
	for node := range needed {
		delete(vain, node)
	}
	return vain
}

// nominees are the job's tasks that take the place of evicted ones.
func (ssn *Session) nominees(job *api.JobInfo) []*api.TaskInfo {
	var out []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pipelined] {
		if task.EvictionOccurred {
			out = append(out, task)
		}
	}
	return out
}

// groupHasRoom is true if all gangs with which the job's is placed have room, or will once what was evicted is gone.
func (ssn *Session) groupHasRoom(job *api.JobInfo) bool {
	gangs, all := ssn.Companions(job)
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
