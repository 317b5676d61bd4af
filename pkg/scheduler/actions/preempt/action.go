// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"volcano.sh/volcano/cmd/scheduler/app/options"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the action's name in volcano-scheduler.conf.
const Name = "preempt"

// The arguments of the action in volcano-scheduler.conf, beside those of upstream's action.
const (
	// WholeGangs selects this action instead of upstream's.
	WholeGangs = "wholeGangs"
	// Disruption is DisruptGang or DisruptPod.
	Disruption = "disruption"
)

const (
	// DisruptGang evicts a gang whole if the eviction would leave it with fewer pods than its minimum.
	DisruptGang = "gang"
	// DisruptPod evicts single pods, even if the rest of their gang is then below its minimum.
	DisruptPod = "pod"
)

// Action evicts pods for whole gangs if the configuration says so (WholeGangs). Otherwise it runs upstream's action.
type Action struct {
	upstream     vcframework.Action
	defaults     *options.ServerOption
	crossSession *crosssession.Cache
}

var _ framework.Action = (*Action)(nil)

// New returns the action.
func New() *Action {
	return &Action{upstream: vcpreempt.New(), defaults: feasible.DefaultFlags(), crossSession: crosssession.New()}
}

// Name implements framework.Action.
func (*Action) Name() string { return Name }

// Execute implements framework.Action.
func (a *Action) Execute(ssn *framework.Session) {
	args := vcframework.GetArgOfActionFromConf(ssn.Configurations, Name)
	if whole, _ := args[WholeGangs].(bool); !whole {
		a.upstream.Execute(ssn.Session)
		return
	}
	gangs := starving(ssn)
	if len(gangs) == 0 {
		return
	}
	a.crossSession.BeginSession()
	run := state.NewRun(ssn, a.crossSession, a.defaults, func(string) {})
	run.PipelineOnly = true
	p := &preemption{ssn: ssn, run: run, podByPod: args[Disruption] == DisruptPod, refused: map[string]string{}, judgedByPriority: judgedByPriority(ssn), known: map[unitsKey][]*unit{}}
	p.makeRoomForAll(gangs)
}
