// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Labels builds forests from the labels of nodes. It keeps the last forest as long as the labels are unchanged, so that
// another call costs a comparison of pointers for each node.
//
// The value of the first key names the node's group at the widest level, that of the second key the group inside it,
// and so on. The first key that a node lacks, or has with an empty value, ends its path: a node without the first key
// is in no group. Equal values of a narrower key in two wider groups are two groups.
type Labels struct {
	keys   []string
	nodes  []*v1.Node
	forest *Forest
}

// NewLabels returns Labels for the keys, from the widest level to the narrowest.
func NewLabels(keys ...string) *Labels { return &Labels{keys: keys} }

// Forest returns the forest of the nodes.
func (s *Labels) Forest(nodes []*v1.Node) *Forest {
	if s.forest == nil || !s.unchanged(nodes) {
		s.forest = s.read(nodes)
		s.nodes = append(s.nodes[:0:0], nodes...)
	}
	return s.forest
}

// unchanged reports whether the last forest is also valid for these nodes, and records their newest objects.
func (s *Labels) unchanged(nodes []*v1.Node) bool {
	if len(nodes) != len(s.nodes) {
		return false
	}
	for i, node := range nodes {
		known := s.nodes[i]
		if known == node {
			continue
		}
		if known.Name != node.Name {
			return false
		}
		for _, key := range s.keys {
			if known.Labels[key] != node.Labels[key] {
				return false
			}
		}
		s.nodes[i] = node
	}
	return true
}

func (s *Labels) read(nodes []*v1.Node) *Forest {
	type place struct {
		parent *Group
		name   string
	}
	groups := map[place]*Group{}
	ofNode := make(map[string]*Group, len(nodes))
	for _, node := range nodes {
		var group *Group
		for level, key := range s.keys {
			name := node.Labels[key]
			if name == "" {
				break
			}
			at := place{group, name}
			if groups[at] == nil {
				groups[at] = &Group{Name: name, Level: level, Parent: group}
			}
			group = groups[at]
		}
		if group != nil {
			ofNode[node.Name] = group
		}
	}
	return buildForest(s.levels(), ofNode)
}

func (s *Labels) levels() []Level {
	levels := make([]Level, len(s.keys))
	for i, key := range s.keys {
		levels[i] = Level{Name: key}
		if slash := strings.LastIndexByte(key, '/'); slash >= 0 {
			levels[i].Short = key[slash+1:]
		}
	}
	return withShortNames(levels)
}
