// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Forest is the set of all node groups of a cluster at one time. It is immutable, and safe for concurrent use.
type Forest struct {
	levels   []Level
	byLevel  [][]*Group
	byPath   map[string]*Group
	ofNode   map[string]*Group // the narrowest group of each node
	problems []Problem
}

// Level is one level of a forest, such as all leaves.
type Level struct {
	// Name is the label key, or the tier of HyperNodes.
	Name string
	// Short is a shorter name: the part of the label key after the slash, or the tier's name. It is empty if the level
	// has no shorter name, or if two levels would have the same short name.
	Short string
}

// Problem is a misconfiguration that the forest works around: nodes of two node groups of which neither contains the
// other.
type Problem struct {
	// HyperNode is the HyperNode that does not get the nodes. Winner is the path of the node group that gets them.
	HyperNode, Winner string
	// Wider reports whether Winner gets the nodes because it is of a wider level. Otherwise both are of the same level.
	Wider bool
	// Nodes are the names of the nodes that HyperNode and Winner both claim, sorted.
	Nodes []string
}

// String describes the problem to users.
func (p Problem) String() string {
	nodes, list := fmt.Sprintf("node %q is", p.Nodes[0]), "the node"
	if more := len(p.Nodes) - 1; more > 0 {
		nodes, list = fmt.Sprintf("node %q and %d more are", p.Nodes[0], more), "each node"
	}
	where, why := "of the same tier", "first by name"
	if p.Wider {
		where, why = "of different tiers, neither inside the other", "wider tier"
	}
	winner := path.Base(p.Winner)
	return fmt.Sprintf("%s in HyperNodes %q and %q %s; %q is used (%s); list %s in only one of them", nodes, winner, p.HyperNode, where, winner, why, list)
}

// Levels lists the levels from the widest to the narrowest.
func (f *Forest) Levels() []Level { return f.levels }

// Level returns the index of the level with this name or short name; false if the forest has no such level.
func (f *Forest) Level(name string) (int, bool) {
	i := slices.IndexFunc(f.levels, func(l Level) bool { return l.Name == name })
	if i < 0 && name != "" {
		i = slices.IndexFunc(f.levels, func(l Level) bool { return l.Short == name })
	}
	return i, i >= 0
}

// At lists the node groups of a level by path; nil if the forest does not have the level.
func (f *Forest) At(level int) []*Group {
	if level < 0 || level >= len(f.byLevel) {
		return nil
	}
	return f.byLevel[level]
}

// Find returns the node group with the path; nil if the forest has no such node group.
func (f *Forest) Find(path string) *Group { return f.byPath[path] }

// Narrowest returns the narrowest group that contains the node; nil if no group does.
func (f *Forest) Narrowest(node string) *Group { return f.ofNode[node] }

// Of returns the group of the level that contains the node; nil if no group does.
func (f *Forest) Of(node string, level int) *Group { return f.ofNode[node].At(level) }

// Problems lists the misconfigurations that were found.
func (f *Forest) Problems() []Problem { return f.problems }

// buildForest makes a forest from ofNode, the narrowest node group of each node. The caller has set the names, levels
// and parents of the node groups; buildForest sets their nodes and children. Node groups without nodes are left out.
func buildForest(levels []Level, ofNode map[string]*Group) *Forest {
	f := &Forest{levels: levels, byLevel: make([][]*Group, len(levels)), byPath: map[string]*Group{}, ofNode: ofNode}
	type entry struct {
		path  string
		group *Group
	}
	entries := make([][]entry, len(levels))
	nodes := make([]string, 0, len(ofNode))
	for node := range ofNode {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		var child *Group
		for g := ofNode[node]; g != nil; child, g = g, g.Parent {
			if len(g.Nodes) == 0 {
				entries[g.Level] = append(entries[g.Level], entry{g.Path(), g})
			}
			g.Nodes = append(g.Nodes, node)
			// A node group is added to the children of its parent when it gets its first node.
			if child != nil && len(child.Nodes) == 1 {
				g.Children = append(g.Children, child)
			}
		}
	}
	for level := range entries {
		slices.SortFunc(entries[level], func(l, r entry) int { return strings.Compare(l.path, r.path) })
		for _, e := range entries[level] {
			f.byLevel[level] = append(f.byLevel[level], e.group)
			f.byPath[e.path] = e.group
			slices.SortFunc(e.group.Children, func(l, r *Group) int {
				return cmp.Or(strings.Compare(l.Name, r.Name), cmp.Compare(l.Level, r.Level))
			})
		}
	}
	return f
}

// withShortNames removes short names that several levels share.
func withShortNames(levels []Level) []Level {
	uses := map[string]int{}
	for _, l := range levels {
		uses[l.Short]++
	}
	for i := range levels {
		if uses[levels[i].Short] > 1 {
			levels[i].Short = ""
		}
	}
	return levels
}
