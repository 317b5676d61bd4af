// SPDX-License-Identifier: Apache-2.0

// Package dynamicresources allocates devices for the ResourceClaims of gangs (KEP-4381), with Kubernetes' own
// allocator.
//
//	session                                              pre-bind, off the session loop
//	plan ──► assume ──► handed over ──────────────────► write ──► wait for binding conditions ──► bound
//	           │            │                             │                  │
//	           │ taken back │ released, begun or not      │ failed, or its gang was
//	           ▼            ▼                             ▼
//	        revert       withdraw the reservation, and the allocation if no other pod uses it, then revert
//
// A plan (plan.go) is the set of devices that a pod's claims would get on a node. To make one, the claims are checked
// (claims.go), the slices that the node reaches are found (inventory.go, reach.go), and impossible cases are excluded
// by a matching of requests with devices (demand.go, matching.go, selection.go). The allocator decides the rest, within
// a time limit (search.go). A plan may exchange the devices of members that were placed on the node before. Pods with
// equal claims share these results (equivalence.go). Assume marks the devices as allocated in the ledger (assume.go,
// ledger.go). Assumptions outlive sessions and configurations; they are kept in devices (devices.go), one for each set
// of informers. All writes are in prebind.go and withdraw.go, including those after a crash (recover.go) or the
// deletion of a node (stranded.go). conditions.go waits until devices are prepared.
//
// Invariants: no device is allocated or assumed exclusively for two claims. A claim is held as long as a placement of a pod
// relies on it, until that pod is bound or its rollback has succeeded. Allocations and reservations that another scheduler wrote
// are never undone, except the allocation of a claim that was generated for a pod, if its nodes no longer exist. No search runs
// under a mutex that another session, the cache or a step needs.
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

// stepGrace is the time that a pre-bind step has for its writes and its error, in addition to the time limit for preparing
// devices.
const stepGrace = time.Minute

// Spec declares the plugin. Plugin instances that are built from one Spec on the same informers share the allocations that they
// have assumed.
func Spec() framework.PluginSpec {
	known := &framework.Kept[*devices]{}
	return framework.PluginSpec{
		Name:      Name,
		Doc:       "Allocates devices for the resource claims (DRA) of pods, gang by gang, in place of `predicates`.",
		Arguments: arguments(),
		Validate: func(args framework.Arguments) error {
			_, err := load(args)
			return err
		},
		New: func(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
			settings, err := load(args)
			if err != nil {
				return nil, err
			}
			devices, err := known.Of(h, newDevices)
			if err != nil {
				return nil, err
			}
			return &plugin{settings: settings, devices: devices}, nil
		},
		TakesOver:   []framework.Switch{{Plugin: predicates.PluginName, Argument: predicates.DynamicResourceAllocationEnable, Value: false}},
		LeavesTasks: true,
	}
}

type plugin struct {
	settings
	devices *devices
	// session is the open session; nil between sessions.
	session *session
}

var (
	_ framework.SessionScoped   = (*plugin)(nil)
	_ framework.Reserver        = (*session)(nil)
	_ framework.Signer          = (*session)(nil)
	_ framework.PreBindOptioner = (*plugin)(nil)
	_ framework.Recoverer       = (*plugin)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := newSession(p, ssn.SharedDRAManager())
	p.session = s
	ssn.AddPrePredicateFn(Name, s.prePredicate)
	ssn.AddPredicateFn(Name, s.predicate)
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) { p.session = nil }

// PreBindOptions implements framework.PreBindOptioner.
func (p *plugin) PreBindOptions() []framework.PreBindOption {
	return []framework.PreBindOption{framework.WithTimeout(p.bindingTimeout + stepGrace), framework.WithBound(p.bound)}
}

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// SignTask implements framework.Signer.
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

// PodKeys implements framework.Signer.
func (s *session) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// Recover implements framework.Recoverer.
func (p *plugin) Recover(ctx context.Context) error { return p.devices.recover(ctx) }
