// SPDX-License-Identifier: Apache-2.0

package nodeset

import "slices"

// Set is an immutable set of nodes that tasks may be placed on.
type Set struct {
	// Name is the name of the HyperNode or the path of the node group; empty for all nodes.
	Name string
	// Nodes are the numbers of the nodes, in ascending order.
	Nodes []int32
	// places is the index in Nodes of each node; nil if the index is the node's number, as in the set of all nodes.
	places map[int32]int32
}

// newSet returns the set of the nodes. The slice may be unsorted and contain duplicates; the set owns it from then on.
func newSet(name string, nodes []int32) *Set {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	s := &Set{Name: name, Nodes: nodes}
	if len(nodes) == 0 || nodes[len(nodes)-1] == int32(len(nodes)-1) {
		return s
	}
	s.places = make(map[int32]int32, len(nodes))
	for place, node := range nodes {
		s.places[node] = int32(place)
	}
	return s
}

// Place returns the index of the node in Nodes; false if the set does not contain it.
func (s *Set) Place(node int32) (int32, bool) {
	if s.places == nil {
		return node, int(node) < len(s.Nodes)
	}
	place, ok := s.places[node]
	return place, ok
}

// Has reports whether the node is in the set.
func (s *Set) Has(node int32) bool {
	_, ok := s.Place(node)
	return ok
}

// intersect returns the set of nodes that both sets have, under the name of s.
func (s *Set) intersect(within *Set) *Set {
	var nodes []int32
	for _, node := range s.Nodes {
		if within.Has(node) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == len(s.Nodes) {
		return s
	}
	return newSet(s.Name, nodes)
}
