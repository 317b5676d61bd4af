// SPDX-License-Identifier: Apache-2.0

package state

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// Scope is where a trial places tasks: on a set of nodes, which may be divided into groups.
type Scope struct {
	feasible.Where
	// Group is the set's node group, over whose children tasks are distributed; nil for a set without division.
	Group *topology.Group
	// Within restricts the sets of Group and of the groups inside it to these nodes; nil restricts nothing.
	Within *nodeset.Set
}

// Anywhere returns the scope of a job that may be placed on any node.
func (s *Run) Anywhere(opts Options) Scope {
	return Scope{Where: feasible.Where{Set: s.Index.Intersection(s.Index.All, opts.Within)}}
}

// GroupScope returns the scope with the nodes that are in the group and in within. chosenBy is the plugin that named the
// group.
func (s *Run) GroupScope(g *topology.Group, within *nodeset.Set, chosenBy string) Scope {
	return Scope{Where: feasible.Where{Set: s.GroupSet(g, within), ChosenBy: chosenBy}, Group: g, Within: within}
}

// GroupSet returns the set of nodes that are in the group and in within; a nil within restricts nothing.
func (s *Run) GroupSet(g *topology.Group, within *nodeset.Set) *nodeset.Set {
	return s.Index.Intersection(s.Index.Group(g), within)
}

// HyperNodeScope returns the part of the scope that is in the HyperNode.
func (s *Run) HyperNodeScope(name string, scope Scope, opts Options) Scope {
	set := s.Index.Intersection(s.Index.HyperNode(name), opts.Within)
	if scope.Group != nil {
		return s.GroupScope(scope.Group, set, scope.ChosenBy)
	}
	return Scope{Where: feasible.Where{Set: set, ChosenBy: scope.ChosenBy}}
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

// Options restrict where a job is tried.
type Options struct {
	// IdleOnly leaves out nodes that have room only once resources are released.
	IdleOnly bool
	// Within are the nodes on which the job is tried: all nodes except nodes that the job should avoid; nil for all.
	Within *nodeset.Set
	// Places is the number of node groups or HyperNodes in which the job is still to be tried, including the current
	// one. The job's searches for packing plans in them share the session's search budget (crosssession.Cache.Packing).
	Places int
}
