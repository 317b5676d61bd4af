// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A claim lasts as long as the victims may take to terminate: their grace period, at most longestGrace, plus graceSlack. A victim
// that still exists after that may never terminate, because of a finalizer, a dead node or a grace period of a year.
const (
	defaultGrace = 30 * time.Second
	longestGrace = 10 * time.Minute
	graceSlack   = time.Minute
)

// claim holds the victims evicted for a gang, by their gangs, and the nominees: the tasks to place once the victims have
// terminated. The tasks of the gang and its group that must be placed together with one that replaces a victim are nominees, too.
type claim struct {
	nominees map[api.TaskID]bool
	victims  map[api.TaskID]api.JobID
	// nodes are the victims' nodes.
	nodes map[string]bool
	// until is when the victims should have terminated.
	until time.Time
	// open reports whether a victim existed when the last session opened, or was evicted since.
	open bool
}

func newClaim() *claim {
	return &claim{nominees: map[api.TaskID]bool{}, victims: map[api.TaskID]api.JobID{}, nodes: map[string]bool{}}
}

// closeClaims closes claims that are met or no longer valid, and computes the tasks to place first. A gang keeps its
// priority through the first session without its victims; after that session its claim ends, whether or not the gang
// was placed.
func (p *plugin) closeClaims(ssn *framework.Session) {
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

// waits reports whether a nominee is not placed yet.
func (c *claim) waits(job *api.JobInfo) bool {
	for uid := range c.nominees {
		if _, pending := job.TaskStatusIndex[api.Pending][uid]; pending {
			return true
		}
	}
	return false
}

// leaving reports whether a victim still exists.
func (c *claim) leaving(ssn *framework.Session) bool {
	for uid, gang := range c.victims {
		if job := ssn.Jobs[gang]; job != nil && job.Tasks[uid] != nil {
			return true
		}
	}
	return false
}

// recordEviction records an eviction when it is sent, not when the session closes, because a session that does not complete has
// also sent it. The claim is for the gangs with members nominated to the node.
func (p *plugin) recordEviction(ssn *framework.Session, e framework.Eviction) {
	if job := ssn.Jobs[e.Task.Job]; e.Action == reclaim && job != nil && !p.taken[job.Queue] {
		p.taken[job.Queue] = true
		p.queues.Failed(api.JobID(job.Queue), "reclaim has just evicted pods of queue "+string(job.Queue)+" for another queue")
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
			p.gangs.Failed(job.UID, "pods were evicted for the gang, and it is not placed yet")
		}
		companions, _ := framework.Companions(ssn.Jobs, ssn.Placement.Unit(job))
		p.claims[job.UID].add(append(companions, job), e.Task)
	}
}

// add adds a victim and the nominees of the gangs.
func (c *claim) add(gangs []*api.JobInfo, victim *api.TaskInfo) {
	c.open = true
	c.victims[victim.UID], c.nodes[victim.NodeName] = victim.Job, true
	for _, gang := range gangs {
		for uid := range gang.TaskStatusIndex[api.Pipelined] {
			c.nominees[uid] = true
		}
	}
	if until := time.Now().Add(graceOf(victim) + graceSlack); until.After(c.until) {
		c.until = until
	}
}

// graceOf returns how long the claim waits for the victim to terminate.
func graceOf(victim *api.TaskInfo) time.Duration {
	grace := victim.Pod.Spec.TerminationGracePeriodSeconds
	if grace == nil {
		return defaultGrace
	}
	return time.Duration(min(*grace, int64(longestGrace/time.Second))) * time.Second
}
