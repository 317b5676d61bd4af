// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "ibcluster"

// Spec declares the plugin. Plugins of the same scheduler that are built from one Spec share their memory.
func Spec() framework.PluginSpec {
	known := &framework.Kept[*memory]{}
	return framework.PluginSpec{
		Name:      Name,
		Doc:       "Keeps a gang in one InfiniBand cluster, and its neighbours by rank on one leaf switch where it can.",
		Arguments: arguments(),
		Load: func(args framework.Arguments) (framework.Builder, error) {
			settings, err := load(args)
			return func(h framework.Handle) (framework.Plugin, error) {
				memory, err := known.Of(h, newMemory)
				if err != nil {
					return nil, err
				}
				return newPlugin(settings, h, memory), nil
			}, err
		},
		LeavesTasks: true,
	}
}

// memory is what the plugin keeps from session to session, and over a reload of the configuration.
type memory struct {
	// reported has the problems of node groups that were reported, and when each was reported.
	reported map[string]time.Time
	// holdable has, for each admitted gang without placed members, the last time when some node group could hold the
	// gang.
	holdable map[api.JobID]time.Time
	// empty caches the node groups as if no pods ran, on which votes on admission are based; nil before the first vote.
	empty *emptyGroups
}

func newMemory(framework.Handle) (*memory, []cache.SharedIndexInformer, error) {
	return &memory{holdable: map[api.JobID]time.Time{}}, nil, nil
}

func newPlugin(settings settings, h framework.Handle, memory *memory) *plugin {
	p := &plugin{settings: settings, recorder: h.EventRecorder(), memory: memory, present: newPresentGroups(settings, h)}
	if settings.source == fromHyperNodes {
		p.hyperNodes = topology.NewHyperNodes(settings.levels...)
	} else {
		p.labels = topology.NewLabels(settings.levels...)
	}
	return p
}

type plugin struct {
	settings
	recorder record.EventRecorder
	// Exactly one of labels and hyperNodes is set: the source of the node groups. It caches the node groups while
	// they do not change.
	labels     *topology.Labels
	hyperNodes *topology.HyperNodes
	// present reads the current node groups from informers. Pre-bind steps use it, because they may run after the
	// session.
	present *presentGroups
	memory  *memory
	// session is the open session.
	session *session
}

var (
	_ framework.SessionScoped      = (*plugin)(nil)
	_ framework.AdmissionVoter     = (*session)(nil)
	_ framework.PlacementGenerator = (*session)(nil)
	_ framework.PlacementScorer    = (*session)(nil)
	_ framework.Signer             = (*session)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := p.open(ssn)
	p.reportProblems(ssn, s.forest.Problems())
	ssn.AddJobValidFn(Name, s.valid)
	ssn.AddPredicateFn(Name, s.predicate)
	ssn.AddEventHandler(s.eventHandler())
	s.addPreBind()
}

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	p.forgetHoldable(ssn)
	p.session = nil
}
