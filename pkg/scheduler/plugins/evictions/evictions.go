// SPDX-License-Identifier: Apache-2.0

// Package evictions is the built-in plugin that keeps evictions from storming. It is not named in the conf: the scheduler
// puts it before the first tier of every configuration.
//
// Upstream's preempt and reclaim evict for a gang in one session what it can have in a later one. If another gang has
// taken it by then they evict again, as often as there are sessions. So
//
//   - what is being freed for a gang is not given to another: the members that are to follow are placed first until the victims are gone,
//     or should be;
//   - a gang that has evicted waits before it does so again, twice as long each time, until it is placed where it evicted;
//   - a queue that was taken from waits likewise before it takes from others;
//   - a gang of a group for whose other gangs there would be no room all the same waits likewise, and nothing is evicted for it.
//
// An action takes at most a tenth of a second of a cycle, and one gang's search more, to look for what to evict for the gangs of a namespace,
// which take turns: see [turns].
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
	framework.NoVerdicts // its scores are for the actions that evict

	// gangs wait after they have evicted, queues after they were taken from; these are kept by their names.
	gangs, queues *binding.Backoff
	// claims are of the gangs for which something was evicted and that are not placed yet.
	claims map[api.JobID]*claim
	// promised are the nominees of the claims of which some victims were still there when the session opened, or had gone
	// since the last.
	promised map[api.JobID]map[api.TaskID]bool
	// noted are the claims of this session's evictions, taken the queues that they took from.
	noted map[api.JobID]bool
	taken map[api.QueueID]bool
	turns *turns
	// ssn is the session that is open, and searches are its.
	ssn      *framework.Session
	searches *searches
}

// Spec declares the plugin. It is one for all configurations: who evicted a moment ago, or was taken from, is no other with a
// new one.
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

// Tier is the tier that is put before all others: what was made free is not for a gang that is bound in part either, which
// may be so because it was taken from.
func Tier() conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledPreemptable: &yes, EnabledReclaimable: &yes, EnabledNodeOrder: &yes, EnabledPredicate: &yes,
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
		p.note(p.ssn, e)
	}
}

// Urgent implements framework.Prioritizer.
func (p *plugin) Urgent(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	promised := p.promised[job.UID]
	return promised, len(promised) > 0
}

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.ssn = ssn
	p.settle(ssn)
	p.noted, p.taken = map[api.JobID]bool{}, map[api.QueueID]bool{}
	(&victims{ssn: ssn}).register()
	p.searches = newSearches(ssn, p.turns)
	ssn.AddPrePredicateFn(Name, p.searches.admit)
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

// OnSessionClose lets the gangs wait for which evicting would be in vain.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	p.searches.end()
	p.ssn = nil
	for uid, nominees := range ssn.Withdrawn() {
		if p.claims[uid] == nil {
			p.claims[uid] = newClaim()
		}
		for _, task := range nominees {
			p.claims[uid].nominees[task.UID] = true
		}
		p.gangs.Failed(uid, "what could be evicted for it would not be enough for all gangs of its group")
	}
}
