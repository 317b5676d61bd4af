// SPDX-License-Identifier: Apache-2.0

// Package transaction is the built-in plugin that connects sessions with bind transactions. It is not named in the conf: the
// scheduler puts it before the first tier of every configuration.
//
// It leaves out gangs during the backoff after a failed transaction, and then avoids the nodes that they failed on while there is
// room elsewhere. It places partially bound gangs first (partiallybound.go), unless their members were evicted (takenfrom.go).
package transaction

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in metrics and logs.
const Name = "transaction"

// evictAfter is the argument for how long a gang may stay partially bound before its members are evicted.
const evictAfter = "evictHalfBoundAfter"

// Gate decides which gangs a session leaves out, and returns the nodes on which gangs failed.
type Gate interface {
	Blocked(gang api.JobID) (reason string, blocked bool)
	Avoid(gang api.JobID) []string
}

type plugin struct {
	framework.NoFilter // its only function is a pre-predicate that refuses nothing

	gate Gate
	// evictAfter is 0 if partially bound gangs are never evicted.
	evictAfter time.Duration
	// partiallyBound are the session's waiting gangs that are partially bound, with the start of that state.
	partiallyBound map[api.JobID]time.Time
	// ofGroup are the gangs of partiallyBound that have no bound members, while other gangs of their group have.
	ofGroup map[api.JobID]bool
	// groups caches the groups parsed in this session; formerGroups has the groups of the previous session.
	groups, formerGroups map[api.JobID]group
	// coscheduling reports whether plugin coscheduling, which records gangs as satisfied, is configured.
	coscheduling bool
	// opening reports whether the session is still being opened.
	opening bool
	memory  *memory
}

// memory is the state that outlives sessions and configurations.
type memory struct {
	// binding are the partially bound gangs whose other members are being bound, with the start of that state.
	binding map[api.JobID]time.Time
	// seen is since when this leader has seen a gang partially bound. The PodGroup's condition cannot be trusted for
	// that, because tenants may write it.
	seen map[api.JobID]time.Time
	// takenFrom are the gangs that are partially bound but wait in their usual order; nil before the leader's first
	// session.
	takenFrom map[api.JobID]bool
	// reported has the gangs whose condition this leader wrote or checked, with their value in takenFrom at that time, because the
	// message depends on that value.
	reported map[api.JobID]bool
	promises promises
}

// Spec declares the plugin with the gate.
func Spec(gate Gate) framework.PluginSpec {
	shared := &memory{promises: newPromises(), reported: map[api.JobID]bool{}}
	return framework.PluginSpec{
		Name:        Name,
		Doc:         "Delays gangs after a failed bind transaction, and schedules partially bound gangs first.",
		LeavesTasks: true,
		New: func(args framework.Arguments, _ framework.Handle) (framework.Plugin, error) {
			limit, _ := args[evictAfter].(time.Duration)
			return &plugin{gate: gate, evictAfter: limit, memory: shared}, nil
		},
	}
}

// Tier returns the tier before all tiers of the conf. A gang that stays partially bound for longer than limit is evicted; with 0 never.
func Tier(limit time.Duration) conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledJobEnqueued: &yes, EnabledPredicate: &yes,
		Arguments: map[string]any{evictAfter: limit},
	}}}
}

var (
	_ framework.PlacementGenerator = (*plugin)(nil)
	_ framework.EvictionObserver   = (*plugin)(nil)
	_ framework.Prioritizer        = (*plugin)(nil)
	_ framework.Starter            = (*plugin)(nil)
)

func (p *plugin) Name() string { return Name }

// Placement implements framework.PlacementGenerator: a gang avoids the nodes on which it failed.
func (p *plugin) Placement(job *api.JobInfo) (framework.Placement, error) {
	return framework.Placement{Avoid: p.gate.Avoid(job.UID)}, nil
}

// PlaceFirst implements framework.Prioritizer: partially bound gangs go first, unless their members were evicted.
func (p *plugin) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	return nil, p.isPartiallyBound(job) && !p.memory.takenFrom[job.UID]
}

// OnSessionStart implements framework.Starter.
func (p *plugin) OnSessionStart(*framework.Session) { p.opening = false }

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.opening = true
	refused := leaveParents(ssn)
	p.findPartiallyBound(ssn)
	p.memory.promises.forgetPromises(ssn, time.Now())
	ssn.AddJobEnqueuedFn(Name, func(obj any) { p.memory.promises.recordAdmitted(obj.(*api.JobInfo), time.Now()) })
	ssn.AddJobValidFn(Name, func(obj any) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok {
			return nil
		}
		if p.opening && len(job.TaskStatusIndex[api.Pending]) == 0 {
			return nothingPending
		}
		if message := refused[job.UID]; message != "" {
			return &api.ValidateResult{Reason: framework.QueueHasChildren, Message: message}
		}
		if reason, blocked := p.gate.Blocked(job.UID); blocked {
			return &api.ValidateResult{Reason: framework.BindBackoff, Message: reason}
		}
		return nil
	})
	recordCurrentJob(ssn, refused)
}

// nothingPending is the verdict on jobs without pending tasks while a session opens. Upstream asks for it then to create the cycle
// states of pending tasks of valid jobs; the other plugins would look at all tasks of all jobs for it.
var nothingPending = &api.ValidateResult{Message: "no task is pending"}

// recordCurrentJob reports to the session which gang is being scheduled, before any other plugin is called. It refuses admission to
// refused gangs.
func recordCurrentJob(ssn *framework.Session, refused map[api.JobID]string) {
	ssn.AddJobEnqueueableFn(Name, func(obj any) int {
		job := obj.(*api.JobInfo)
		ssn.SetCurrentJob(job.UID)
		if refused[job.UID] != "" {
			return util.Reject
		}
		return util.Abstain
	})
	ssn.AddPrePredicateFn(Name, func(task *api.TaskInfo) error {
		ssn.SetCurrentJob(task.Job)
		readAffinity(ssn.GetCycleState(task.UID), task.Pod)
		return nil
	})
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(event *vcframework.Event) { ssn.SetCurrentJob(event.Task.Job) },
		DeallocateFunc: func(event *vcframework.Event) { ssn.SetCurrentJob(event.Task.Job) },
	})
}
