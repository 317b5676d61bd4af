// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Placement says where the tasks of a gang may be placed. If both NodeGroups and Planner are set, the Planner gathers
// the gang in one of the node groups.
type Placement struct {
	// NodeGroups are the node groups that may hold the gang; nil for any nodes. The first plugin that returns NodeGroups
	// decides.
	NodeGroups *NodeGroups
	// Planner divides the gang over the domains of a network; nil when the gang has no such request. The first plugin
	// that returns a Planner decides.
	Planner *TopologyPlanner
	// Avoid are nodes that are used only if the tasks cannot be placed on other nodes. allocate first tries without the
	// nodes that any plugin avoids, and then with them.
	Avoid []string
}

// Placements combines the answers of the session's plugins on gangs: where a gang is placed, with which other gangs,
// whether it is placed first, and for which of its members pods were evicted. The zero value has no plugins.
type Placements struct {
	generators   []ofPlugin[PlacementGenerator]
	scorers      []ofPlugin[PlacementScorer]
	gangGroupers []ofPlugin[GangGrouper]
	prioritizers []ofPlugin[Prioritizer]
	trackers     []ofPlugin[EvictionTracker]
	// untried are the jobs that allocate did not try in this session although they wait.
	untried map[api.JobID]bool
}

// ofPlugin is a plugin's implementation of an interface, and the plugin's name.
type ofPlugin[T any] struct {
	plugin string
	is     T
}

// add registers the plugin for each of the interfaces of Placements that it implements.
func (p *Placements) add(name string, plugin, inSession any) {
	p.generators = appendFound(p.generators, name, plugin, inSession)
	p.scorers = appendFound(p.scorers, name, plugin, inSession)
	p.gangGroupers = appendFound(p.gangGroupers, name, plugin, inSession)
	p.prioritizers = appendFound(p.prioritizers, name, plugin, inSession)
	p.trackers = appendFound(p.trackers, name, plugin, inSession)
}

func appendFound[T any](list []ofPlugin[T], name string, plugin, inSession any) []ofPlugin[T] {
	if found, ok := find[T](plugin, inSession); ok {
		list = append(list, ofPlugin[T]{name, found})
	}
	return list
}

// Of returns where the job may be placed.
func (p *Placements) Of(job *api.JobInfo) (Placement, error) {
	var all Placement
	for _, g := range p.generators {
		one, err := placementBy(g, job)
		if err != nil {
			return Placement{}, fmt.Errorf("plugin %s: %w", g.plugin, err)
		}
		if all.NodeGroups == nil && one.NodeGroups != nil {
			all.NodeGroups = one.NodeGroups
			all.NodeGroups.Plugin = g.plugin
		}
		if all.Planner == nil && one.Planner != nil {
			all.Planner = one.Planner
			all.Planner.Plugin = g.plugin
		}
		all.Avoid = append(all.Avoid, one.Avoid...)
	}
	slices.Sort(all.Avoid)
	all.Avoid = slices.Compact(all.Avoid)
	return all, nil
}

func placementBy(g ofPlugin[PlacementGenerator], job *api.JobInfo) (_ Placement, err error) {
	defer recoverAs(g.plugin, &err)
	return g.is.Placement(job)
}

// NodeGroupScore returns the sum of the plugins' scores of a trial. If the trial has no Placement, only plugins whose
// scores do not depend on the Placement are called.
func (p *Placements) NodeGroupScore(job *api.JobInfo, trial *NodeGroupTrial) (float64, error) {
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
func (p *Placements) ScoredBeforeTrial() bool {
	return !slices.ContainsFunc(p.scorers, func(s ofPlugin[PlacementScorer]) bool { return !beforeTrial(s) })
}

func beforeTrial(s ofPlugin[PlacementScorer]) (before bool) {
	guarded(s.plugin, func() { before = s.is.BeforeTrial() })
	return before
}

// GangGroup returns the gang group of the job; nil for a gang that is placed alone, and that has no conditions for
// binding it beside its minimum (binding.GangTerms).
func (p *Placements) GangGroup(job *api.JobInfo) *binding.GangGroup {
	for _, f := range p.gangGroupers {
		if gangGroup := f.is.GangGroup(job); gangGroup != nil {
			return gangGroup
		}
	}
	return nil
}

// Companions returns the jobs of all gangs in the gang group, in the order of GangGroup.Gangs; nil if the gang group
// has only one gang. It returns false if one of the gangs is not among the jobs.
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

// Precedence is the position of a job among the jobs that action allocate schedules first.
type Precedence struct {
	// Rank is the index, in conf order, of the plugin that selects the job among the plugins that are Prioritizers.
	// Jobs with a lower Rank are placed first.
	Rank int
	// Only are the tasks that are placed first; nil for all tasks that the job's minimum needs.
	Only map[api.TaskID]bool
}

// Precedence returns the job's position among the jobs that are placed first; false if no plugin selects the job to be
// placed first.
func (p *Placements) Precedence(job *api.JobInfo) (Precedence, bool) {
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
func (p *Placements) IsPlacedFirst(job *api.JobInfo) bool {
	_, first := p.Precedence(job)
	return first
}

// SetUntried records whether allocate has left out the job in this session although it waits.
func (p *Placements) SetUntried(job api.JobID, untried bool) {
	if !untried {
		delete(p.untried, job)
		return
	}
	if p.untried == nil {
		p.untried = map[api.JobID]bool{}
	}
	p.untried[job] = true
}

// IsUntried reports whether allocate has left out the job in this session although it waits. The job may fit without
// evictions.
func (p *Placements) IsUntried(job api.JobID) bool { return p.untried[job] }

// Nominees returns the tasks of the jobs, which are placed together, that plugins name as nominees (EvictionTracker).
func (p *Placements) Nominees(jobs []*api.JobInfo) map[api.TaskID]bool {
	nominees := map[api.TaskID]bool{}
	for _, one := range p.trackers {
		for _, job := range jobs {
			guarded(one.plugin, func() { maps.Copy(nominees, one.is.Nominees(job)) })
		}
	}
	return nominees
}

// leaving returns the tasks that give way to the gang of the task (EvictionTracker).
func (p *Placements) leaving(task *api.TaskInfo) (leaving []*api.TaskInfo) {
	for _, one := range p.trackers {
		guarded(one.plugin, func() { leaving = append(leaving, one.is.Leaving(task)...) })
	}
	return leaving
}

// evicted notifies the plugins of an eviction (EvictionTracker).
func (p *Placements) evicted(eviction Eviction) {
	for _, one := range p.trackers {
		guarded(one.plugin, func() { one.is.Evicted(eviction) })
	}
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
