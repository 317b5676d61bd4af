// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// placementScope is where a trial places tasks: on a set of nodes, which may be divided into groups.
type placementScope struct {
	feasible.Where
	// group is the node group that the set is of, over whose children tasks are distributed; nil for a set without division.
	group *topology.Group
	// within cuts the sets of the groups in it down to these nodes; nil cuts nothing.
	within *nodeset.Set
}

// anywhere is the scope of a job that may lie anywhere.
func (s *solver) anywhere(opts trialOptions) placementScope {
	return placementScope{Where: feasible.Where{Set: s.index.Intersection(s.index.All, opts.within)}}
}

// groupScope is the part of the group within the nodes. chosenBy is the plugin that named the group.
func (s *solver) groupScope(g *topology.Group, within *nodeset.Set, chosenBy string) placementScope {
	return placementScope{Where: feasible.Where{Set: s.groupSet(g, within), ChosenBy: chosenBy}, group: g, within: within}
}

// groupSet is the part of the group within the nodes; nil cuts nothing.
func (s *solver) groupSet(g *topology.Group, within *nodeset.Set) *nodeset.Set {
	return s.index.Intersection(s.index.Group(g), within)
}

// hyperNodeScope is the part of the scope in the HyperNode.
func (s *solver) hyperNodeScope(name string, scope placementScope, opts trialOptions) placementScope {
	set := s.index.Intersection(s.index.HyperNode(name), opts.within)
	if scope.group != nil {
		return s.groupScope(scope.group, set, scope.ChosenBy)
	}
	return placementScope{Where: feasible.Where{Set: set, ChosenBy: scope.ChosenBy}}
}

// share is how many of some tasks go to a set of nodes.
type share struct {
	set   *nodeset.Set
	tasks int
}

// distribute divides so many tasks of a class over the scope: over the fewest groups of each level, and the last ones over the
// tightest group that takes them. Groups where members of the job lie already come first. Groups are visited so that neighbours
// are close, so tasks handed out in rank order have their neighbours close.
func (p *taskPlacer) distribute(c *feasible.ClassCache, tasks int) []share {
	if p.scope.group == nil || len(p.scope.group.Children) == 0 {
		return []share{{p.scope.Set, tasks}}
	}
	return p.distributeOver(p.scope.group, c, tasks, p.nodes())
}

func (p *taskPlacer) distributeOver(g *topology.Group, c *feasible.ClassCache, tasks int, placed map[int32]bool) []share {
	whole := p.groupSet(g, p.scope.within)
	if len(g.Children) == 0 {
		return []share{{whole, tasks}}
	}
	parts := p.partsOf(g, c, placed)
	var out []share
	for tasks > 0 && len(parts) > 0 {
		next := nextPart(parts, tasks)
		some := min(tasks, parts[next].room)
		out = append(out, p.distributeOver(parts[next].group, c, some, placed)...)
		tasks -= some
		parts = slices.Delete(parts, next, next+1)
	}
	if tasks > 0 { // nodes of no child
		out = append(out, share{whole, tasks})
	}
	return out
}

// groupPart is a group with room for so many tasks of a class.
type groupPart struct {
	group *topology.Group
	room  int
	// used is true where members of the job lie already.
	used bool
}

// partsOf are the children of the group that have room: used ones first, then by room, most first.
func (p *taskPlacer) partsOf(g *topology.Group, c *feasible.ClassCache, placed map[int32]bool) []groupPart {
	var parts []groupPart
	for _, child := range g.Children {
		set := p.groupSet(child, p.scope.within)
		part := groupPart{group: child, room: c.Room(set).Total}
		if part.room == 0 {
			continue
		}
		part.used = p.members.in(set)
		for node := range placed {
			part.used = part.used || set.Has(node)
		}
		parts = append(parts, part)
	}
	slices.SortStableFunc(parts, func(l, r groupPart) int {
		if l.used != r.used {
			return cmpBool(r.used, l.used)
		}
		return cmp.Compare(r.room, l.room)
	})
	return parts
}

// nextPart is the place of the part that tasks go to next: one that is used, else the tightest that takes all that are
// left, the first of equals, else the one with most room.
func nextPart(parts []groupPart, tasks int) int {
	next := 0
	if parts[0].used {
		return next
	}
	for i, p := range parts {
		if p.room >= tasks {
			next = i
		}
	}
	for next > 0 && parts[next-1].room == parts[next].room {
		next--
	}
	return next
}

// cmpBool orders false before true.
func cmpBool(l, r bool) int {
	switch {
	case l == r:
		return 0
	case r:
		return -1
	default:
		return 1
	}
}
