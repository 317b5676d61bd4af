// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"time"

	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "volumebinding"

// stepGrace is added to the time limit for binding claims. The pre-bind step needs this time to return an error that names the
// claims that were not bound.
const stepGrace = 5 * time.Second

// Spec declares the plugin. Plugin instances that are built from one Spec on the same informers share their assumed volumes and
// claims.
func Spec() framework.PluginSpec {
	known := &framework.Kept[*volumes]{}
	return framework.PluginSpec{
		Name:      Name,
		Doc:       "Finds, reserves and binds the volumes of claims, gang by gang, in place of `predicates`; and keeps pods apart that may not share a volume.",
		Arguments: arguments(),
		BuiltIn:   true,
		Load: func(args framework.Arguments) (framework.Builder, error) {
			settings, err := load(args)
			return func(h framework.Handle) (framework.Plugin, error) {
				volumes, err := known.Of(h, newVolumes)
				if err != nil {
					return nil, err
				}
				volumes.unrecovered.Join()
				return &plugin{settings: settings, volumes: volumes}, nil
			}, err
		},
		TakesOver:   []framework.Switch{{Plugin: predicates.PluginName, Argument: predicates.VolumeBindingEnable, Value: false}},
		LeavesTasks: true,
	}
}

type plugin struct {
	settings
	volumes *volumes
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

// OnSessionOpen implements framework.Plugin: it adds the plugin's pre-predicate, predicate and score function to the session.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := newSession(p, ssn.Nodes, ssn.Jobs)
	p.session = s
	s.users.watch(ssn)
	ssn.AddPrePredicateFn(Name, s.prePredicate)
	ssn.AddPredicateFn(Name, s.predicate)
	if p.scores() {
		ssn.AddNodeOrderFn(Name, s.nodeOrder)
	}
}

// SignTask implements framework.Signer: it returns how far filter results for the task may be cached.
func (s *session) SignTask(task *api.TaskInfo) framework.CacheScope {
	switch {
	case hasNoVolumes(task):
		return framework.Unaffected
	case s.uncacheable(task):
		return framework.Uncached
	default:
		return framework.PerTaskClass
	}
}

// PodKeys implements framework.Signer: the plugin's filter results and scores depend on no label or annotation of pods.
func (s *session) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// hasNoVolumes reports whether the task's pod has neither claims nor disks (volumes such as ISCSI that pods on a node cannot
// freely share). For such a pod, this plugin accepts all nodes.
func hasNoVolumes(task *api.TaskInfo) bool {
	return len(claimVolumes(task.Pod)) == 0 && !hasDisks(task.Pod)
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) { p.session = nil }

// PreBindOptions implements framework.PreBindOptioner: it sets the time limit of the plugin's pre-bind step.
func (p *plugin) PreBindOptions() []framework.PreBindOption {
	return []framework.PreBindOption{framework.WithTimeout(p.bindTimeout + stepGrace)}
}

// InSession implements framework.SessionScoped: it returns the plugin's state in the open session.
func (p *plugin) InSession() any { return p.session }

// scores reports whether the plugin scores nodes. The weight must not be 0. Also, a shape must be configured, or the feature gate
// StorageCapacityScoring of Kubernetes' scheduler must be on.
func (p *plugin) scores() bool {
	return p.weight > 0 && (len(p.shape) > 0 || feature.DefaultFeatureGate.Enabled(features.StorageCapacityScoring))
}

// Recover implements framework.Recoverer: it withdraws a former leader's writes for pods that were not bound.
func (p *plugin) Recover(ctx context.Context) error { return p.volumes.recover(ctx) }

// Close implements framework.Closer: the last instance ends the retries of withdrawing a former leader's writes.
func (p *plugin) Close() { p.volumes.unrecovered.Leave() }
