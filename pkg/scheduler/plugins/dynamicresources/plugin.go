// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "dynamicresources"

// stepGrace is added to the time limit for preparing devices. During this time a pre-bind step sends its writes, and returns its
// error if the devices are not ready.
const stepGrace = time.Minute

// Spec declares the plugin. Plugin instances that are built from one Spec on the same informers share their assumed allocations.
func Spec() framework.PluginSpec {
	known := &framework.Kept[*devices]{}
	return framework.PluginSpec{
		Name:      Name,
		Doc:       "Allocates devices for the resource claims (DRA) of pods, gang by gang, in place of `predicates`.",
		Arguments: arguments(),
		Load: func(args framework.Arguments) (framework.Builder, error) {
			settings, err := load(args)
			return func(h framework.Handle) (framework.Plugin, error) {
				devices, err := known.Of(h, newDevices)
				if err != nil {
					return nil, err
				}
				devices.unrecovered.Join()
				return &plugin{settings: settings, devices: devices}, nil
			}, err
		},
		TakesOver:   []framework.Switch{{Plugin: predicates.PluginName, Argument: predicates.DynamicResourceAllocationEnable, Value: false}},
		LeavesTasks: true,
	}
}

type plugin struct {
	settings
	devices *devices
	// session is the plugin's state in the open session; nil between sessions.
	session *session
}

var (
	_ framework.SessionScoped   = (*plugin)(nil)
	_ framework.Reserver        = (*session)(nil)
	_ framework.Signer          = (*session)(nil)
	_ framework.PreBindOptioner = (*plugin)(nil)
	_ framework.Recoverer       = (*plugin)(nil)
	_ framework.Closer          = (*plugin)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin: it adds the plugin's pre-predicate and predicate to the session.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := newSession(p, ssn.SharedDRAManager(), ssn.Jobs, func(task *api.TaskInfo, node *api.NodeInfo) bool {
		return framework.Waits(ssn, task, node)
	})
	p.session = s
	ssn.AddPrePredicateFn(Name, s.prePredicate)
	ssn.AddPredicateFn(Name, s.predicate)
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) { p.session = nil }

// PreBindOptions implements framework.PreBindOptioner: it sets the step's time limit, and the function to call for a bound pod.
func (p *plugin) PreBindOptions() []framework.PreBindOption {
	return []framework.PreBindOption{framework.WithTimeout(p.bindingTimeout + stepGrace), framework.WithBound(p.bound)}
}

// InSession implements framework.SessionScoped: it returns the plugin's state in the open session.
func (p *plugin) InSession() any { return p.session }

// SignTask implements framework.Signer: it returns how far filter results for the task may be cached.
func (s *session) SignTask(task *api.TaskInfo) framework.CacheScope {
	switch {
	case len(task.Pod.Spec.ResourceClaims) == 0:
		return framework.Unaffected
	case s.uncacheable(task):
		return framework.Uncached
	default:
		return framework.PerTaskClass
	}
}

// PodKeys implements framework.Signer: the plugin's filter results depend on no label or annotation of pods.
func (s *session) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// Recover implements framework.Recoverer: it withdraws a former leader's writes for pods that were not bound.
func (p *plugin) Recover(ctx context.Context) error { return p.devices.recover(ctx) }

// Close implements framework.Closer: the last instance ends the retries of withdrawing a former leader's writes.
func (p *plugin) Close() { p.devices.unrecovered.Leave() }
