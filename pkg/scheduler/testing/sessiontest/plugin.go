// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Plugin is a scheduler plugin whose functions a test supplies.
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

// Signed is a Plugin that is also a framework.Signer. Its results apply to all tasks of a task class, and depend on all
// labels and annotations of a pod.
type Signed struct {
	framework.DefaultSigner
	*Plugin
}

var _ framework.Signer = Signed{}

// SignTask implements framework.Signer.
func (Signed) SignTask(*api.TaskInfo) framework.CacheScope { return framework.PerTaskClass }

// Signer is a framework.Signer that a test can set as Plugin.Part.
type Signer struct {
	framework.DefaultSigner
	Reads framework.PodKeys
	Scope func(task *api.TaskInfo) framework.CacheScope
}

// SignTask implements framework.Signer.
func (s Signer) SignTask(task *api.TaskInfo) framework.CacheScope { return s.Scope(task) }

// PodKeys implements framework.Signer.
func (s Signer) PodKeys() framework.PodKeys { return s.Reads }

// NodeGroupsFn is a framework.PlacementGenerator of node groups.
type NodeGroupsFn func(job *api.JobInfo) (*framework.NodeGroups, error)

// Placement implements framework.PlacementGenerator.
func (fn NodeGroupsFn) Placement(job *api.JobInfo) (framework.Placement, error) {
	groups, err := fn(job)
	return framework.Placement{NodeGroups: groups}, err
}

// NodeGroupScoreFn is a framework.PlacementScorer whose scores depend on the placement of a trial.
type NodeGroupScoreFn func(job *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error)

// ScoreNodeGroup implements framework.PlacementScorer.
func (fn NodeGroupScoreFn) ScoreNodeGroup(job *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
	return fn(job, trial)
}

// BeforeTrial implements framework.PlacementScorer.
func (fn NodeGroupScoreFn) BeforeTrial() bool { return false }

// TopologyPlannerFn is a framework.PlacementGenerator of topology plans.
type TopologyPlannerFn func(job *api.JobInfo) (*framework.TopologyPlanner, error)

// Placement implements framework.PlacementGenerator.
func (fn TopologyPlannerFn) Placement(job *api.JobInfo) (framework.Placement, error) {
	planner, err := fn(job)
	return framework.Placement{Planner: planner}, err
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

// AvoidNodesFn is a framework.PlacementGenerator of nodes to avoid.
type AvoidNodesFn func(job *api.JobInfo) []string

// Placement implements framework.PlacementGenerator.
func (fn AvoidNodesFn) Placement(job *api.JobInfo) (framework.Placement, error) {
	return framework.Placement{Avoid: fn(job)}, nil
}

// LeavingFn is a framework.EvictionTracker that returns the tasks that give way to the gang of a task.
type LeavingFn func(task *api.TaskInfo) []*api.TaskInfo

// Evicted implements framework.EvictionTracker.
func (LeavingFn) Evicted(framework.Eviction) {}

// Nominees implements framework.EvictionTracker.
func (LeavingFn) Nominees(*api.JobInfo) map[api.TaskID]bool { return nil }

// Leaving implements framework.EvictionTracker.
func (fn LeavingFn) Leaving(task *api.TaskInfo) []*api.TaskInfo { return fn(task) }

// PlaceFirstFn is a framework.Prioritizer that selects the jobs for which the function returns true. All tasks that the
// minimum of such a job needs are placed first.
type PlaceFirstFn func(job *api.JobInfo) bool

// PlaceFirst implements framework.Prioritizer.
func (fn PlaceFirstFn) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) { return nil, fn(job) }
