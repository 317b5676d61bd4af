// SPDX-License-Identifier: Apache-2.0

// Package dynamicresources allocates devices for the ResourceClaims of gangs (KEP-4381), with Kubernetes' own allocator.
//
//	session                                              pre-bind, off the session loop
//	plan ──► assume ──► handed over ──────────────────► write ──► wait for binding conditions ──► bound
//	           │            │                             │                  │
//	           │ taken back │ released, begun or not      │ failed, or its gang was
//	           ▼            ▼                             ▼
//	        revert       withdraw the reservation, and the allocation if nobody else uses it, then revert
//
// A plan says which devices a pod's claims would have on a node (plan.go): each claim is read and looked at (claims.go), what the node
// reaches is found (inventory.go, reach.go), what cannot be is told from a matching of requests with devices (demand.go, matching.go,
// selection.go), and the rest is the allocator's (search.go), with a limit to its time. A plan may give other devices to claims of
// members that were placed on the node before. Which pods have equal claims, and so share what is found, is in alike.go. Assume has
// the ledger show devices as allocated (hold.go, ledger.go). What is assumed outlives sessions and configurations: it is in the devices
// of one set of informers (devices.go). All writes are in prebind.go and withdraw.go, also those after a crash (recover.go) or the
// deletion of a node (stranded.go); what devices are waited for is in conditions.go.
//
// Invariants: no two claims have one device for themselves, of what is allocated and assumed together. A claim is held as long as a
// pod is placed by it, until that pod is bound or its rollback has succeeded. What others allocated or reserved is never undone, but for a
// pod's own claim whose node no longer exists. No search
// is made under a mutex that another session, the cache or a step needs.
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

// stepGrace is the step's time for its writes and messages, in addition to the time for preparing devices.
const stepGrace = time.Minute

// Spec declares the plugin. Plugins built from one Spec on the same informers share their assumptions.
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
	// session is the one that is open.
	session *session
}

var (
	_ framework.SessionScoped  = (*plugin)(nil)
	_ framework.Reserver       = (*session)(nil)
	_ framework.Signer         = (*session)(nil)
	_ framework.ClaimSigner    = (*session)(nil)
	_ framework.TimedPreBinder = (*plugin)(nil)
	_ framework.BoundObserver  = (*plugin)(nil)
	_ framework.Recoverer      = (*plugin)(nil)
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

// PreBindTimeout implements framework.TimedPreBinder.
func (p *plugin) PreBindTimeout() time.Duration { return p.bindingTimeout + stepGrace }

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// SignTask implements framework.Signer.
func (s *session) SignTask(task *api.TaskInfo) framework.VerdictScope {
	switch {
	case len(task.Pod.Spec.ResourceClaims) == 0:
		return framework.NoVerdict
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
