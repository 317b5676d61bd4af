// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"time"

	"volcano.sh/volcano/cmd/scheduler/app/options"
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

// Observer receives the result of each try to make room for a gang or gang group: the name of the action, Evicted, NotNeeded
// or Refused, the number of evicted pods, and the work that they lose.
type Observer func(action, result string, pods int, lost time.Duration)

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
