// SPDX-License-Identifier: Apache-2.0

// Package evictionbackoff is the built-in plugin that keeps evictions from repeating. It is not named in the conf: the scheduler puts it
// before the first tier of every configuration.
//
// Upstream's preempt and reclaim evict pods in one session for a gang that is placed in a later one. If another gang has taken the resources first, they evict again, in session after session. So
//
//   - resources released for a gang stay with it: its nominees are placed first until the victims have terminated, or should have;
//   - a gang that evicted pods pauses before it evicts again, twice as long each time, until it is placed;
//   - a queue that lost pods pauses in the same way before it reclaims from others;
//   - a gang whose group would not fit as a whole, or that would hold idle resources in a pause, pauses in the same way, and its evictions
//     are cancelled;
//   - victims count in their queue for all but the gang that they were evicted for: see [rooms];
//   - a gang that allocate places on idle resources only uses no node where resources are being released: see [pauses].
//
// An action searches for victims for at most a tenth of a second of a cycle for the gangs of a namespace, plus one gang's search.
// These gangs take turns: see [turns].
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

// How long a gang that evicted, and a queue that lost pods, pauses: from firstWait, doubling to lastWait.
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
	framework.NoFilter // its scores are for the actions that evict

	// gangs pause after they evicted, queues after they lost pods. Both outlive sessions, and are kept by name.
	gangs, queues *binding.Backoff
	// claims has an entry for each gang that evicted pods and is not placed yet.
	claims map[api.JobID]*claim
	// promised has the nominees of each claim that had victims when the session opened, or lost its last victim since the previous
	// one opened.
	promised map[api.JobID]map[api.TaskID]bool
	// noted are the gangs with claims of this session's evictions, taken the queues that lost pods in it.
	noted map[api.JobID]bool
	taken map[api.QueueID]bool
	turns *turns
	// ssn is the open session, and searches belongs to it.
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

// Tier is the tier before all others. Resources that were released for one gang are not for a gang that is bound in part either: it
// may be so because its members were evicted.
func Tier() conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledPreemptable: &yes, EnabledReclaimable: &yes, EnabledNodeOrder: &yes, EnabledPredicate: &yes, EnabledAllocatable: &yes,
	}}}
}

func newPlugin() *plugin {
	return &plugin{
		gangs:  binding.NewBackoff(firstWait, lastWait, 0, func() {}), // a cycle runs every period while a gang waits
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
	paused := &pauses{ssn: ssn}
	ssn.AddPrePredicateFn(Name, func(task *api.TaskInfo) error {
		paused.begin(task)
		return p.searches.admit(task)
	})
	ssn.Session.AddPredicateFn(Name, paused.accepts) // not through our session: allocate does not ask it
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

// OnSessionClose starts the pause of gangs whose evictions would not help them.
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
