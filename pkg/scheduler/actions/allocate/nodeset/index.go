// SPDX-License-Identifier: Apache-2.0

package nodeset

import (
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Index numbers the session's nodes and logs the changes to them.
type Index struct {
	// Nodes are the session's nodes, by number. They are read-only.
	Nodes []*api.NodeInfo
	// All is the set of the nodes on which the session places tasks.
	All *Set

	ssn     *framework.Session
	numbers map[string]int32
	// versions counts the changes of each node, by number; the count starts at 1 if the session may have changed the node
	// before the index was made. changes lists the changed nodes, in order.
	versions []uint32
	changes  []int32
	// releasing are the nodes on which resources are being released; nil before the first use.
	releasing map[int32]bool
	// largest is the largest amount that a node has, for each resource; nil before the first use.
	largest *api.Resource

	groups     map[*topology.Group]*Set
	hyperNodes map[string]*Set
	// remainders are sets of all nodes except some, by the names of the excluded nodes.
	remainders    map[string]*Set
	intersections map[[2]*Set]*Set
}

// New returns the index of the session's nodes. The index follows the placements that the session makes afterwards.
func New(ssn *framework.Session) *Index {
	names := slices.Sorted(maps.Keys(ssn.Nodes))
	x := &Index{
		Nodes:         make([]*api.NodeInfo, len(names)),
		ssn:           ssn,
		numbers:       make(map[string]int32, len(names)),
		versions:      make([]uint32, len(names)),
		groups:        map[*topology.Group]*Set{},
		hyperNodes:    map[string]*Set{},
		remainders:    map[string]*Set{},
		intersections: map[[2]*Set]*Set{},
	}
	for i, name := range names {
		x.Nodes[i] = ssn.Nodes[name]
		x.numbers[name] = int32(i)
		if ssn.Touched(name) {
			x.versions[i] = 1
		}
	}
	x.All = x.HyperNode(vcframework.ClusterTopHyperNode)
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(e *vcframework.Event) { x.noteChange(e.Task.NodeName) },
		DeallocateFunc: func(e *vcframework.Event) { x.noteChange(e.Task.NodeName) },
	})
	return x
}

// NoteAllChanged makes the filter results of all nodes out of date, because pods with rules about other nodes were evicted
// or put back.
func (x *Index) NoteAllChanged() {
	for _, node := range x.Nodes {
		x.noteChange(node.Name)
	}
}

func (x *Index) noteChange(name string) {
	if node, ok := x.numbers[name]; ok {
		x.versions[node]++
		x.changes = append(x.changes, node)
		if x.releasing != nil {
			x.noteReleasing(node)
		}
	}
}

func (x *Index) noteReleasing(node int32) {
	if upstream.IsEmpty(x.Nodes[node].Releasing) {
		delete(x.releasing, node)
	} else {
		x.releasing[node] = true
	}
}

// findReleasing finds the nodes on which resources are being released, on its first call.
func (x *Index) findReleasing() {
	if x.releasing != nil {
		return
	}
	x.releasing = map[int32]bool{}
	for node := range x.Nodes {
		x.noteReleasing(int32(node))
	}
}

// Number returns the number of the named node; false when the session has no such node.
func (x *Index) Number(name string) (int32, bool) {
	node, ok := x.numbers[name]
	return node, ok
}

// Version returns the number of changes of the node; 0 if the session has not changed it.
func (x *Index) Version(node int32) uint32 { return x.versions[node] }

// State returns the number of changes of all nodes so far.
func (x *Index) State() int { return len(x.changes) }

// Changed lists the nodes that changed since an earlier call of State. The parameter after is the result of that call.
// A node that changed several times is listed several times.
func (x *Index) Changed(after int) []int32 { return x.changes[after:] }

// Releases reports whether resources are being released on a node of the set, so that waiting for them may be
// worthwhile.
func (x *Index) Releases(s *Set) bool {
	x.findReleasing()
	for node := range x.releasing {
		if s.Has(node) {
			return true
		}
	}
	return false
}

// LargestNode returns, for each resource, the largest allocatable amount of a node.
func (x *Index) LargestNode() *api.Resource {
	if x.largest == nil {
		x.largest = api.EmptyResource()
		for _, node := range x.Nodes {
			x.largest.SetMaxResource(node.Allocatable)
		}
	}
	return x.largest
}

// In returns the number of the named node; false when the set does not have it.
func (x *Index) In(s *Set, name string) (int32, bool) {
	node, ok := x.numbers[name]
	return node, ok && s.Has(node)
}

// HyperNode returns the set of a HyperNode's nodes.
func (x *Index) HyperNode(name string) *Set {
	if s, ok := x.hyperNodes[name]; ok {
		return s
	}
	var nodes []int32
	for _, node := range x.ssn.RealNodesList[name] {
		if i, ok := x.numbers[node.Name]; ok {
			nodes = append(nodes, i)
		}
	}
	s := newSet(name, nodes)
	if name == vcframework.ClusterTopHyperNode {
		s.Name = ""
	}
	x.hyperNodes[name] = s
	return s
}

// Group returns the set of a node group's nodes. A node that the session does not schedule on is left out.
func (x *Index) Group(g *topology.Group) *Set {
	if s, ok := x.groups[g]; ok {
		return s
	}
	var nodes []int32
	for _, name := range g.Nodes {
		if node, ok := x.In(x.All, name); ok {
			nodes = append(nodes, node)
		}
	}
	s := newSet(g.Path(), nodes)
	x.groups[g] = s
	return s
}

// GroupOfAll returns a group that contains all nodes, with the given groups as its children.
func (x *Index) GroupOfAll(children []*topology.Group) *topology.Group {
	all := &topology.Group{Level: -1, Children: children}
	x.groups[all] = x.All
	return all
}

// Without returns the set of all nodes except the nodes with these names. The names must be sorted.
func (x *Index) Without(names []string) *Set {
	key := strings.Join(names, ",")
	if s, ok := x.remainders[key]; ok {
		return s
	}
	nodes := slices.DeleteFunc(slices.Clone(x.All.Nodes), func(node int32) bool {
		_, named := slices.BinarySearch(names, x.Nodes[node].Name)
		return named
	})
	s := newSet("", nodes)
	x.remainders[key] = s
	return s
}

// Intersection returns the set of nodes that both sets have, under the name of s. If within is nil, it stands for all
// nodes.
func (x *Index) Intersection(s, within *Set) *Set {
	if within == nil || within == x.All {
		return s
	}
	key := [2]*Set{s, within}
	if both, ok := x.intersections[key]; ok {
		return both
	}
	both := s.intersect(within)
	x.intersections[key] = both
	return both
}
