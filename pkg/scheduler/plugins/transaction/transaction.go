// SPDX-License-Identifier: Apache-2.0

// Package transaction is the built-in plugin that tells sessions of bind transactions. It is not named in the conf:
// the scheduler puts it before the first tier of every configuration.
//
// It leaves gangs out that wait out a failed transaction, and keeps them off the nodes they failed on while there is room
// elsewhere. It puts gangs first that are bound in part (halfbound.go), unless they were taken from (takenfrom.go).
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

// evictAfter is the argument that says how long a gang may stay bound in part before its members are evicted.
const evictAfter = "evictHalfBoundAfter"

// Gate says which gangs sessions leave out, and which nodes the others failed on.
type Gate interface {
	Blocked(gang api.JobID) (reason string, blocked bool)
	Avoid(gang api.JobID) []string
}

type plugin struct {
	framework.NoVerdicts // it has a pre-predicate only, which refuses nothing

	gate Gate
	// evictAfter is 0 when gangs bound in part are never evicted.
	evictAfter time.Duration
	// halfBound are the gangs of the session that are bound in part and wait, and since when they are.
	halfBound map[api.JobID]time.Time
	// ofGroup are those of them of which nobody is bound, but others of their group are.
	ofGroup map[api.JobID]bool
	// groups are those of the gangs that were asked about in this session, formerGroups in the one before.
	groups, formerGroups map[api.JobID]group
	// coscheduling is true if the plugin is configured that lets gangs be satisfied.
	coscheduling bool
	memory       *memory
}

// memory is what is handed on from one session to the next, and from one configuration to the next.
type memory struct {
	// binding are the gangs bound in part of which members are being bound, and since when they are without a pause.
	binding map[api.JobID]time.Time
	// seen is since when this leader has seen gangs bound in part: tenants may write their conditions.
	seen map[api.JobID]time.Time
	// takenFrom are the gangs that wait in their usual order although they are bound in part; nil before the leader's first session.
	takenFrom map[api.JobID]bool
	promises  promises
}

// Spec declares the plugin over the gate.
func Spec(gate Gate) framework.PluginSpec {
	shared := &memory{promises: newPromises()}
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

// Tier is the tier that is put before those of the conf. A gang that stays bound in part for longer than limit is
// evicted; 0 never evicts.
func Tier(limit time.Duration) conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledJobEnqueued: &yes, EnabledPredicate: &yes,
		Arguments: map[string]any{evictAfter: limit},
	}}}
}

var (
	_ framework.Avoider          = (*plugin)(nil)
	_ framework.EvictionObserver = (*plugin)(nil)
	_ framework.Prioritizer      = (*plugin)(nil)
)

func (p *plugin) Name() string { return Name }

// Avoid implements framework.Avoider: a gang keeps off the nodes it failed on.
func (p *plugin) Avoid(job *api.JobInfo) []string { return p.gate.Avoid(job.UID) }

// Urgent implements framework.Prioritizer: gangs bound in part go first, unless they were taken from.
func (p *plugin) Urgent(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	return nil, p.isHalfBound(job) && !p.memory.takenFrom[job.UID]
}

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	refused := leaveParents(ssn)
	p.findHalfBound(ssn)
	p.memory.promises.forgetPromises(ssn, time.Now())
	ssn.AddJobEnqueuedFn(Name, func(obj any) { p.memory.promises.noteLetIn(obj.(*api.JobInfo), time.Now()) })
	ssn.AddJobValidFn(Name, func(obj any) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok {
			return nil
		}
		if message := refused[job.UID]; message != "" {
			return &api.ValidateResult{Reason: framework.QueueHasChildren, Message: message}
		}
		if reason, blocked := p.gate.Blocked(job.UID); blocked {
			return &api.ValidateResult{Reason: framework.BindBackoff, Message: reason}
		}
		return nil
	})
	noteTurns(ssn, refused)
}

// noteTurns notes whose turn it is, before any other plugin is asked, and does not let in gangs that are refused.
func noteTurns(ssn *framework.Session, refused map[api.JobID]string) {
	ssn.AddJobEnqueueableFn(Name, func(obj any) int {
		job := obj.(*api.JobInfo)
		ssn.Turn(job.UID)
		if refused[job.UID] != "" {
			return util.Reject
		}
		return util.Abstain
	})
	ssn.AddPrePredicateFn(Name, func(task *api.TaskInfo) error {
		ssn.Turn(task.Job)
		readAffinity(ssn.GetCycleState(task.UID), task.Pod)
		return nil
	})
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(event *vcframework.Event) { ssn.Turn(event.Task.Job) },
		DeallocateFunc: func(event *vcframework.Event) { ssn.Turn(event.Task.Job) },
	})
}
