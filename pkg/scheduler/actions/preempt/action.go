// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"time"

	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// The names of the actions in volcano-scheduler.conf.
const (
	Name        = "preempt"
	ReclaimName = "reclaim"
)

// The arguments of both actions in volcano-scheduler.conf.
const (
	// Disruption is DisruptGang or DisruptPod.
	Disruption = "disruption"
	// Delay is how long a pending pod of a gang waits at least before pods are evicted for the gang (DelayAnnotation).
	Delay = "delay"
)

const (
	// DisruptGang evicts a gang whole if the eviction would leave it with fewer pods than its minimum.
	DisruptGang = "gang"
	// DisruptPod evicts single pods, even if the rest of their gang is then below its minimum.
	DisruptPod = "pod"
)

// Action evicts pods for whole gangs.
type Action struct {
	name         string
	defaults     *options.ServerOption
	crossSession *crosssession.Cache
	memory       memory
	observe      Observer
}

// Try is a try to make room for a gang, or for the gangs of a gang group together.
type Try struct {
	Gangs  []api.JobID
	Action string
	// Result is Evicted, NotNeeded or Refused. Why says why pods are not evicted; empty for other results than Refused.
	Result, Why string
	// Places are where the members of each gang wait for the evicted pods: a node group, a HyperNode, or the whole cluster.
	Places []string
	// Evicted are the evicted pods, and Lost is the work that they lose. PutBack is the number of pods that the plan had chosen, too,
	// until it was found that they need not go.
	Evicted []*api.TaskInfo
	PutBack int
	Lost    time.Duration
	// Took is how long the try took.
	Took time.Duration
}

// Observer receives each try; nil if nothing observes them. Gangs that are known to get no room, because nothing has changed since
// they were last tried, are not tried again.
type Observer func(Try)

// The results of tries. With NotNeeded, the gang fits without evictions.
const (
	Evicted   = "evicted"
	NotNeeded = "not_needed"
	Refused   = "refused"
)

var _ framework.Action = (*Action)(nil)

// New returns action preempt, which evicts pods of a queue for gangs of higher priority in the same queue. observe is called
// for each try.
func New(observe Observer) *Action { return newAction(Name, observe) }

// NewReclaim returns action reclaim, which evicts pods of queues that use more than their share for gangs of other queues.
// observe is called for each try.
func NewReclaim(observe Observer) *Action { return newAction(ReclaimName, observe) }

func newAction(name string, observe Observer) *Action {
	return &Action{name: name, observe: observe, defaults: feasible.DefaultFlags(), crossSession: crosssession.New()}
}

// Name implements framework.Action.
func (a *Action) Name() string { return a.name }

// Execute implements framework.Action.
func (a *Action) Execute(ssn *framework.Session) {
	args := vcframework.GetArgOfActionFromConf(ssn.Configurations, a.name)
	others := a.memory.divide(ssn)
	gangs := starving(ssn, others)
	if len(gangs)+len(a.memory.excluded) == 0 {
		return
	}
	a.crossSession.BeginSession()
	run := state.NewRun(ssn, a.crossSession, a.defaults, func(string) {})
	run.PipelineOnly = true
	a.memory.beginSession(ssn.Jobs)
	wait, _ := args[Delay].(string)
	delay, _ := time.ParseDuration(wait) // checked with the configuration
	p := &preemption{
		ssn: ssn, run: run, candidates: newCandidates(ssn, a.name, others, args[Disruption] == DisruptPod), delay: delay,
		observe: a.observe, memory: &a.memory, sent: slices.Clone(ssn.Evicted()),
	}
	gangs = append(gangs, p.explainExcluded()...)
	p.makeRoomForAll(inOrder(ssn, gangs))
}
