// SPDX-License-Identifier: Apache-2.0

package books

import (
	"iter"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
)

// Nodes holds the nodes with the tasks on them.
type Nodes struct {
	// Sums computes the capacity and usage of resources that Node and Pod objects do not report, such as devices. It is
	// set before the first call of a Show method.
	Sums accounting.NodeCapacityOverride

	lock    sync.Locker
	last    *generations
	entries map[string]*node
	// order lists the registered nodes, in the order of their registration.
	order  []string
	images images
	csi    map[string]*csiNode
	admits func(*v1.Node) bool
}

// node is the entry of a node.
type node struct {
	info       *api.NodeInfo
	generation uint64
	// shown is the Node object that the watch shows; nil while the watch shows none.
	shown *v1.Node
	// inexact reports whether the node's sums of resources must be recomputed from its tasks before they are read.
	inexact bool
}

// Get returns the node's entry; nil if the books have no such node. The entry's Node is nil while the watch shows no
// Node object. The entry's sums of used resources may be wrong until countNode recomputes them. The caller must hold
// the mutex and must not change the entry.
func (n *Nodes) Get(name string) *api.NodeInfo {
	if e := n.entries[name]; e != nil {
		return e.info
	}
	return nil
}

// All yields the entries of all nodes. As in Get, their sums of used resources may be wrong until countNode recomputes
// them. The caller must hold the mutex and must not change the entries.
func (n *Nodes) All() iter.Seq2[string, *api.NodeInfo] {
	return func(yield func(string, *api.NodeInfo) bool) {
		for name, e := range n.entries {
			if !yield(name, e.info) {
				return
			}
		}
	}
}

// of returns the entry of a node that the caller is about to change. It creates a missing entry. The entry gets a new
// generation, so that the next snapshot copies the node again.
func (n *Nodes) of(name string) *node {
	e := n.entries[name]
	if e == nil {
		e = &node{info: newNodeInfo(name, nil)}
		n.entries[name] = e
	}
	e.generation = n.last.next()
	return e
}

// tidy drops the node's entry if the node has neither a Node object, nor tasks, nor a NUMA topology.
func (n *Nodes) tidy(name string) {
	if e := n.entries[name]; e != nil && e.shown == nil && len(e.info.Tasks) == 0 && e.info.NumaInfo == nil {
		delete(n.entries, name)
	}
}

// newNodeInfo returns an entry without tasks. shown is nil if no Node object exists. The entry is then built from an
// empty Node, because upstream's constructor would log a warning for nil.
func newNodeInfo(name string, shown *v1.Node) *api.NodeInfo {
	if shown != nil {
		return api.NewNodeInfo(shown)
	}
	info := api.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	info.Node, info.State = nil, api.NodeState{Phase: api.NotReady, Reason: "NotRegistered"}
	clear(info.Others)
	return info
}

// Show is called with each version of a Node that the watch shows.
func (n *Nodes) Show(shown *v1.Node) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if !n.admits(shown) {
		n.hide(shown.Name)
		return
	}
	e := n.of(shown.Name)
	if e.shown == nil {
		n.order = append(n.order, shown.Name)
	}
	e.shown = shown
	e.rebuild(n.withVolumeLimits(shown))
	e.info.ImageStates = n.images.show(shown)
}

// Hide is called when the watch shows that the Node was deleted. The node's tasks stay in its entry until their pods
// end.
func (n *Nodes) Hide(name string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.hide(name)
}

func (n *Nodes) hide(name string) {
	e := n.entries[name]
	if e == nil || e.shown == nil {
		return
	}
	e.shown, e.generation = nil, n.last.next()
	e.rebuild(nil)
	n.images.hide(name)
	n.order = slices.DeleteFunc(n.order, func(other string) bool { return other == name })
	n.tidy(name)
}

// countNode recomputes the node's sums of resources from its tasks if they lost precision. It also lets the plugin in
// Sums update the node's capacity and usage of resources that Node and Pod objects do not report.
func (n *Nodes) countNode(e *node) {
	if e.inexact {
		e.rebuild(e.info.Node)
	}
	before, idle := e.info.Node, e.info.Idle
	n.Sums.Node(e.info)
	if e.info.Node != before || e.info.Idle != idle {
		e.generation = n.last.next()
	}
}

// SetUsage records the measured load of nodes.
func (n *Nodes) SetUsage(loads map[string]*api.NodeUsage) {
	n.lock.Lock()
	defer n.lock.Unlock()
	for name, load := range loads {
		if e := n.entries[name]; e != nil && e.shown != nil {
			e.info.ResourceUsage, e.generation = load, n.last.next()
		}
	}
}

// Names returns the registered nodes, in the order of their registration.
func (n *Nodes) Names() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return slices.Clone(n.order)
}

// withVolumeLimits returns the Node with the attach limits of its CSI drivers added to its resources.
func (n *Nodes) withVolumeLimits(shown *v1.Node) *v1.Node {
	drivers := n.csi[shown.Name]
	if drivers == nil || len(drivers.limits) == 0 {
		return shown
	}
	limited := *shown
	for _, list := range []*v1.ResourceList{&limited.Status.Allocatable, &limited.Status.Capacity} {
		own := maps.Clone(*list)
		if own == nil {
			own = v1.ResourceList{}
		}
		maps.Copy(own, drivers.limits)
		*list = own
	}
	return &limited
}

// rebuild replaces the entry's NodeInfo by a new one for the Node. The new NodeInfo keeps the tasks, the NUMA topology,
// the measured load, the images and the bind generation of the former one.
func (n *node) rebuild(shown *v1.Node) {
	former := n.info
	n.info, n.inexact = newNodeInfo(former.Name, shown), false
	for _, task := range former.Tasks {
		put(n.info, task)
	}
	n.info.NumaInfo, n.info.NumaSchedulerInfo, n.info.NumaChgFlag = former.NumaInfo, former.NumaSchedulerInfo, former.NumaChgFlag
	n.info.ResourceUsage, n.info.ImageStates = former.ResourceUsage, former.ImageStates
	n.info.BindGeneration = former.BindGeneration
}

// count updates the entries of all nodes: NUMA topologies from the reports of agents, and resources that a plugin
// supplies. The caller must hold the mutex.
func (n *Nodes) count() {
	n.refreshNUMA()
	n.Sums.Changed(func(name string) bool { return n.entries[name] != nil })
	for _, e := range n.entries {
		n.countNode(e)
	}
}

// ready yields the nodes in phase Ready. The second value is the generation of the node's entry, a number that grows
// with each change of the entry.
func (n *Nodes) ready() iter.Seq2[*api.NodeInfo, uint64] {
	return func(yield func(*api.NodeInfo, uint64) bool) {
		for _, e := range n.entries {
			if e.info.Ready() && !yield(e.info, e.generation) {
				return
			}
		}
	}
}
