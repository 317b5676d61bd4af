// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang's claim on the resources of its victims lasts as long as the victims may take to terminate: their grace
// period, at most longestGrace, plus graceSlack, from when the deletion of the last one began. A victim that still exists
// after that may never terminate, because of a finalizer, a dead node or a grace period of a year.
const (
	defaultGrace = 30 * time.Second
	longestGrace = 10 * time.Minute
	graceSlack   = time.Minute
)

// claim is a gang's right to the resources of the pods that were evicted for it (its victims). It records the victims
// with their gangs, and the nominees: the tasks to be placed once the victims have terminated. Nominees are tasks of
// the gang, and of other gangs that must be placed together with it.
type claim struct {
	nominees map[api.TaskID]nominee
	victims  map[api.TaskID]api.JobID
	// nodes are the victims' nodes.
	nodes map[string]bool
	// until is when the victims should have terminated. The claim has no effect after that time.
	until time.Time
	// open reports whether the next session may place the gang first. That is so if the last session began with a victim
	// of the claim still there, evicted another victim, or did not try the gang (keepUntried).
	open bool
	// seen is when a session last had the gang.
	seen time.Time
}

// nominee is what a nominee asked for when the pods were evicted.
type nominee struct {
	gang    api.JobID
	request *api.Resource
	// hint is the annotation that may ask for all devices of a node.
	hint string
}

func nomineeOf(task *api.TaskInfo) nominee {
	return nominee{task.Job, task.InitResreq.Clone(), task.Pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation]}
}

// covers reports whether the task asks for no more than the nominee did. A tenant may resize a pending pod, and change
// its annotations.
func (n nominee) covers(task *api.TaskInfo) bool {
	return task.InitResreq.LessEqual(n.request, api.Zero) && task.Pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation] == n.hint
}

func newClaim() *claim {
	return &claim{seen: time.Now(), nominees: map[api.TaskID]nominee{}, victims: map[api.TaskID]api.JobID{}, nodes: map[string]bool{}}
}

// closeClaims ends the claims of gangs that no session has had for framework.AbsentFor, or that have no pending
// nominees. It also computes plugin.promised, the tasks that are placed first. A gang is placed first until a session without its victims has
// tried it, but no longer than until its victims should have terminated (claim.until).
func (p *plugin) closeClaims(ssn *framework.Session) {
	p.promised = map[api.JobID]map[api.TaskID]bool{}
	now := time.Now()
	for uid, c := range p.claims {
		job := ssn.Jobs[uid]
		if job == nil && now.Sub(c.seen) < framework.AbsentFor {
			continue // for example during the search for an object that makes cycles panic
		}
		c.seen = now
		if job == nil || !c.waits(job) {
			p.gangs.Forget(uid)
			delete(p.claims, uid)
			continue
		}
		c.awaitDeletions(ssn, now)
		if c.open && now.Before(c.until) {
			p.promised[uid] = c.promised(ssn)
		}
		c.open = len(c.leaving(ssn)) > 0
	}
}

// keepUntried keeps the claims of gangs open that were to be placed first in this session but that allocate did not
// try. Otherwise other gangs would get the victims' resources.
func (p *plugin) keepUntried(ssn *framework.Session) {
	for uid := range p.promised {
		if c := p.claims[uid]; c != nil && ssn.Placements.IsUntried(uid) {
			c.open = true
		}
	}
}

// waits reports whether the job still has a pending task that is a nominee of the claim: a task to be placed once the
// victims have terminated.
func (c *claim) waits(job *api.JobInfo) bool {
	for uid := range c.nominees {
		if _, pending := job.TaskStatusIndex[api.Pending][uid]; pending {
			return true
		}
	}
	return false
}

// promised returns the pending nominees that ask for no more than when the pods were evicted. A larger nominee waits in
// the gang's usual order. Otherwise a tenant could evict a small pod for a member, resize the member, and get resources
// before all other gangs.
func (c *claim) promised(ssn *framework.Session) map[api.TaskID]bool {
	promised := map[api.TaskID]bool{}
	for uid, n := range c.nominees {
		if job := ssn.Jobs[n.gang]; job != nil {
			if task, pending := job.TaskStatusIndex[api.Pending][uid]; pending && n.covers(task) {
				promised[uid] = true
			}
		}
	}
	return promised
}

// leaving returns the victims of the claim that still exist.
func (c *claim) leaving(ssn *framework.Session) (victims []*api.TaskInfo) {
	for uid, gang := range c.victims {
		if job := ssn.Jobs[gang]; job != nil && job.Tasks[uid] != nil && job.Tasks[uid].Status == api.Releasing { // else the eviction failed
			victims = append(victims, job.Tasks[uid])
		}
	}
	return victims
}

// awaitDeletions moves the end of the claim in each session while the deletion of a victim has not begun, because the API server
// is asked about pods of PodDisruptionBudgets one after the other. That ends: the evictor (package ledger) tries each pod a bounded
// number of times, and a pod that stays is no longer Releasing.
func (c *claim) awaitDeletions(ssn *framework.Session, now time.Time) {
	for _, victim := range c.leaving(ssn) {
		if victim.Pod.DeletionTimestamp == nil {
			c.extend(victim, now)
		}
	}
}

// extend has the claim last as long as the victim may take to terminate if its deletion begins at the given time.
func (c *claim) extend(victim *api.TaskInfo, begins time.Time) {
	if until := begins.Add(graceOf(victim) + graceSlack); until.After(c.until) {
		c.until = until
	}
}

// recordEviction records an eviction when the eviction is sent, so that it is recorded even if the session does not
// complete. Each gang with pipelined members on the victim's node gets a claim on the victim's resources. It replaces
// the gang's claim of an earlier session, whose victims then count like all other pods until they have terminated.
// Otherwise a gang that evicts more pods in each session could keep the resources of a victim that never terminates.
func (p *plugin) recordEviction(ssn *framework.Session, e framework.Eviction) {
	if job := ssn.Jobs[e.Task.Job]; reclaims(e.Action) && job != nil && !p.taken[job.Queue] {
		p.taken[job.Queue] = true
		p.queues.Failed(api.JobID(job.Queue), "reclaim has just evicted pods of queue "+string(job.Queue)+" for another queue")
	}
	for _, task := range replacing(ssn, e) {
		job := ssn.Jobs[task.Job]
		if !p.noted[job.UID] {
			p.noted[job.UID] = true
			p.claims[job.UID] = newClaim()
			p.gangs.Failed(job.UID, "pods were evicted for the gang, and it is not placed yet")
		}
		c := p.claims[job.UID]
		c.addVictim(e.Task, time.Now())
		companions, _ := framework.Companions(ssn.Jobs, ssn.Placements.GangGroup(job))
		companions = append(companions, job)
		if !c.knows(companions, task.UID) {
			c.addNominees(companions, api.Pipelined)
		}
	}
}

// replacing returns the tasks that take the place of the victim: a task of the gang for which the pod was evicted, if that
// is known, or else the pipelined tasks on its node.
func replacing(ssn *framework.Session, e framework.Eviction) (tasks []*api.TaskInfo) {
	if e.For != nil {
		for _, task := range e.For.TaskStatusIndex[api.Pipelined] {
			return []*api.TaskInfo{task}
		}
	}
	node := ssn.Nodes[e.Task.NodeName]
	if node == nil {
		return nil
	}
	for _, task := range node.Tasks {
		if job := ssn.Jobs[task.Job]; job != nil && job.TaskStatusIndex[api.Pipelined][task.UID] != nil && job.Tasks[task.UID].EvictionOccurred {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// addVictim adds the victim, which was evicted at the given time, to the claim.
func (c *claim) addVictim(victim *api.TaskInfo, at time.Time) {
	c.open = true
	c.victims[victim.UID], c.nodes[victim.NodeName] = victim.Job, true
	c.extend(victim, at)
}

// knows reports whether all pipelined tasks of the gangs, among them the given one, are nominees already.
func (c *claim) knows(gangs []*api.JobInfo, task api.TaskID) bool {
	pipelined := 0
	for _, gang := range gangs {
		pipelined += len(gang.TaskStatusIndex[api.Pipelined])
	}
	_, known := c.nominees[task]
	return known && pipelined == len(c.nominees)
}

// addNominees adds the gangs' tasks of the given status as nominees: the tasks to be placed once the victims have terminated.
func (c *claim) addNominees(gangs []*api.JobInfo, status api.TaskStatus) {
	for _, gang := range gangs {
		for uid, task := range gang.TaskStatusIndex[status] {
			c.nominees[uid] = nomineeOf(task)
		}
	}
}

// graceOf returns the victim's grace period, at most longestGrace, or defaultGrace if the victim's pod sets none.
func graceOf(victim *api.TaskInfo) time.Duration {
	grace := victim.Pod.Spec.TerminationGracePeriodSeconds
	if grace == nil {
		return defaultGrace
	}
	return time.Duration(min(*grace, int64(longestGrace/time.Second))) * time.Second
}
