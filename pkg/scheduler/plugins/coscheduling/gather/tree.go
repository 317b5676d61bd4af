// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"slices"
)

// Layer is what the gang says of a layer of the tree.
type Layer struct {
	Name string
	// Must is true if the gang must lie in one domain of the layer, Prefer if in as few as possible.
	Must, Prefer bool
	// Multiple is of what each domain's number of members must be a multiple; 0 and 1 are any.
	Multiple int
}

// Node is a node with what the gang finds there.
type Node struct {
	Name string
	// Domains are the names of those it lies in, of each layer but the first and the last, the widest first.
	Domains []string
	// Slots is how many more members it takes, Members how many of the gang it has, and Company how many that the gang would rather
	// be with.
	Slots, Members, Company int
}

// domain is a part of the tree. Its level is the place of its layer.
type domain struct {
	name     string
	level    int
	parent   *domain
	children []*domain
	// slots is how many more members it takes, rounded down as the multiples in it ask.
	slots            int
	members, company int
	// takes is how many members may be added here.
	takes amounts
}

// path names the domain with those around it.
func (d *domain) path() string {
	switch d.level {
	case 0:
		return "all"
	case 1:
		return d.name
	}
	return d.parent.path() + "/" + d.name
}

// at is the domain around this one, or itself, that is of the level.
func (d *domain) at(level int) *domain {
	for d.level > level {
		d = d.parent
	}
	return d
}

// Tree is the domains with what a gang finds in them.
type Tree struct {
	layers []Layer
	// levels are the domains, by level, those of one level by path.
	levels [][]*domain
	// most is for how many members it is made.
	most int
	// home is the domain that the gang must lie in, as members do; nil while it may choose.
	home *domain
}

// New makes the tree of the nodes, for dividing up to so many members. The first of the layers is the cluster's, the last the nodes'.
func New(layers []Layer, nodes []Node, most int) *Tree {
	t := &Tree{layers: layers, levels: make([][]*domain, len(layers)), most: most}
	root := &domain{}
	t.levels[0] = []*domain{root}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(l, r Node) int {
		return cmp.Or(slices.Compare(l.Domains, r.Domains), cmp.Compare(l.Name, r.Name))
	})
	for i := range sorted {
		t.add(root, &sorted[i])
	}
	t.sum(root)
	t.settle()
	return t
}

// add adds a node, of which those before it are sorted.
func (t *Tree) add(root *domain, node *Node) {
	d := root
	last := len(t.layers) - 1
	for level := 1; level <= last; level++ {
		name := node.Name
		if level < last {
			name = node.Domains[level-1]
		}
		if n := len(d.children); n == 0 || level == last || d.children[n-1].name != name {
			child := &domain{name: name, level: level, parent: d}
			d.children = append(d.children, child)
			t.levels[level] = append(t.levels[level], child)
		}
		d = d.children[len(d.children)-1]
	}
	d.slots, d.members, d.company = node.Slots, node.Members, node.Company
}

// sum finds what the domain takes, from what those in it take.
func (t *Tree) sum(d *domain) {
	if d.level == len(t.layers)-1 {
		d.takes = upTo(d.slots)
	} else {
		for _, child := range d.children {
			t.sum(child)
			d.slots += child.slots
			d.members += child.members
			d.company += child.company
		}
		slices.SortStableFunc(d.children, func(l, r *domain) int {
			return cmp.Or(cmp.Compare(l.takes.rank(), r.takes.rank()), cmp.Compare(r.members, l.members), cmp.Compare(r.slots, l.slots), cmp.Compare(l.name, r.name))
		})
		d.takes = t.sumOf(d.children)
	}
	d.takes = d.takes.multiples(t.layers[d.level].Multiple, d.members, t.most)
	if d.takes.irregular == nil {
		d.slots = d.takes.most
	}
}

// settle finds the domain of the layer that the gang must gather in, where members are, or most of them.
func (t *Tree) settle() {
	level := t.mustLevel()
	if level == 0 {
		return
	}
	for _, d := range t.levels[level] {
		if d.members > 0 && (t.home == nil || d.members > t.home.members) {
			t.home = d
		}
	}
}

// mustLevel is the level of the narrowest layer that the gang must gather in; 0, the cluster's, if there is none.
func (t *Tree) mustLevel() int {
	for i, layer := range slices.Backward(t.layers) {
		if layer.Must {
			return i
		}
	}
	return 0
}
