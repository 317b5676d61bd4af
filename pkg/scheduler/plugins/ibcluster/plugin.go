// SPDX-License-Identifier: Apache-2.0

// Package ibcluster keeps a gang in one InfiniBand cluster: a group of nodes named by labels or HyperNodes.
//
// Package topology reads the groups, and annotations.go the gang's rules from its PodGroup's annotations. The groups
// open to further members follow from both, and from the members already placed (gangscope.go). The plugin passes them
// to allocate (groups.go, score.go) and enforces them in every action (predicate.go). A gang that no empty group could
// hold (emptygroups.go, wantedmembers.go) is not admitted (enqueue.go), or gets no promised resources (infeasible.go).
// For evicting actions the plugin chooses the cluster with the fewest evictions (target.go, evictions.go). Before a
// member is bound, it checks that the node is still in its group (prebind.go).
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

// Spec declares the plugin.
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

// New builds the plugin. It fails where Spec().Validate does.
func New(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
	settings, err := load(args)
	if err != nil {
		return nil, err
	}
	p := &plugin{settings: settings, recorder: h.EventRecorder(), reported: map[string]time.Time{}, tried: map[target]map[string]bool{},
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
	// The source of groups is labels or hyperNodes; the other is nil. It keeps the last forest while nothing changes.
	labels     *topology.Labels
	hyperNodes *topology.HyperNodes
	// present returns the current groups of nodes, for pre-bind steps.
	present *presentGroups
	// reported are the reported problems of the forest, and when each was reported.
	reported map[string]time.Time
	// tried are the groups, by path, that an action has tried for a gang without success.
	tried map[target]map[string]bool
	// holdable is when a group could last hold each admitted gang without placed members.
	holdable map[api.JobID]time.Time
	// empty is the basis of votes, kept from session to session; nil before the first vote.
	empty *emptyGroups
	// session is the open session.
	session *session
}

var (
	_ framework.SessionScoped        = (*plugin)(nil)
	_ framework.InfeasibilityChecker = (*plugin)(nil)
	_ framework.PlacementGenerator   = (*session)(nil)
	_ framework.PlacementScorer      = (*session)(nil)
	_ framework.Signer               = (*session)(nil)
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
