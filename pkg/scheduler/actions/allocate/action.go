// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Action is this project's allocate action. It replaces Volcano's action of the same name and accepts the same arguments.
type Action struct {
	observe      func(result string)
	defaults     *options.ServerOption
	crossSession *crosssession.Cache
}

var (
	_ framework.Action = (*Action)(nil)
	_ framework.Pauser = (*Action)(nil)
)

// Option is an option of the allocate action, for New.
type Option func(*Action)

// WithTrialObserver calls observe after every trial placement of a gang in a node group, with its result: ready, waiting
// for resources being released, or infeasible.
func WithTrialObserver(observe func(result string)) Option {
	return func(a *Action) { a.observe = observe }
}

// WithAttemptLimit limits, for each namespace, the time of attempts to place gangs that find no room
// (crosssession.Turns). Without this option, results do not depend on the speed of the machine.
func WithAttemptLimit() Option {
	return func(a *Action) { a.crossSession.Turns.Limit() }
}

// New returns an allocate action with the options.
func New(opts ...Option) *Action {
	a := &Action{observe: func(string) {}, defaults: feasible.DefaultFlags(), crossSession: crosssession.New()}
	for _, opt := range opts {
		opt(a)
	}
	return a
}

// Name is the action's name in volcano-scheduler.conf.
func (*Action) Name() string { return "allocate" }

// Paused implements framework.Pauser.
func (a *Action) Paused(ssn *framework.Session, job *api.JobInfo) bool {
	return state.NewPauses(ssn, a.crossSession).Paused(job)
}

// Execute places the gangs of the session that fit: first the gangs that a plugin puts before all others (framework.Prioritizer), then queue
// by queue and job by job in the plugins' orders.
func (a *Action) Execute(ssn *framework.Session) {
	a.crossSession.BeginSession()
	takeBack(ssn)
	newScheduler(state.NewRun(ssn, a.crossSession, a.defaults, a.observe)).placeJobs()
}
