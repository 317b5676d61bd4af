// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"cmp"
	"slices"
)

// Layer is the gang's rule for a layer of the tree.
type Layer struct {
	Name string
	// Must reports whether the whole gang must be in one domain of the layer. Prefer reports whether the gang prefers
	// few domains of the layer.
	Must, Prefer bool
	// Multiple is the number that must divide the number of members in each domain of the layer. 0 and 1 allow any
	// number.
	Multiple int
}

// Node is a node with the number of members that it can take.
type Node struct {
	Name string
	// Domains are the names of the domains that contain the node, the widest first. The first layer (cluster) and the
	// last (node) are left out.
	Domains []string
	// Slots is the number of further members that the node can take. Members is the number of the gang's members on
	// the node. AffinityCount is the number of pods on the node that the gang prefers to be near.
	Slots, Members, AffinityCount int
}

// domain is a network domain in the tree. level is the index of its layer.
type domain struct {
	name     string
	level    int
	parent   *domain
	children []*domain
	// slots is the number of free slots in the domain. If the set takes is the multiples of a number, slots is rounded
	// down to the largest number in takes.
	slots                  int
	members, affinityCount int
	// takes is the set of numbers of members that may be added to the domain.
	takes counts
}

// path returns the domain's name, preceded by the names of the wider domains around it.
func (d *domain) path() string {
	switch d.level {
	case 0:
		return "all nodes"
	case 1:
		return d.name
	}
	return d.parent.path() + "/" + d.name
}

// at returns the domain of the given level that contains d. If d is of that level, it returns d.
func (d *domain) at(level int) *domain {
	for d.level > level {
		d = d.parent
	}
	return d
}

// DomainTree is the tree of network domains, with the free slots and the gang's members in each domain.
type DomainTree struct {
	layers []Layer
	// levels has the domains by level. In each level they are sorted by the names of the wider domains around them,
	// then by their own names.
	levels [][]*domain
	// most is the largest number of members for which the tree can make plans.
	most int
	// requiredDomain is the domain that the gang must be in, because the gang already has members there; nil if the
	// gang may use any domain.
	requiredDomain *domain
}

// New returns the tree of the nodes, for plans of up to most members. The first layer must be the cluster, the last
// layer the nodes.
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

// add adds the node to the tree, and the domains that contain it. The nodes must be added in the order of their
// Domains, so that nodes of one domain follow each other.
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

// sum computes slots, members, affinityCount and takes (the possible numbers of further members) of the domain from its
// children.
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

// findRequiredDomain sets requiredDomain to the domain with the largest number of the gang's members, in the layer
// where the gang must be in one domain. It sets nothing if no member is placed or no layer requires one domain.
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

// mustLevel returns the level of the narrowest layer in which the gang must be in one domain; 0, the level of the
// cluster, if there is no such layer.
func (t *DomainTree) mustLevel() int {
	for i, layer := range slices.Backward(t.layers) {
		if layer.Must {
			return i
		}
	}
	return 0
}
