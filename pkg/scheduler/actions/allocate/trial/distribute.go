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

// distribute divides tasks of a class over the scope: over as few groups of each level as possible, with the last tasks
// in the tightest group that takes them. Groups that already hold members of the job come first. Groups inside one wider
// group are filled one after the other, so that tasks with neighboring ranks are close to each other.
func (p *placer) distribute(c *feasible.ClassCache, tasks int) []share {
	if p.part.Scope.Group == nil || len(p.part.Scope.Group.Children) == 0 {
		return []share{{p.part.Scope.Set, tasks}}
	}
	return p.distributeOver(p.part.Scope.Group, c, tasks, p.changes.nodes())
}

func (p *placer) distributeOver(g *topology.Group, c *feasible.ClassCache, tasks int, placed map[int32]bool) []share {
	whole := p.run.GroupSet(g, p.part.Scope.Within)
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
	// The remaining tasks find no room in the child groups. They may use nodes outside of these.
	if tasks > 0 {
		out = append(out, share{whole, tasks})
	}
	return out
}

// groupPart is a group and the number of tasks of a class that fit into it.
type groupPart struct {
	group *topology.Group
	room  int
	// used reports whether the group already holds members of the job.
	used bool
}

// partsOf returns the children of the group that have room: first groups that hold members of the job, then by room, most
// first. placed are the nodes of members placed in this trial.
func (p *placer) partsOf(g *topology.Group, c *feasible.ClassCache, placed map[int32]bool) []groupPart {
	var parts []groupPart
	for _, child := range g.Children {
		set := p.run.GroupSet(child, p.part.Scope.Within)
		part := groupPart{group: child, room: c.Room(set).Total}
		if part.room == 0 {
			continue
		}
		part.used = p.attempt.Members.In(set)
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

// nextPart returns the index of the group that takes the next tasks: a group that holds members of the job; else the
// group with the least room that suffices for all remaining tasks; else the group with the most room. Of equal groups,
// it returns the first.
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
