// SPDX-License-Identifier: Apache-2.0

// Package evictionbackoff is the built-in plugin that keeps evictions from repeating. It is not named in the conf: the scheduler puts it
// before the first tier of every configuration.
//
// Upstream's preempt and reclaim evict pods in one session for a gang that is placed in a later session. If another gang takes the resources first, the actions
// evict again, in session after session. So
//
//   - resources released for a gang stay with it: its nominees are placed first until the victims have terminated, or should have;
//   - a gang that evicted pods pauses before it evicts again, twice as long each time, until it is placed;
//   - a queue that lost pods pauses in the same way before it reclaims from others;
//   - a gang whose group would not fit as a whole, or that would hold idle resources in a pause, pauses in the same way, and its evictions
//     are cancelled;
//   - victims count in their queue for all but the gang that they were evicted for: see [rooms];
//   - a paused gang uses no node where resources are being released, except for its own victims' nodes: see [pauses].
//
// An action searches for victims for at most a tenth of a second of a cycle for the gangs of a namespace, plus one gang's search.
// The gangs of a namespace take turns: see [turns].
//
// The first eviction for a gang is never delayed. It takes as few pods as it can: see [victims].
package evictionbackoff

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in metrics and logs.
const Name = "evictions"

// A gang that evicted pods, and a queue that lost pods, pause for firstWait. The pause doubles each time, up to lastWait.
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
	framework.NoFilter // allocate does not call its predicate and scores

	// gangs has the pauses of gangs that evicted pods, queues the pauses of queues that lost pods. Both outlive sessions.
	gangs, queues *binding.Backoff
	// claims has an entry for each gang that evicted pods and is not placed yet.
	claims map[api.JobID]*claim
	// promised has, for gangs with claims, the nominees that are placed first. The claim had victims when this session opened, or
	// lost its last victim since the previous session opened.
	promised map[api.JobID]map[api.TaskID]bool
	// noted are the gangs that this session has evicted pods for. taken are the queues that have lost pods in this
	// session.
	noted map[api.JobID]bool
	taken map[api.QueueID]bool
	turns *turns
	// ssn is the open session. searches belongs to that session.
	ssn      *framework.Session
	searches *searches
}

// Spec declares the plugin. All configurations share one instance, because pauses and claims must outlive a reload.
func Spec() framework.PluginSpec {
	p := newPlugin()
	return framework.PluginSpec{
		Name:        Name,
		Doc:         "Keeps preempt and reclaim from evicting again and again for the same gang, or to and fro between queues.",
		LeavesTasks: true,
		New: func(framework.Arguments, framework.Handle) (framework.Plugin, error) {
			return p, nil
		},
	}
}

// Tier returns the tier that the scheduler puts before all others. It comes even before the plugin that lets partially bound gangs
// go first: such a gang gets no resources that were released for another gang, because it may be partially bound only because its
// own members were evicted.
func Tier() conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledPreemptable: &yes, EnabledReclaimable: &yes, EnabledNodeOrder: &yes, EnabledPredicate: &yes, EnabledAllocatable: &yes,
		EnabledJobReady: &yes,
	}}}
}

func newPlugin() *plugin {
	return &plugin{
		gangs:  binding.NewBackoff(firstWait, lastWait, 0, func() {}), // nothing needs to be woken: while a gang waits, a cycle runs every period
		queues: binding.NewBackoff(firstWait, lastWait, 0, func() {}),
		claims: map[api.JobID]*claim{},
		turns:  newTurns(),
	}
}

var (
	_ framework.Prioritizer      = (*plugin)(nil)
	_ framework.EvictionObserver = (*plugin)(nil)
)

func (p *plugin) Name() string { return Name }

// Evicted implements framework.EvictionObserver.
func (p *plugin) Evicted(e framework.Eviction) {
	if evicts(e.Action) {
		p.recordEviction(p.ssn, e)
	}
}

// PlaceFirst implements framework.Prioritizer.
func (p *plugin) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	promised := p.promised[job.UID]
	return promised, len(promised) > 0
}

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.ssn = ssn
	p.closeClaims(ssn)
	p.noted, p.taken = map[api.JobID]bool{}, map[api.QueueID]bool{}
	(&victims{ssn: ssn}).register()
	p.openRooms(ssn)
	p.searches = newSearches(ssn, p.turns)
	paused := &pauses{ssn: ssn, of: p}
	ssn.AddPrePredicateFn(Name, func(task *api.TaskInfo) error {
		paused.begin(task)
		return p.searches.admit(task)
	})
	ssn.Session.AddPredicateFn(Name, paused.accepts) // not with ssn's method, so that allocate treats the plugin as one without a predicate
	ssn.AddJobValidFn(Name, func(obj any) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok || !evicts(ssn.Action) {
			return nil
		}
		if p.turns.had(ssn, job) {
			return &api.ValidateResult{Reason: waitsForTurn, Message: errWaitsForTurn.Error()}
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

// OnSessionClose starts the pause of gangs whose evictions were cancelled, because they would not have helped the gang.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	p.searches.end()
	p.ssn = nil
	for uid, nominees := range ssn.CancelledEvictions() {
		if p.claims[uid] == nil {
			p.claims[uid] = newClaim()
		}
		for _, task := range nominees {
			p.claims[uid].nominees[task.UID] = true
		}
		p.gangs.Failed(uid, "no pods were evicted for the gang, because that would not free enough for all gangs of its group, or because the gang would hold idle resources in a pause")
	}
}
