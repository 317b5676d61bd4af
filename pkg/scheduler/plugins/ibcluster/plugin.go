// SPDX-License-Identifier: Apache-2.0

// Package ibcluster keeps a gang in one InfiniBand cluster: a group of nodes named by labels or HyperNodes.
//
// What the groups are is read in package topology. What a gang wants is read from its PodGroup's annotations
// (annotations.go). From both, and from where its members are, follows where its other members may go (gangscope.go), which
// the plugin tells allocate (groups.go, score.go, rank.go) and enforces in every action (predicate.go); a gang that no
// group could hold when it is empty (emptygroups.go, wantedmembers.go) is not let in (enqueue.go), or nothing is promised to it (forecast.go). For actions that
// evict it picks the cluster that needs the fewest evictions (target.go, evictions.go). Before a
// member is bound it looks once more whether the node is where it was (prebind.go).
package ibcluster

import (
	"time"

	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// Name is the plugin's name in volcano-scheduler.conf.
const Name = "ibcluster"

// Spec tells of the plugin.
func Spec() framework.PluginSpec {
	return framework.PluginSpec{
		Name:      Name,
		Doc:       "Keeps a gang in one InfiniBand cluster, and its neighbours by rank on one leaf switch where it can.",
		Arguments: arguments(),
		Validate: func(args framework.Arguments) error {
			_, err := load(args)
			return err
		},
		New:         New,
		LeavesTasks: true,
	}
}

// New builds the plugin. Its errors are those of Spec().Validate.
func New(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
	settings, err := load(args)
	if err != nil {
		return nil, err
	}
	p := &plugin{settings: settings, recorder: h.EventRecorder(), told: map[string]time.Time{}, tried: map[target]map[string]bool{},
		holdable: map[api.JobID]time.Time{}, present: newPresentGroups(settings, h)}
	if settings.source == fromHyperNodes {
		p.hyperNodes = topology.NewHyperNodes(settings.levels...)
	} else {
		p.labels = topology.NewLabels(settings.levels...)
	}
	return p, nil
}

type plugin struct {
	settings
	recorder record.EventRecorder
	// One of these is the source of groups; both keep the last forest while nothing changes.
	labels     *topology.Labels
	hyperNodes *topology.HyperNodes
	// present tells pre-bind steps in which groups nodes are now.
	present *presentGroups
	// told are the problems of the forest that an event has told of, and when.
	told map[string]time.Time
	// tried are the groups that an action was sent to for a gang without success, by path.
	tried map[target]map[string]bool
	// holdable is when a group could last hold each gang that was let in and of which nothing is placed.
	holdable map[api.JobID]time.Time
	// empty are what votes are by, from session to session; nil before the first vote.
	empty *emptyGroups
	// session is the one that is open.
	session *session
}

var (
	_ framework.SessionScoped      = (*plugin)(nil)
	_ framework.Forecaster         = (*plugin)(nil)
	_ framework.PlacementGenerator = (*session)(nil)
	_ framework.PlacementScorer    = (*session)(nil)
	_ framework.Signer             = (*session)(nil)
	_ framework.JobSigner          = (*session)(nil)
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return Name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	s := p.open(ssn)
	p.reportProblems(ssn, s.forest.Problems())
	ssn.AddJobValidFn(Name, s.valid)
	ssn.AddJobEnqueueableFn(Name, s.enqueueable)
	ssn.EnqueueFirst(Name)
	ssn.AddPredicateFn(Name, s.predicate)
	ssn.PredicateFirst(Name)
	ssn.AddEventHandler(s.eventHandler())
	s.addPreBind()
}

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any { return p.session }

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(ssn *framework.Session) {
	p.rememberTried(p.session)
	p.forgetHoldable(ssn)
	p.session = nil
}
