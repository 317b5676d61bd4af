// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"time"

	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in metrics and logs.
const Name = "transaction"

// evictAfter is the name of the argument for how long a gang may stay partially bound before its members are evicted.
const evictAfter = "evictPartiallyBoundAfter"

// Gate decides which gangs a session leaves out, and which nodes a gang avoids because its members failed on them.
type Gate interface {
	Blocked(gang api.JobID) (reason string, blocked bool)
	Avoid(gang api.JobID) []string
}

type plugin struct {
	framework.NoFilter // the plugin's only filter is a pre-predicate that refuses nothing

	gate Gate
	// evictAfter is how long a gang may stay partially bound before its members are evicted; 0 if they are never evicted.
	evictAfter time.Duration
	// partiallyBound has the session's waiting gangs that are partially bound, and since when this leader has seen them in
	// this state.
	partiallyBound map[api.JobID]time.Time
	// ofGroup has the gangs without bound members that are below their minimum although other gangs of their gang group
	// have bound members.
	ofGroup map[api.JobID]bool
	// first has the partially bound gangs that are placed first, each with the members that go first. The other partially
	// bound gangs wait in their usual order.
	first map[api.JobID]map[api.TaskID]bool
	// groups caches the gang groups that were parsed in this session. formerGroups is the cache of the previous
	// session.
	groups, formerGroups map[api.JobID]group
	// coscheduling reports whether plugin coscheduling is configured. That plugin records in conditions which gangs were
	// satisfied.
	coscheduling bool
	// opening reports whether the session is still being opened.
	opening bool
	memory  *memory
}

// memory is the state of the plugin that outlives sessions and changes of the configuration.
type memory struct {
	// binding has the partially bound gangs whose other members are being bound, and since when these members are being
	// bound.
	binding map[api.JobID]time.Time
	// seen has, by gang, since when this leader has seen the gang partially bound. The plugin does not use the time in the
	// PodGroup's condition, because tenants may write the condition.
	seen map[api.JobID]time.Time
	// interrupted has the members of each gang that earlier sessions handed over to be bound, until the gang has its
	// minimum (interrupted.go); nil before the leader's first session.
	interrupted map[api.JobID]*interruptedBind
	// reported has the gangs whose condition PartiallyBound this leader has written. The value reports whether the gang
	// was placed first at that time, because the condition's message depends on it.
	reported map[api.JobID]bool
}

func newMemory(framework.Handle) (*memory, []cache.SharedIndexInformer, error) {
	return &memory{reported: map[api.JobID]bool{}}, nil, nil
}

// Spec declares the plugin. gate decides which gangs and nodes the plugin leaves out.
func Spec(gate Gate) framework.PluginSpec {
	known := &framework.Kept[*memory]{}
	return framework.PluginSpec{
		Name:        Name,
		Doc:         "Delays gangs after a failed bind transaction, and schedules partially bound gangs first.",
		LeavesTasks: true,
		Load: func(args framework.Arguments) (framework.Builder, error) {
			limit, _ := args[evictAfter].(time.Duration)
			return func(h framework.Handle) (framework.Plugin, error) {
				memory, err := known.Of(h, newMemory)
				if err != nil {
					return nil, err
				}
				return &plugin{gate: gate, evictAfter: limit, memory: memory}, nil
			}, nil
		},
	}
}

// Tier returns the tier with this plugin, which goes before all tiers of the configuration. A gang that stays partially
// bound for longer than limit is evicted; with limit 0 it is never evicted.
func Tier(limit time.Duration) conf.Tier {
	yes := true
	return conf.Tier{Plugins: []conf.PluginOption{{
		Name: Name, EnabledJobEnqueued: &yes, EnabledPredicate: &yes,
		Arguments: map[string]any{evictAfter: limit},
	}}}
}

var (
	_ framework.PlacementGenerator = (*plugin)(nil)
	_ framework.Prioritizer        = (*plugin)(nil)
	_ framework.Starter            = (*plugin)(nil)
)

func (p *plugin) Name() string { return Name }

// Placement implements framework.PlacementGenerator: a gang avoids the nodes on which its members failed to bind.
func (p *plugin) Placement(job *api.JobInfo) (framework.Placement, error) {
	return framework.Placement{Avoid: p.gate.Avoid(job.UID)}, nil
}

// PlaceFirst implements framework.Prioritizer. It returns the gang's members whose bind was interrupted, if they go first.
func (p *plugin) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	first := p.first[job.UID]
	return first, first != nil
}

// OnSessionStart implements framework.Starter.
func (p *plugin) OnSessionStart(*framework.Session) { p.opening = false }

func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.opening = true
	refused := leaveParents(ssn)
	p.findPartiallyBound(ssn)
	ssn.AddJobValidFn(Name, func(obj any) *api.ValidateResult {
		job, ok := obj.(*api.JobInfo)
		if !ok {
			return nil
		}
		if p.opening {
			return notYet
		}
		if message := refused[job.UID]; message != "" {
			return &api.ValidateResult{Reason: framework.QueueHasChildren, Message: message}
		}
		if reason, blocked := p.gate.Blocked(job.UID); blocked {
			return &api.ValidateResult{Reason: framework.BindBackoff, Message: reason}
		}
		return nil
	})
	p.recordCurrentJob(ssn, refused)
}

// notYet marks all jobs as not valid while a session opens. At that time upstream asks which jobs are valid only to create
// the cycle states of their pending tasks. Most of these tasks are not tried in the session: their gangs fit nowhere, as
// in the last session. So the cycle state of a task is created when it is first used, in the pre-predicate below. Filters
// run in parallel only after that.
var notYet = &api.ValidateResult{Message: "the session is still being opened"}

// recordCurrentJob registers functions that record in the session which gang is being scheduled. They are called before
// the functions of the configuration's plugins, except the votes of an AdmissionVoter. The
// function for votes also refuses to admit the gangs in refused.
func (p *plugin) recordCurrentJob(ssn *framework.Session, refused map[api.JobID]string) {
	p.limitAdmitted(ssn)
	ssn.AddJobEnqueueableFn(Name, func(obj any) int {
		job := obj.(*api.JobInfo)
		ssn.SetCurrentJob(job.UID)
		if refused[job.UID] != "" {
			return util.Reject
		}
		ssn.QueueUse.BeginVote(job)
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
