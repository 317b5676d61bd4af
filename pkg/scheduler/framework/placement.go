// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Placement combines the answers of the session's plugins on gangs: where a gang is placed, with which other gangs, and
// whether it is placed first. The zero value has no plugins.
type Placement struct {
	generators     []ofPlugin[PlacementGenerator]
	scorers        []ofPlugin[PlacementScorer]
	planGenerators []ofPlugin[TopologyPlanGenerator]
	gangGroupers   []ofPlugin[GangGrouper]
	avoiders       []ofPlugin[Avoider]
	prioritizers   []ofPlugin[Prioritizer]
	reacher        ofPlugin[Reacher]
}

// ofPlugin is a plugin's implementation of an interface, and the plugin's name.
type ofPlugin[T any] struct {
	plugin string
	is     T
}

// add adds the plugin for each of the interfaces above that it implements. predicateOn reports whether the conf enables
// the plugin's predicate; if not, it is not used as a Reacher.
func (p *Placement) add(name string, plugin, inSession any, predicateOn bool) {
	p.generators = appendFound(p.generators, name, plugin, inSession)
	p.scorers = appendFound(p.scorers, name, plugin, inSession)
	p.planGenerators = appendFound(p.planGenerators, name, plugin, inSession)
	p.gangGroupers = appendFound(p.gangGroupers, name, plugin, inSession)
	p.avoiders = appendFound(p.avoiders, name, plugin, inSession)
	p.prioritizers = appendFound(p.prioritizers, name, plugin, inSession)
	if reacher, ok := find[Reacher](plugin, inSession); ok && p.reacher.is == nil && predicateOn {
		p.reacher = ofPlugin[Reacher]{name, reacher}
	}
}

func appendFound[T any](list []ofPlugin[T], name string, plugin, inSession any) []ofPlugin[T] {
	if found, ok := find[T](plugin, inSession); ok {
		list = append(list, ofPlugin[T]{name, found})
	}
	return list
}

// NodeGroups returns the node groups where the job may be placed, as the first plugin that names some says; nil if no
// plugin does.
func (p *Placement) NodeGroups(job *api.JobInfo) (*NodeGroups, error) {
	for _, g := range p.generators {
		groups, err := groupsOf(g, job)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", g.plugin, err)
		}
		if groups != nil {
			groups.Plugin = g.plugin
			return groups, nil
		}
	}
	return nil, nil
}

func groupsOf(g ofPlugin[PlacementGenerator], job *api.JobInfo) (_ *NodeGroups, err error) {
	defer recoverAs(g.plugin, &err)
	return g.is.NodeGroups(job)
}

// NodeGroupScore returns the sum of the plugins' scores of a trial. If the trial has no placement, only plugins whose scores
// do not depend on it are called.
func (p *Placement) NodeGroupScore(job *api.JobInfo, trial *NodeGroupTrial) (float64, error) {
	var sum float64
	for _, s := range p.scorers {
		if trial.Placement == nil && !beforeTrial(s) {
			continue
		}
		score, err := scoreOf(s, job, trial)
		if err != nil {
			return 0, fmt.Errorf("plugin %s: %w", s.plugin, err)
		}
		sum += score
	}
	return sum, nil
}

func scoreOf(s ofPlugin[PlacementScorer], job *api.JobInfo, trial *NodeGroupTrial) (_ float64, err error) {
	defer recoverAs(s.plugin, &err)
	return s.is.ScoreNodeGroup(job, trial)
}

// ScoredBeforeTrial reports whether the score of no plugin depends on the placement in a trial.
func (p *Placement) ScoredBeforeTrial() bool {
	return !slices.ContainsFunc(p.scorers, func(s ofPlugin[PlacementScorer]) bool { return !beforeTrial(s) })
}

func beforeTrial(s ofPlugin[PlacementScorer]) (before bool) {
	guarded(s.plugin, func() { before = s.is.BeforeTrial() })
	return before
}

// TopologyPlanner returns the planner that divides the job's tasks over the domains of a network; nil if no plugin
// returns one.
func (p *Placement) TopologyPlanner(job *api.JobInfo) (*TopologyPlanner, error) {
	for _, g := range p.planGenerators {
		planner, err := plannerOf(g, job)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", g.plugin, err)
		}
		if planner != nil {
			planner.Plugin = g.plugin
			return planner, nil
		}
	}
	return nil, nil
}

func plannerOf(g ofPlugin[TopologyPlanGenerator], job *api.JobInfo) (_ *TopologyPlanner, err error) {
	defer recoverAs(g.plugin, &err)
	return g.is.TopologyPlanner(job)
}

// GangGroup returns the gang group of the job; nil for a gang that is placed alone, with no terms beside its minimum.
func (p *Placement) GangGroup(job *api.JobInfo) *binding.GangGroup {
	for _, f := range p.gangGroupers {
		if gangGroup := f.is.GangGroup(job); gangGroup != nil {
			return gangGroup
		}
	}
	return nil
}

// Companions returns the jobs of all gangs in the gang group, in its order; nil if the gang group has only one gang. It returns
// false if one of the gangs is not among the jobs.
func Companions(jobs map[api.JobID]*api.JobInfo, gangGroup *binding.GangGroup) ([]*api.JobInfo, bool) {
	if gangGroup == nil || len(gangGroup.Gangs) < 2 {
		return nil, true
	}
	gangs := make([]*api.JobInfo, len(gangGroup.Gangs))
	for i, terms := range gangGroup.Gangs {
		if gangs[i] = jobs[terms.Gang]; gangs[i] == nil {
			return nil, false
		}
	}
	return gangs, true
}

// Avoided returns the names of the nodes that plugins want the job to avoid, sorted.
func (p *Placement) Avoided(job *api.JobInfo) []string {
	var nodes []string
	for _, a := range p.avoiders {
		guarded(a.plugin, func() { nodes = append(nodes, a.is.Avoid(job)...) })
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Reach returns the only nodes on which the task can be placed, as a Reacher says; nil for any node.
func (p *Placement) Reach(task *api.TaskInfo) (reach *Reach) {
	if p.reacher.is != nil {
		guarded(p.reacher.plugin, func() { reach = p.reacher.is.Reach(task) })
	}
	return reach
}

// Precedence is the position of a job among the jobs that allocate places before all others.
type Precedence struct {
	// Rank is lower for the jobs of a plugin that comes earlier in the conf.
	Rank int
	// Only are the tasks that are placed first; nil for all tasks that the job's minimum needs.
	Only map[api.TaskID]bool
}

// Precedence returns the job's position among the jobs that are placed first; false if no plugin selects the job.
func (p *Placement) Precedence(job *api.JobInfo) (Precedence, bool) {
	for rank, one := range p.prioritizers {
		var only map[api.TaskID]bool
		first := false
		guarded(one.plugin, func() { only, first = one.is.PlaceFirst(job) })
		if first {
			return Precedence{rank, only}, true
		}
	}
	return Precedence{}, false
}

// IsPlacedFirst reports whether a plugin selects the job to be placed first.
func (p *Placement) IsPlacedFirst(job *api.JobInfo) bool {
	_, first := p.Precedence(job)
	return first
}

// guarded calls fn, and logs a panic in it with the name of the plugin.
func guarded(plugin string, fn func()) {
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p)
		}
	}()
	fn()
}
