// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"slices"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// site is where an attempt places tasks: a domain, which may be divided into narrower groups.
type site struct {
	domain *domain
	// tree is the group whose nodes the domain's are; nil for a domain without division.
	tree *topology.Group
	// within cuts the tree's domains down to these nodes; nil cuts nothing.
	within *domain
}

// slot is a share of tasks for a domain.
type slot struct {
	domain *domain
	quota  int
}

func (a *allocation) groupSite(g *topology.Group, within *domain) site {
	return site{domain: a.groupDomain(g, within), tree: g, within: within}
}

// groupDomain is the part of the group within the domain, which is all the job is tried on when it is nil.
func (a *allocation) groupDomain(g *topology.Group, within *domain) *domain {
	if within == nil {
		within = a.within
	}
	return a.cut(a.board.group(g), within)
}

// cut returns the nodes of both domains; nil and the domain of all nodes cut nothing.
func (a *allocation) cut(d, within *domain) *domain {
	if within == nil || within == a.board.everything {
		return d
	}
	key := [2]*domain{d, within}
	if cut, ok := a.cuts[key]; ok {
		return cut
	}
	cut := intersect(d, within)
	a.cuts[key] = cut
	return cut
}

// capacity is how many tasks of the shape the domain takes now. It counts each node by itself and leaves out the verdicts
// of the layers ofJob and live, so it is an upper bound.
func (a *allocation) capacity(s *shape, d *domain) int {
	return a.roomOf(s, d).total
}

// roomOf brings what is known of the domain's room for the shape up to date.
func (a *allocation) roomOf(s *shape, d *domain) *room {
	r := s.rooms[d]
	if r == nil {
		r = &room{copies: make([]int32, len(d.nodes))}
		s.rooms[d] = r
		for place := range d.nodes {
			r.count(a, s, d, int32(place))
		}
	} else {
		for _, node := range a.board.changes[r.at:] {
			if place, ok := d.local[node]; ok {
				r.count(a, s, d, place)
			}
		}
	}
	r.at = len(a.board.changes)
	return r
}

// room is how many tasks of a shape a domain takes, at a state of the board.
type room struct {
	total, at int
	// copies is what each node takes, by place in the domain.
	copies []int32
	// refusals count the nodes by what stops the next task; nil before they are asked for.
	refusals *refusals
}

// count brings one node's place up to date.
func (r *room) count(a *allocation, s *shape, d *domain, place int32) {
	copies := a.ask(s, d.nodes[place]).copies
	r.total += int(copies - r.copies[place])
	r.copies[place] = copies
	r.refusals = nil
}

// slots divides so many tasks of a shape over the site: over the fewest groups of each level, and the last ones over the
// tightest group that takes them. Groups where members of the job lie already come first. Groups are visited so that
// neighbours are close, so tasks handed out in rank order have their neighbours close.
func (a *allocation) slots(st site, s *shape, need int, t *attempt) []slot {
	if st.tree == nil || len(st.tree.Children) == 0 {
		return []slot{{st.domain, need}}
	}
	placed := map[int32]bool{}
	for _, p := range t.placed {
		placed[a.board.index[p.task.NodeName]] = true
	}
	return a.divide(st.tree, st.within, s, need, placed)
}

func (a *allocation) divide(g *topology.Group, within *domain, s *shape, need int, placed map[int32]bool) []slot {
	whole := a.groupDomain(g, within)
	if len(g.Children) == 0 {
		return []slot{{whole, need}}
	}
	parts := a.parts(g, within, s, placed)
	var out []slot
	for need > 0 && len(parts) > 0 {
		next := nextPart(parts, need)
		share := min(need, parts[next].capacity)
		out = append(out, a.divide(parts[next].group, within, s, share, placed)...)
		need -= share
		parts = slices.Delete(parts, next, next+1)
	}
	if need > 0 { // nodes of no child
		out = append(out, slot{whole, need})
	}
	return out
}

// part is a group with room for tasks of a shape.
type part struct {
	group    *topology.Group
	capacity int
	// used is true where members of the job lie already.
	used bool
}

// parts are the children of the group that have room: used ones first, then by room, most first.
func (a *allocation) parts(g *topology.Group, within *domain, s *shape, placed map[int32]bool) []part {
	var parts []part
	for _, child := range g.Children {
		d := a.groupDomain(child, within)
		p := part{group: child, capacity: a.capacity(s, d)}
		if p.capacity == 0 {
			continue
		}
		p.used = a.members.in(d)
		for node := range placed {
			if _, ok := d.local[node]; ok {
				p.used = true
			}
		}
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, func(l, r part) int {
		if l.used != r.used {
			return cmpBool(r.used, l.used)
		}
		return cmp.Compare(r.capacity, l.capacity)
	})
	return parts
}

// nextPart is the place of the part that tasks go to next: one that is used, else the tightest that takes all that are
// left, the first of equals, else the one with most room.
func nextPart(parts []part, need int) int {
	next := 0
	if parts[0].used {
		return next
	}
	for i, p := range parts {
		if p.capacity >= need {
			next = i
		}
	}
	for next > 0 && parts[next-1].capacity == parts[next].capacity {
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
