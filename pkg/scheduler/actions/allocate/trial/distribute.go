// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// share is a set of nodes, and how many tasks are to be placed on them.
type share struct {
	set   *nodeset.Set
	tasks int
}

// distribute divides tasks of a class over the scope: over as few node groups of each level as possible, with the last
// tasks in the tightest node group that takes them. Node groups that already hold members of the job come first. The
// node groups inside a wider one are filled one after the other, so that tasks with neighboring ranks are close to each
// other. made are the placements of the present trial.
func (s *Part) distribute(c *feasible.ClassResults, tasks int, made *Changes) []share {
	if s.Scope.Group == nil || len(s.Scope.Group.Children) == 0 {
		return []share{{s.Scope.Set, tasks}}
	}
	return s.distributeOver(s.Scope.Group, c, tasks, made.nodes())
}

func (s *Part) distributeOver(g *topology.Group, c *feasible.ClassResults, tasks int, placed map[int32]bool) []share {
	whole := s.attempt.Run.GroupSet(g, s.Scope.Within)
	if len(g.Children) == 0 {
		return []share{{whole, tasks}}
	}
	parts := s.partsOf(g, c, placed)
	var out []share
	for tasks > 0 && len(parts) > 0 {
		next := nextPart(parts, tasks)
		some := min(tasks, parts[next].room)
		out = append(out, s.distributeOver(parts[next].group, c, some, placed)...)
		tasks -= some
		parts = slices.Delete(parts, next, next+1)
	}
	// The remaining tasks find no room in the children of the node group. They may use its nodes outside of all
	// children.
	if tasks > 0 {
		out = append(out, share{whole, tasks})
	}
	return out
}

// groupPart is a node group and the number of tasks of a class that fit into it.
type groupPart struct {
	group *topology.Group
	room  int
	// used reports whether the node group already holds members of the job.
	used bool
}

// partsOf returns the children of the group that have room: first groups that hold members of the job, then by room, most
// first. placed are the nodes of members placed in this trial.
func (s *Part) partsOf(g *topology.Group, c *feasible.ClassResults, placed map[int32]bool) []groupPart {
	var parts []groupPart
	for _, child := range g.Children {
		set := s.attempt.Run.GroupSet(child, s.Scope.Within)
		part := groupPart{group: child, room: c.Room(set).Total}
		if part.room == 0 {
			continue
		}
		part.used = s.attempt.Members.In(set)
		for node := range placed {
			part.used = part.used || set.Has(node)
		}
		parts = append(parts, part)
	}
	slices.SortStableFunc(parts, func(l, r groupPart) int {
		switch {
		case l.used == r.used:
			return cmp.Compare(r.room, l.room)
		case l.used:
			return -1
		default:
			return 1
		}
	})
	return parts
}

// nextPart returns the index of the node group that takes the next tasks: a node group that holds members of the job;
// else the one with the least room that suffices for all remaining tasks; else the one with the most room. Of node
// groups with equal room, it returns the first.
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
