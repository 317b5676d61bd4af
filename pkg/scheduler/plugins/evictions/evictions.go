// SPDX-License-Identifier: Apache-2.0

// Package evictions is the built-in plugin that keeps evictions from storming. It is not named in the conf: the scheduler
// puts it before the first tier of every configuration.
//
// Upstream's preempt and reclaim evict for a gang in one session what it can have in a later one. If another gang has
// taken it by then they evict again, as often as there are sessions. So
//
//   - what is being freed for a gang is not given to another: the gang is placed first until its victims are gone;
//   - a gang that has evicted waits before it does so again, twice as long each time, until it is placed where it evicted;
//   - a queue that was taken from waits likewise before it takes from others;
//   - a gang of a group for whose other gangs there would be no room all the same waits likewise, and nothing is evicted for it.
//
// The first eviction of a gang is never held up. It takes as little as it can: see [victims].
package evictions

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in metrics and logs.
const Name = "evictions"

// How long a gang that has evicted, and a queue that was taken from, waits: from the first to the last value.
const (
	firstWait = time.Second
	lastWait  = 60 * time.Second
)

// The actions that evict for a gang, by their names in the conf.
const (
	preempt = "preempt"
	reclaim = "reclaim"
)

type plugin struct {
	// gangs wait after they have evicted, queues after they were taken from; these are kept by their names.
	gangs, queues *binding.Backoff
	// claims are of the gangs for which something was evicted and that are not placed yet.
	claims map[api.JobID]*claim
	// promised says of a gang with a claim that some of its victims were still there when the session opened, or had
	// gone since the last.
	promised map[api.JobID]bool
}

// claim is what was evicted for a gang: victims, by their gangs, for the nominees.
type claim struct {
	nominees map[api.TaskID]bool
	victims  map[api.TaskID]api.JobID
	// open is true if the victims are not known to have been gone when a session opened.
	open bool
}

// Spec declares the plugin. It is one for all configurations: who evicted a moment ago, or was taken from, is no other with a
// new one.
func Spec() framework.PluginSpec {
	p := newPlugin()
	return framework.PluginSpec{
		Name:         Name,
		Doc:          "Keeps preempt and reclaim from evicting again and again for the same gang, or to and fro between queues.",
		VerdictScope: framework.PerTaskClass, // it judges no nodes
		Reads:        framework.SomePodKeys(),
		New: func(framework.Arguments, framework.Handle) (framework.Plugin, error) {
			return p, nil
		},
	}
}

// Tier is the tier that is put before all others: what was made free is not for a gang that is bound in part either, which
// may be so because it was taken from.
func Tier() conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledJobOrder: &yes, EnabledPreemptable: &yes, EnabledReclaimable: &yes, EnabledNodeOrder: &yes,
	}}}
}

func newPlugin() *plugin {
	return &plugin{
		gangs:  binding.NewBackoff(firstWait, lastWait, 0, func() {}), // a cycle runs every period while a gang waits
		queues: binding.NewBackoff(firstWait, lastWait, 0, func() {}),
		claims: map[api.JobID]*claim{},
	}
}

func (p *plugin) Name() string { return Name }

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.settle(ssn)
	ssn.AddUrgentFn(Name, func(job *api.JobInfo) bool { return p.promised[job.UID] })
	ssn.AddJobOrderFn(Name, func(l, r any) int {
		left, right := p.promised[l.(*api.JobInfo).UID], p.promised[r.(*api.JobInfo).UID]
		switch {
		case left == right:
			return 0
		case left:
			return -1
		default:
			return 1
		}
	})
	(&victims{ssn: ssn}).register()
	ssn.AddJobValidFn(Name, func(obj any) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok || ssn.Action != preempt && ssn.Action != reclaim {
			return nil
		}
		if reason, _, blocked := p.gangs.Blocked(job.UID); blocked {
			return &api.ValidateResult{Reason: "WaitingAfterEviction", Message: reason}
		}
		if reason, _, blocked := p.queues.Blocked(api.JobID(job.Queue)); blocked && ssn.Action == reclaim {
			return &api.ValidateResult{Reason: "WaitingAfterEviction", Message: reason}
		}
		return nil
	})
}

// settle closes the claims that are met or void, and says which gangs are to be placed first. The session in which the
// last victim is gone is the one in which the gang gets the room, or does not.
func (p *plugin) settle(ssn *framework.Session) {
	p.promised = map[api.JobID]bool{}
	for uid, c := range p.claims {
		job := ssn.Jobs[uid]
		if job == nil || !c.waits(job) {
			p.gangs.Forget(uid)
			delete(p.claims, uid)
			continue
		}
		p.promised[uid] = c.open
		c.open = c.open && c.leaving(ssn)
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

// OnSessionClose notes what the session has evicted, and for whom.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	for uid, nominees := range ssn.Withdrawn() {
		if p.claims[uid] == nil {
			p.claims[uid] = &claim{nominees: map[api.TaskID]bool{}}
		}
		for _, task := range nominees {
			p.claims[uid].nominees[task.UID] = true
		}
		p.gangs.Failed(uid, "what could be evicted for it would not be enough for all gangs of its group")
	}
	victims := map[string][]framework.Eviction{}
	for _, e := range ssn.Evictions() {
		if e.Action == preempt || e.Action == reclaim {
			victims[e.Task.NodeName] = append(victims[e.Task.NodeName], e)
		}
	}
	if len(victims) == 0 {
		return
	}
	for uid, job := range ssn.Jobs {
		c := &claim{nominees: map[api.TaskID]bool{}, victims: map[api.TaskID]api.JobID{}, open: true}
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if !task.EvictionOccurred {
				continue
			}
			c.nominees[task.UID] = true
			for _, e := range victims[task.NodeName] {
				c.victims[e.Task.UID] = e.Task.Job
			}
		}
		if len(c.nominees) > 0 {
			p.claims[uid] = c
			p.gangs.Failed(uid, "it has had pods evicted and is not placed yet")
		}
	}
	p.noteQueues(ssn, victims)
}

// noteQueues lets the queues wait that were taken from.
func (p *plugin) noteQueues(ssn *framework.Session, victims map[string][]framework.Eviction) {
	taken := map[api.QueueID]bool{}
	for _, evictions := range victims {
		for _, e := range evictions {
			job := ssn.Jobs[e.Task.Job]
			if e.Action == reclaim && job != nil && !taken[job.Queue] {
				taken[job.Queue] = true
				p.queues.Failed(api.JobID(job.Queue), "pods of its queue were evicted for another queue a moment ago")
			}
		}
	}
}
