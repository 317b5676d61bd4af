// SPDX-License-Identifier: Apache-2.0

package topology

// Group is a set of nodes at one level, for example the InfiniBand cluster "ib-a", the spine "s1" in it or a leaf. The
// groups of a cluster form a forest: a group contains the nodes of its children, and the nodes that are in none of its
// children.
type Group struct {
	// Name is the label value or the HyperNode's name. A name is unique among the children of one parent.
	Name string
	// Level is the level's index; 0 is the widest.
	Level int
	// Parent is the next wider group, which contains this one; nil at level 0.
	Parent *Group
	// Children are the narrower groups in this group, by name.
	Children []*Group
	// Nodes are the names of all nodes of this group, including the nodes of its children, sorted.
	Nodes []string
}

// Path returns the names of the node groups from the widest level down to g, for example "ib-a/s1/leaf-3". The path is
// unique in the forest.
func (g *Group) Path() string {
	if g.Parent == nil {
		return g.Name
	}
	return g.Parent.Path() + "/" + g.Name
}

// At returns the node group of the level that contains g, or g itself if g is of the level; nil if no such node group
// exists.
func (g *Group) At(level int) *Group {
	for g != nil && g.Level > level {
		g = g.Parent
	}
	if g == nil || g.Level != level {
		return nil
	}
	return g
}
