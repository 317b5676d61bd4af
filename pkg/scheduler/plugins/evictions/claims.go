// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A claim holds for as long as the victims may take to end: their grace period, but at most longestGrace, and graceSlack. A victim that
// is still there after that, because of a finalizer, a dead node or a grace period of a year, may never go.
const (
	defaultGrace = 30 * time.Second
	longestGrace = 10 * time.Minute
	graceSlack   = time.Minute
)

// claim is what was evicted for a gang: victims, by their gangs, for the nominees. Nominees are also the members that are to be placed
// together with those that follow a victim.
type claim struct {
	nominees map[api.TaskID]bool
	victims  map[api.TaskID]api.JobID
	// until is when the victims should have gone.
	until time.Time
	// open is true if the victims are not known to have been gone when a session opened.
	open bool
}

func newClaim() *claim {
	return &claim{nominees: map[api.TaskID]bool{}, victims: map[api.TaskID]api.JobID{}}
}

// settle closes the claims that are met or void, and finds the tasks that are to be placed first. The session in which the
// last victim is gone is the one in which the gang gets the room, or does not.
func (p *plugin) settle(ssn *framework.Session) {
	p.promised = map[api.JobID]map[api.TaskID]bool{}
	now := time.Now()
	for uid, c := range p.claims {
		job := ssn.Jobs[uid]
		if job == nil || !c.waits(job) {
			p.gangs.Forget(uid)
			delete(p.claims, uid)
			continue
		}
		if c.open && now.Before(c.until) {
			p.promised[uid] = c.nominees
		}
		c.open = c.leaving(ssn)
	}
}

// waits is true if a task that was evicted for is not placed yet.
func (c *claim) waits(job *api.JobInfo) bool {
	for uid := range c.nominees {
		if _, pending := job.TaskStatusIndex[api.Pending][uid]; pending {
			return true
		}
	}
	return false
}

// leaving is true if a victim is still there.
func (c *claim) leaving(ssn *framework.Session) bool {
	for uid, gang := range c.victims {
		if job := ssn.Jobs[gang]; job != nil && job.Tasks[uid] != nil {
			return true
		}
	}
	return false
}

// note notes an eviction as it is sent, for the gangs with members that follow evicted pods on the node: a session that does not reach its
// end has sent it all the same.
func (p *plugin) note(ssn *framework.Session, e framework.Eviction) {
	if job := ssn.Jobs[e.Task.Job]; e.Action == reclaim && job != nil && !p.taken[job.Queue] {
		p.taken[job.Queue] = true
		p.queues.Failed(api.JobID(job.Queue), "pods of its queue were evicted for another queue a moment ago")
	}
	node := ssn.Nodes[e.Task.NodeName]
	if node == nil {
		return
	}
	for _, task := range node.Tasks {
		job := ssn.Jobs[task.Job]
		if job == nil || job.TaskStatusIndex[api.Pipelined][task.UID] == nil || !job.Tasks[task.UID].EvictionOccurred {
			continue
		}
		if !p.noted[job.UID] {
			p.noted[job.UID] = true
			p.claims[job.UID] = newClaim()
			p.gangs.Failed(job.UID, "it has had pods evicted and is not placed yet")
		}
		p.claims[job.UID].add(job, e.Task)
	}
}

// add adds a victim, and the gang's members that are to be placed.
func (c *claim) add(job *api.JobInfo, victim *api.TaskInfo) {
	c.open = true
	c.victims[victim.UID] = victim.Job
	for uid := range job.TaskStatusIndex[api.Pipelined] {
		c.nominees[uid] = true
	}
	if until := time.Now().Add(graceOf(victim) + graceSlack); until.After(c.until) {
		c.until = until
	}
}

// graceOf is how long the victim may take to end, as far as it is waited for.
func graceOf(victim *api.TaskInfo) time.Duration {
	grace := victim.Pod.Spec.TerminationGracePeriodSeconds
	if grace == nil {
		return defaultGrace
	}
	return time.Duration(min(*grace, int64(longestGrace/time.Second))) * time.Second
}
