// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"time"

	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in metrics and logs.
const Name = "evictionbackoff"

// A gang that evicted pods pauses before it evicts again. A queue that lost pods pauses before it reclaims. The first
// pause lasts firstWait. The pause doubles each time, up to lastWait.
const (
	firstWait = time.Second
	lastWait  = 60 * time.Second
)

// The actions that evict pods for a gang, by their names in the conf. Upstream's evict for one member after the other.
const (
	preempt          = "preempt"
	reclaim          = "reclaim"
	upstreamsPreempt = "preempt-upstream"
	upstreamsReclaim = "reclaim-upstream"
)

func evicts(action string) bool {
	return action == preempt || reclaims(action) || action == upstreamsPreempt
}

func reclaims(action string) bool { return action == reclaim || action == upstreamsReclaim }

type plugin struct {
	framework.NoFilter

	// gangs has the pauses of gangs that evicted pods. queues has the pauses of queues that lost pods. Both outlive
	// sessions.
	gangs, queues *binding.Backoff
	// claims has an entry for each gang that evicted pods and is not placed yet.
	claims map[api.JobID]*claim
	// promised has, for each gang whose claim was open (claim.open) and not expired when this session opened, the tasks
	// that the session places first (claim.promised).
	promised map[api.JobID]map[api.TaskID]bool
	// noted are the gangs for which pods were evicted in this session. taken are the queues from which reclaim
	// evicted pods in this session.
	noted map[api.JobID]bool
	taken map[api.QueueID]bool
	turns *turns
	// adopted reports whether the claims of a former leader were adopted.
	adopted bool
	// ssn is the open session. rooms has the rooms of gangs in that session; nil if no gang has a room. searches limits
	// the searches for victims in that session.
	ssn      *framework.Session
	rooms    *rooms
	searches *searches
}

// Spec declares the plugin. All configurations share one instance, because pauses and claims must outlive a reload.
func Spec() framework.PluginSpec {
	known := &framework.Kept[*plugin]{}
	return framework.PluginSpec{
		Name:        Name,
		Doc:         "Keeps preempt and reclaim from evicting again and again for the same gang, or to and fro between queues.",
		LeavesTasks: true,
		Load: framework.WithoutArguments(func(h framework.Handle) (framework.Plugin, error) {
			p, err := known.Of(h, func(framework.Handle) (*plugin, []cache.SharedIndexInformer, error) { return newPlugin(), nil, nil })
			if err != nil {
				return nil, err
			}
			return p, nil
		}),
	}
}

// Tier returns the tier that the scheduler puts before all others, even before the plugin that places partially bound
// gangs first. A partially bound gang must not get resources that were released for another gang: it may be partially
// bound only because its own members were evicted.
func Tier() conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledPredicate: &yes, EnabledAllocatable: &yes, EnabledJobReady: &yes,
	}}}
}

func newPlugin() *plugin {
	return &plugin{
		gangs:  binding.NewBackoff(firstWait, lastWait, 0, func() {}), // no wake-up when a pause ends: cycles run while gangs wait
		queues: binding.NewBackoff(firstWait, lastWait, 0, func() {}),
		claims: map[api.JobID]*claim{},
		turns:  newTurns(),
	}
}

var (
	_ framework.Prioritizer     = (*plugin)(nil)
	_ framework.EvictionTracker = (*plugin)(nil)
)

func (p *plugin) Name() string { return Name }

// Evicted implements framework.EvictionTracker.
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

// Nominees implements framework.EvictionTracker.
func (p *plugin) Nominees(job *api.JobInfo) map[api.TaskID]bool { return p.promised[job.UID] }

// Leaving implements framework.EvictionTracker.
func (p *plugin) Leaving(task *api.TaskInfo) []*api.TaskInfo {
	if p.rooms == nil {
		return nil
	}
	return p.rooms.leaving(task)
}

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.ssn = ssn
	p.openClaims(ssn)
	p.noted, p.taken = map[api.JobID]bool{}, map[api.QueueID]bool{}
	p.openRooms(ssn)
	p.searches = newSearches(ssn, p.turns)
	ssn.AddPrePredicateFn(Name, p.searches.admit)
	ssn.AddJobValidFn(Name, func(obj any) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok || !evicts(ssn.Action) {
			return nil
		}
		if why := upstreamsSkip(ssn, job); why != "" {
			return &api.ValidateResult{Reason: "NotEvictedFor", Message: why}
		}
		if ssn.Placements.IsUntried(job.UID) {
			return &api.ValidateResult{Reason: framework.NotTried, Message: "not tried in this cycle, so it may fit without evictions"}
		}
		if p.turns.had(ssn, job) {
			return &api.ValidateResult{Reason: waitsForTurn, Message: errWaitsForTurn.Error()}
		}
		if reason, _, blocked := p.gangs.Blocked(job.UID); blocked {
			return &api.ValidateResult{Reason: "WaitingAfterEviction", Message: reason}
		}
		if reason, _, blocked := p.queues.Blocked(api.JobID(job.Queue)); blocked && reclaims(ssn.Action) {
			return &api.ValidateResult{Reason: "WaitingAfterEviction", Message: reason}
		}
		return nil
	})
}

// upstreamsSkip returns why upstream's actions evict no pods for the job; empty if they may. They plan for one member after the
// other, so they could evict pods for a part of a gang group, or for a gang that then holds idle resources.
func upstreamsSkip(ssn *framework.Session, job *api.JobInfo) string {
	if ssn.Action != upstreamsPreempt && ssn.Action != upstreamsReclaim {
		return ""
	}
	if gangs, all := framework.Companions(ssn.Jobs, ssn.Placements.GangGroup(job)); len(gangs) > 0 || !all {
		return "upstream's actions evict no pods for gang groups"
	}
	if ssn.Paused(job) {
		return "the gang may be placed on idle resources only, for now"
	}
	return ""
}

// OnSessionClose ends the round of searches for victims, and keeps the claims of gangs that were not tried.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	p.searches.end()
	p.ssn, p.rooms = nil, nil
	p.keepUntried(ssn)
}
