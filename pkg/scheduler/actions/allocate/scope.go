// SPDX-License-Identifier: Apache-2.0

package allocate

import (
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
func (s *Run) anywhere(opts trialOptions) placementScope {
	return placementScope{Where: feasible.Where{Set: s.index.Intersection(s.index.All, opts.within)}}
}

// groupScope is the part of the group within the nodes. chosenBy is the plugin that named the group.
func (s *Run) groupScope(g *topology.Group, within *nodeset.Set, chosenBy string) placementScope {
	return placementScope{Where: feasible.Where{Set: s.groupSet(g, within), ChosenBy: chosenBy}, group: g, within: within}
}

// groupSet is the part of the group within the nodes; nil cuts nothing.
func (s *Run) groupSet(g *topology.Group, within *nodeset.Set) *nodeset.Set {
	return s.index.Intersection(s.index.Group(g), within)
}

// hyperNodeScope is the part of the scope in the HyperNode.
func (s *Run) hyperNodeScope(name string, scope placementScope, opts trialOptions) placementScope {
	set := s.index.Intersection(s.index.HyperNode(name), opts.within)
	if scope.group != nil {
		return s.groupScope(scope.group, set, scope.ChosenBy)
	}
	return placementScope{Where: feasible.Where{Set: set, ChosenBy: scope.ChosenBy}}
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
