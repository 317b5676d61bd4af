// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"cmp"
	"slices"
)

// Layer is the gang's rule for a layer of the tree.
type Layer struct {
	Name string
	// Must reports whether the gang must be in one domain of the layer, Prefer whether it prefers few.
	Must, Prefer bool
	// Multiple divides the number of members in each domain; 0 and 1 allow any number.
	Multiple int
}

// Node is a node with its capacity for the gang.
type Node struct {
	Name string
	// Domains are the names of its domains in all layers except the first and the last, the widest first.
	Domains []string
	// Slots is the number of further members that it can take. Members is the number of the gang's members on it.
	// Company is the number of pods on it that the gang prefers to be near.
	Slots, Members, AffinityCount int
}

// domain is a part of the tree. Its level is the index of its layer.
type domain struct {
	name     string
	level    int
	parent   *domain
	children []*domain
	// slots is the number of further members it can take, rounded down by the multiples within it.
	slots                  int
	members, affinityCount int
	// takes is the set of numbers of members that may be added here.
	takes counts
}

// path returns the domain's name after the names of the domains around it.
func (d *domain) path() string {
	switch d.level {
	case 0:
		return "all"
	case 1:
		return d.name
	}
	return d.parent.path() + "/" + d.name
}

// at returns the domain of the level that contains this one, or is this one.
func (d *domain) at(level int) *domain {
	for d.level > level {
		d = d.parent
	}
	return d
}

// DomainTree holds the domains, with the gang's members and slots in them.
type DomainTree struct {
	layers []Layer
	// levels has the domains by level, sorted by path.
	levels [][]*domain
	// most is the largest number of members that the tree can divide.
	most int
	// requiredDomain is the domain that the gang must be in, because it already has members there; nil if it may choose.
	requiredDomain *domain
}

// New makes the tree of the nodes, to divide up to most members. The first layer is the cluster, the last the nodes.
func New(layers []Layer, nodes []Node, most int) *DomainTree {
	t := &DomainTree{layers: layers, levels: make([][]*domain, len(layers)), most: most}
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
	t.findRequiredDomain()
	return t
}

// add adds a node. The nodes must come in sorted order.
func (t *DomainTree) add(root *domain, node *Node) {
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
	d.slots, d.members, d.affinityCount = node.Slots, node.Members, node.AffinityCount
}

// sum computes the amounts that the domain can take from the amounts of its parts.
func (t *DomainTree) sum(d *domain) {
	if d.level == len(t.layers)-1 {
		d.takes = upTo(d.slots)
	} else {
		for _, child := range d.children {
			t.sum(child)
			d.slots += child.slots
			d.members += child.members
			d.affinityCount += child.affinityCount
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

// findRequiredDomain sets requiredDomain: of the layer in which the gang must be in one domain, the domain with its members, or most of them.
func (t *DomainTree) findRequiredDomain() {
	level := t.mustLevel()
	if level == 0 {
		return
	}
	for _, d := range t.levels[level] {
		if d.members > 0 && (t.requiredDomain == nil || d.members > t.requiredDomain.members) {
			t.requiredDomain = d
		}
	}
}

// mustLevel returns the level of the narrowest layer that requires one domain; 0, the cluster's, if none does.
func (t *DomainTree) mustLevel() int {
	for i, layer := range slices.Backward(t.layers) {
		if layer.Must {
			return i
		}
	}
	return 0
}
