// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// HyperNode holds the data about a HyperNode that a forest needs.
type HyperNode struct {
	Name string
	// Tier is 1 for the narrowest tier, as Volcano counts.
	Tier     int
	TierName string
	// Parent is the HyperNode that has this HyperNode as a member; empty if none has.
	Parent string
	// Nodes are all nodes of this HyperNode and of its member HyperNodes.
	Nodes sets.Set[string]
}

// HyperNodes builds forests from HyperNodes. It keeps the last forest as long as its inputs are unchanged.
//
// Each requested tier is a level, and the highest tier is the widest level. The parent of a HyperNode's group is the
// group of its nearest ancestor whose tier is a level. A HyperNode without such an ancestor that is not of the highest
// tier is left out: its nodes are in no group, like nodes without labels. A node that two HyperNodes of a tier claim
// belongs to the first HyperNode by name.
type HyperNodes struct {
	tiers  []string
	read   []HyperNode
	forest *Forest
}

// NewHyperNodes returns HyperNodes that use the tiers, given by number or name, from the widest to the narrowest; all
// existing tiers if none is given.
func NewHyperNodes(tiers ...string) *HyperNodes { return &HyperNodes{tiers: tiers} }

// Forest returns the forest of the HyperNodes. It keeps the node sets of hyperNodes, so the caller must not change the
// sets later.
func (s *HyperNodes) Forest(hyperNodes []HyperNode) *Forest {
	slices.SortFunc(hyperNodes, func(l, r HyperNode) int { return strings.Compare(l.Name, r.Name) })
	if s.forest == nil || !slices.EqualFunc(s.read, hyperNodes, HyperNode.equal) {
		s.forest = assignNodes(levelsOf(s.tiers, hyperNodes), hyperNodes)
		s.read = hyperNodes
	}
	return s.forest
}

func (h HyperNode) equal(other HyperNode) bool {
	return h.Name == other.Name && h.Tier == other.Tier && h.TierName == other.TierName && h.Parent == other.Parent &&
		h.Nodes.Equal(other.Nodes)
}

// levelsOf returns the levels for the requested tiers, or for all existing tiers.
func levelsOf(tiers []string, hyperNodes []HyperNode) []Level {
	if len(tiers) == 0 {
		numbers := sets.New[int]()
		for _, h := range hyperNodes {
			numbers.Insert(h.Tier)
		}
		for _, number := range sets.List(numbers) {
			tiers = append([]string{strconv.Itoa(number)}, tiers...)
		}
	}
	levels := make([]Level, len(tiers))
	for i, tier := range tiers {
		levels[i].Name = tier
		for _, h := range hyperNodes {
			if h.TierName != "" && strconv.Itoa(h.Tier) == tier {
				levels[i].Short = h.TierName
				break
			}
		}
	}
	return withShortNames(levels)
}

// levelOf returns the HyperNode's level; -1 if its tier is no level.
func levelOf(levels []Level, h HyperNode) int {
	return slices.IndexFunc(levels, func(l Level) bool { return l.Name == strconv.Itoa(h.Tier) || l.Name == h.TierName })
}

// assignNodes assigns nodes to HyperNodes from the widest level down. A HyperNode gets only nodes that its parent has,
// and that no sibling of the HyperNode got before.
func assignNodes(levels []Level, hyperNodes []HyperNode) *Forest {
	byName := make(map[string]HyperNode, len(hyperNodes))
	byLevel := make([][]HyperNode, len(levels))
	for _, h := range hyperNodes {
		byName[h.Name] = h
		if level := levelOf(levels, h); level >= 0 {
			byLevel[level] = append(byLevel[level], h)
		}
	}
	groups := map[string]*Group{}
	ofNode := map[string]*Group{}
	var problems []Problem
	for level, list := range byLevel {
		for _, h := range list {
			parent := nearestGroup(h, byName, groups)
			if parent == nil && level > 0 {
				continue
			}
			group := &Group{Name: h.Name, Level: level, Parent: parent}
			groups[h.Name] = group
			lost := map[*Group][]string{}
			for node := range h.Nodes {
				switch has := ofNode[node]; {
				case has == parent:
					ofNode[node] = group
				case parent == nil || has.within(parent):
					lost[has] = append(lost[has], node)
				}
			}
			problems = append(problems, problemsOf(h, level, lost)...)
		}
	}
	f := buildForest(levels, ofNode)
	f.problems = problems
	return f
}

// nearestGroup returns the node group of the nearest ancestor of HyperNode h that has a node group; nil if no ancestor
// has one.
func nearestGroup(h HyperNode, byName map[string]HyperNode, groups map[string]*Group) *Group {
	// The number of steps is bounded, because HyperNodes may be members of each other in a cycle.
	for steps := 0; h.Parent != "" && steps < len(byName); steps++ {
		h = byName[h.Parent]
		if group := groups[h.Name]; group != nil {
			return group
		}
	}
	return nil
}

// within reports whether node group g is inside the node group other, or is the same node group.
func (g *Group) within(other *Group) bool {
	for ; g != nil; g = g.Parent {
		if g == other {
			return true
		}
	}
	return false
}

func problemsOf(h HyperNode, level int, lost map[*Group][]string) []Problem {
	var problems []Problem
	for winner, nodes := range lost {
		slices.Sort(nodes)
		problems = append(problems, Problem{HyperNode: h.Name, Winner: winner.Path(), Wider: winner.Level < level, Nodes: nodes})
	}
	slices.SortFunc(problems, func(l, r Problem) int { return cmp.Compare(l.Winner, r.Winner) })
	return problems
}
