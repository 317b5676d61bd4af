// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

const (
	// maxNarrower bounds, for each narrower level, how many node groups inside a candidate node group are tried before
	// the candidate itself. These node groups are sorted by score and spare room. If the first three fail, the cause is
	// one that only trials reveal, and the wider node group is the next best choice.
	maxNarrower = 3
	// maxNarrowerVerdicts replaces maxNarrower for tasks that are placed one by one, because arithmetic on resources
	// does not show which node groups have room for such tasks. It limits the number of filter results for each level:
	// if the node groups of a level have 1,000 nodes in total, 20 such tasks are tried in all of these node groups.
	maxNarrowerVerdicts = 20_000
)

// candidateGroup is a node group in which a gang may be placed.
type candidateGroup struct {
	group *topology.Group
	// room is the total size of the tasks that the node group takes now if all are of one class, for the class with the
	// largest total. spare is the room left after the tasks that the gang's minimum needs are placed. It is negative if
	// the node group cannot take these tasks now. Both are in dominant shares.
	room, spare float64
	score       float64
}

// placeInGroups places the job's minimum as a whole in one of its node groups. It prefers groups that have room now to
// groups that have room once resources are released. Among these, it prefers the group with the best score of the
// plugins. A gang that only prefers groups, and fits into none now, is spread over as few groups as possible before it
// waits.
func placeInGroups(r *state.Attempt) trial.Result {
	d, err := r.DemandOf()
	if err != nil {
		r.Job.JobFitErrors = err.Error()
		return trial.Result{}
	}
	ways := []func(state.Options) trial.Result{func(opts state.Options) trial.Result { return tryGroups(r, d, opts) }}
	if !r.Groups.Required {
		ways = append(ways, func(opts state.Options) trial.Result { return spread(r, d, opts) })
	}
	return tryInOrder(r, ways...)
}

// tryGroups tries the job in those of its candidate node groups that may hold it, the best first.
func tryGroups(r *state.Attempt, d *state.Demand, opts state.Options) trial.Result {
	candidates := candidates(r, r.Groups.Candidates, d, opts)
	takeFirst := r.Run.Session.Placements.ScoredBeforeTrial()
	best := -1
	for i := range candidates {
		c := &candidates[i]
		opts.Places = len(candidates) - i
		result := tryGroup(r, c.group, d, opts)
		if result.Outcome == trial.NotPlaced {
			continue
		}
		if takeFirst {
			return result
		}
		score, ok := scoreGroup(r, c, d, result.Placement())
		result.Discard(r.Job)
		if !ok {
			continue
		}
		c.score = score
		if best < 0 || c.score > candidates[best].score {
			best = i
		}
	}
	if best < 0 {
		return trial.Result{}
	}
	opts.Places = 1
	return tryGroup(r, candidates[best].group, d, opts) // a new trial, because volumes and devices of the first trial were released
}

// scoreGroup returns the plugins' score of the node group c for the job. placement is the placement of the job in a
// trial in this node group; nil before a trial. scoreGroup returns false if a plugin fails.
func scoreGroup(r *state.Attempt, c *candidateGroup, d *state.Demand, placement map[api.TaskID]string) (float64, bool) {
	score, err := r.Run.Session.Placements.NodeGroupScore(r.Job, trialOf(c, d, placement))
	if err != nil {
		r.Found.Unfinished++
		klog.ErrorS(err, "Scoring a node group failed, ignoring the group", "podGroup", klog.KRef(r.Job.Namespace, r.Job.Name), "group", c.group.Path())
	}
	return score, err == nil
}

func trialOf(c *candidateGroup, d *state.Demand, placement map[api.TaskID]string) *framework.NodeGroupTrial {
	fill := 0.0
	if c.room > 0 {
		fill = min(1, d.Share/c.room)
	}
	return &framework.NodeGroupTrial{Group: c.group, Fill: fill, Placement: placement}
}

// candidates returns the groups that may hold the needed tasks, the best first by the scores that are known before a trial.
// Upstream spends its time on trials in groups that cannot hold them (https://github.com/volcano-sh/volcano/issues/4899).
func candidates(r *state.Attempt, groups []*topology.Group, d *state.Demand, opts state.Options) []candidateGroup {
	var out []candidateGroup
	for _, group := range groups {
		if r.Refuted(r.Run.GroupSet(group, opts.Within), opts) {
			continue
		}
		c := roomIn(r, group, d, opts)
		if opts.IdleOnly && c.spare < 0 {
			continue
		}
		score, ok := scoreGroup(r, &c, d, nil)
		if !ok {
			continue
		}
		c.score = score
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(l, o candidateGroup) int {
		return cmp.Or(cmp.Compare(o.score, l.score), cmp.Compare(l.group.Path(), o.group.Path()))
	})
	return out
}

// roomIn computes how much room the group has now, before and after it takes the needed tasks.
func roomIn(r *state.Attempt, group *topology.Group, d *state.Demand, opts state.Options) candidateGroup {
	c := candidateGroup{group: group}
	set := r.Run.GroupSet(group, opts.Within)
	fits := 0
	for _, class := range d.Classes {
		capacity, share := class.Room(set).Total, r.Run.DominantShare(class.Task())
		c.room = max(c.room, float64(capacity)*share)
		fits += min(capacity, d.Counts[class]+d.Beyond[class])
		if capacity < d.Counts[class] && !d.Choice {
			c.spare = -1
			return c
		}
		c.spare += float64(max(capacity-d.Counts[class], 0)) * share
	}
	for class, count := range d.Beyond {
		if d.Counts[class] == 0 {
			fits += min(class.Room(set).Total, count)
		}
	}
	if d.Choice && fits < d.Needed && !d.Unknown || d.Together(set) < d.Needed {
		c.spare = -1
	}
	return c
}

// tryGroup places the job in the narrowest group inside the candidate group that has room for the job. If no inner
// group has room, tryGroup places the job in the candidate group itself, over as few inner groups as possible.
func tryGroup(r *state.Attempt, group *topology.Group, d *state.Demand, opts state.Options) trial.Result {
	for _, g := range append(narrower(r, group, d, opts), group) {
		result := placeIn(r, r.Run.GroupScope(g, opts.Within, r.Groups.Plugin), opts)
		r.Run.Observe(result.Outcome.String())
		if result.Outcome != trial.NotPlaced {
			return result
		}
	}
	return trial.Result{}
}

// narrower returns groups inside the group that may hold the needed tasks: the narrowest level first, and only a few
// groups of each level. Within a level, groups with the best score come first, then groups with the least spare room.
func narrower(r *state.Attempt, group *topology.Group, d *state.Demand, opts state.Options) []*topology.Group {
	byLevel := map[int][]candidateGroup{}
	var collect func(g *topology.Group)
	collect = func(g *topology.Group) {
		for _, child := range g.Children {
			if r.Refuted(r.Run.GroupSet(child, opts.Within), opts) {
				continue
			}
			if c := roomIn(r, child, d, opts); c.spare >= 0 {
				if score, ok := scoreGroup(r, &c, d, nil); ok {
					c.score = score
				}
				byLevel[child.Level] = append(byLevel[child.Level], c)
				collect(child)
			}
		}
	}
	collect(group)
	var out []*topology.Group
	for _, level := range slices.Backward(slices.Sorted(maps.Keys(byLevel))) {
		fits := byLevel[level]
		slices.SortStableFunc(fits, func(l, o candidateGroup) int {
			return cmp.Or(cmp.Compare(o.score, l.score), cmp.Compare(l.spare, o.spare), cmp.Compare(l.group.Path(), o.group.Path()))
		})
		verdicts := 0
		for i, c := range fits {
			verdicts += d.Needed * len(c.group.Nodes)
			if i >= maxNarrower && !(d.OneByOne() && verdicts <= maxNarrowerVerdicts) {
				break
			}
			out = append(out, c.group)
		}
	}
	return out
}

// spread places a gang that fits into none of the candidate node groups. It tries the wider groups that contain
// candidates, the narrowest level first. If the gang fits into none of the wider groups either, spread divides it among
// as few groups of the widest level as possible. Nodes outside of all groups come last.
func spread(r *state.Attempt, d *state.Demand, opts state.Options) trial.Result {
	around := r.Groups.Candidates
	for inner := func(g *topology.Group) bool { return g.Parent != nil }; slices.ContainsFunc(around, inner); {
		around = parents(around)
		for _, c := range candidates(r, around, d, opts) {
			result := placeIn(r, r.Run.GroupScope(c.group, opts.Within, ""), opts)
			r.Run.Observe(result.Outcome.String())
			if result.Outcome != trial.NotPlaced {
				return result
			}
		}
	}
	return placeIn(r, r.Run.GroupScope(r.Run.Index.GroupOfAll(around), opts.Within, ""), opts)
}

// parents returns the parents of the groups, without duplicates. For a group without a parent, it returns the group
// itself. The groups must be sorted by path.
func parents(groups []*topology.Group) []*topology.Group {
	out := slices.Clone(groups)
	for i, g := range out {
		if g.Parent != nil {
			out[i] = g.Parent
		}
	}
	return slices.Compact(out)
}
