// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// board numbers the session's nodes in the order of their names and logs the changes to them.
type board struct {
	nodes []*api.NodeInfo
	index map[string]int32
	// version counts the changes of each node. changes lists the nodes changed, in order.
	version []uint32
	changes []int32
	// releasing are the nodes on which resources are being released.
	releasing map[int32]bool

	groups     map[*topology.Group]*domain
	hyperNodes map[string]*domain
	everything *domain
	// largest is of each resource the most that a node has; nil before it is asked for.
	largest *api.Resource
	// remainders are the domains of all nodes but some, by these nodes' names.
	remainders map[string]*domain
}

func newBoard(ssn *framework.Session) *board {
	names := slices.Sorted(maps.Keys(ssn.Nodes))
	b := &board{
		nodes:      make([]*api.NodeInfo, len(names)),
		index:      make(map[string]int32, len(names)),
		version:    make([]uint32, len(names)),
		releasing:  map[int32]bool{},
		groups:     map[*topology.Group]*domain{},
		hyperNodes: map[string]*domain{},
		remainders: map[string]*domain{},
	}
	for i, name := range names {
		b.nodes[i] = ssn.Nodes[name]
		b.index[name] = int32(i)
		b.noteReleasing(int32(i))
	}
	b.everything = b.hyperNode(ssn, vcframework.ClusterTopHyperNode)
	ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(e *vcframework.Event) { b.changed(e.Task.NodeName) },
		DeallocateFunc: func(e *vcframework.Event) { b.changed(e.Task.NodeName) },
	})
	return b
}

func (b *board) changed(node string) {
	if i, ok := b.index[node]; ok {
		b.version[i]++
		b.changes = append(b.changes, i)
		b.noteReleasing(i)
	}
}

func (b *board) noteReleasing(node int32) {
	if b.nodes[node].Releasing.IsEmpty() {
		delete(b.releasing, node)
	} else {
		b.releasing[node] = true
	}
}

// releases says whether resources are being released in the domain, so that waiting for them can be worth while.
func (b *board) releases(d *domain) bool {
	for node := range b.releasing {
		if _, ok := d.local[node]; ok {
			return true
		}
	}
	return false
}

// largestNode is of each resource the most that a node has.
func (b *board) largestNode() *api.Resource {
	if b.largest == nil {
		b.largest = api.EmptyResource()
		for _, node := range b.nodes {
			b.largest.SetMaxResource(node.Allocatable)
		}
	}
	return b.largest
}

// domain is a set of nodes tasks may be placed on, by board number in ascending order.
type domain struct {
	// name is the HyperNode's or the node group's; empty for all nodes.
	name  string
	nodes []int32
	// local maps board numbers to places in nodes.
	local map[int32]int32
}

func newDomain(name string, nodes []int32) *domain {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	d := &domain{name: name, nodes: nodes, local: make(map[int32]int32, len(nodes))}
	for place, node := range nodes {
		d.local[node] = int32(place)
	}
	return d
}

// has says whether the named node is in the domain.
func (b *board) has(d *domain, node string) (int32, bool) {
	i, ok := b.index[node]
	if !ok {
		return 0, false
	}
	_, ok = d.local[i]
	return i, ok
}

// hyperNode returns the domain of a HyperNode's nodes.
func (b *board) hyperNode(ssn *framework.Session, name string) *domain {
	if d, ok := b.hyperNodes[name]; ok {
		return d
	}
	var nodes []int32
	for _, node := range ssn.RealNodesList[name] {
		if i, ok := b.index[node.Name]; ok {
			nodes = append(nodes, i)
		}
	}
	d := newDomain(name, nodes)
	if name == vcframework.ClusterTopHyperNode {
		d.name = ""
	}
	b.hyperNodes[name] = d
	return d
}

// group returns the domain of a node group's nodes. A node the session does not schedule on is left out.
func (b *board) group(g *topology.Group) *domain {
	if d, ok := b.groups[g]; ok {
		return d
	}
	var nodes []int32
	for _, name := range g.Nodes {
		if i, ok := b.has(b.everything, name); ok {
			nodes = append(nodes, i)
		}
	}
	d := newDomain(g.Path(), nodes)
	b.groups[g] = d
	return d
}

// without returns all nodes but the named ones, which are sorted. The same names give the same domain, for which shapes keep
// what they know.
func (b *board) without(names []string) *domain {
	key := strings.Join(names, ",")
	if d, ok := b.remainders[key]; ok {
		return d
	}
	nodes := slices.DeleteFunc(slices.Clone(b.everything.nodes), func(node int32) bool {
		_, named := slices.BinarySearch(names, b.nodes[node].Name)
		return named
	})
	d := newDomain("", nodes)
	b.remainders[key] = d
	return d
}

// intersect returns the nodes of both domains, under the first's name.
func intersect(d, within *domain) *domain {
	var nodes []int32
	for _, node := range d.nodes {
		if _, ok := within.local[node]; ok {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == len(d.nodes) {
		return d
	}
	return newDomain(d.name, nodes)
}
