// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Plugin is a plugin for a test, which supplies its functions.
type Plugin struct {
	Called string
	// Open is called in OnSessionOpen; it may be nil.
	Open func(ssn *framework.Session)
	// Part implements interfaces of the framework for the plugin; it may be nil, and Open may set it. To implement
	// several interfaces with the function types below, embed them in a struct.
	Part any
}

var _ framework.SessionScoped = (*Plugin)(nil)

// Name implements framework.Plugin.
func (p *Plugin) Name() string { return p.Called }

// OnSessionOpen implements framework.Plugin.
func (p *Plugin) OnSessionOpen(ssn *framework.Session) {
	if p.Open != nil {
		p.Open(ssn)
	}
}

// OnSessionClose implements framework.Plugin.
func (p *Plugin) OnSessionClose(*framework.Session) {}

// InSession implements framework.SessionScoped.
func (p *Plugin) InSession() any { return p.Part }

// Signed is a Plugin that is also a framework.Signer: its results apply to all tasks of a class, and depend on all labels
// and annotations.
type Signed struct{ *Plugin }

var _ framework.Signer = Signed{}

// SignTask implements framework.Signer.
func (Signed) SignTask(*api.TaskInfo) framework.VerdictScope { return framework.PerTaskClass }

// PodKeys implements framework.Signer.
func (Signed) PodKeys() framework.PodKeys { return framework.PodKeys{} }

// Signer is a framework.Signer, for Plugin.Part.
type Signer struct {
	Reads framework.PodKeys
	Scope func(task *api.TaskInfo) framework.VerdictScope
}

// SignTask implements framework.Signer.
func (s Signer) SignTask(task *api.TaskInfo) framework.VerdictScope { return s.Scope(task) }

// PodKeys implements framework.Signer.
func (s Signer) PodKeys() framework.PodKeys { return s.Reads }

// NodeSignFn is a framework.NodeSigner.
type NodeSignFn func(node *api.NodeInfo) uint64

// SignNode implements framework.NodeSigner.
func (fn NodeSignFn) SignNode(node *api.NodeInfo) uint64 { return fn(node) }

// NodeGroupsFn is a framework.PlacementGenerator.
type NodeGroupsFn func(job *api.JobInfo) (*framework.NodeGroups, error)

// NodeGroups implements framework.PlacementGenerator.
func (fn NodeGroupsFn) NodeGroups(job *api.JobInfo) (*framework.NodeGroups, error) { return fn(job) }

// NodeGroupScoreFn is a framework.PlacementScorer whose scores depend on the placement of a trial.
type NodeGroupScoreFn func(job *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error)

// ScoreNodeGroup implements framework.PlacementScorer.
func (fn NodeGroupScoreFn) ScoreNodeGroup(job *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
	return fn(job, trial)
}

// BeforeTrial implements framework.PlacementScorer.
func (fn NodeGroupScoreFn) BeforeTrial() bool { return false }

// TopologyPlannerFn is a framework.TopologyPlanGenerator.
type TopologyPlannerFn func(job *api.JobInfo) (*framework.TopologyPlanner, error)

// TopologyPlanner implements framework.TopologyPlanGenerator.
func (fn TopologyPlannerFn) TopologyPlanner(job *api.JobInfo) (*framework.TopologyPlanner, error) {
	return fn(job)
}

// GangGroupFn is a framework.GangGrouper; a nil function forms no gang groups.
type GangGroupFn func(job *api.JobInfo) *binding.GangGroup

// GangGroup implements framework.GangGrouper.
func (fn GangGroupFn) GangGroup(job *api.JobInfo) *binding.GangGroup {
	if fn == nil {
		return nil
	}
	return fn(job)
}

// AvoidFn is a framework.Avoider.
type AvoidFn func(job *api.JobInfo) []string

// Avoid implements framework.Avoider.
func (fn AvoidFn) Avoid(job *api.JobInfo) []string { return fn(job) }

// ReachFn is a framework.Reacher.
type ReachFn func(task *api.TaskInfo) *framework.Reach

// Reach implements framework.Reacher.
func (fn ReachFn) Reach(task *api.TaskInfo) *framework.Reach { return fn(task) }

// PlaceFirstFn is a framework.Prioritizer that selects jobs with all tasks that their minima need.
type PlaceFirstFn func(job *api.JobInfo) bool

// PlaceFirst implements framework.Prioritizer.
func (fn PlaceFirstFn) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) { return nil, fn(job) }
