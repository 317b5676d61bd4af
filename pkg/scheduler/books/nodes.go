// SPDX-License-Identifier: Apache-2.0

package books

import (
	"iter"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// Nodes holds the nodes with the tasks on them.
type Nodes struct {
	// Sums computes the capacity and usage of resources that Node and Pod objects do not report, such as devices. It is
	// set before the first call of a Show method.
	Sums accounting.NodeCapacityOverride

	lock    sync.Locker
	entries map[string]*node
	// recent lists the entries by generation. An entry that was dropped stays in it until Changed has reported it.
	recent recent[*node]
	// absent are the nodes with an entry but without a Node object, numa the nodes with a NUMA topology, and inexact the
	// nodes whose sums of resources must be recomputed from their tasks before they are read.
	absent, numa, inexact map[string]bool
	// counted is the generation of the last change that the method count has processed.
	counted uint64
	// order lists the registered nodes, in the order of their registration.
	order  []string
	images images
	// csiLimits has the attach limits of the drivers of each CSINode, and csiStatuses the status of each CSINode for
	// sessions, which do not change it.
	csiLimits   map[string]v1.ResourceList
	csiStatuses map[string]*api.CSINodeStatusInfo
	admits      func(*v1.Node) bool
}

// node is the entry of a node.
type node struct {
	revision
	info *api.NodeInfo
	// shown is the Node object that the watch shows; nil while the watch shows none.
	shown *v1.Node
}

func newNodes(lock sync.Locker, last *generations, admits func(*v1.Node) bool) *Nodes {
	return &Nodes{
		lock: lock, recent: recent[*node]{last: last}, admits: admits, entries: map[string]*node{}, csiLimits: map[string]v1.ResourceList{}, csiStatuses: map[string]*api.CSINodeStatusInfo{},
		absent: map[string]bool{}, numa: map[string]bool{}, inexact: map[string]bool{},
	}
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

// Absent yields the entries of nodes without a Node object. The caller must hold the mutex and must not change the
// entries.
func (n *Nodes) Absent() iter.Seq2[string, *api.NodeInfo] {
	return func(yield func(string, *api.NodeInfo) bool) {
		for name := range n.absent {
			if !yield(name, n.entries[name].info) {
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
		e = &node{info: upstream.NewNode(name, nil)}
		n.entries[name], n.absent[name] = e, true
	}
	n.recent.note(e)
	return e
}

// tidy drops the node's entry if the node has neither a Node object, nor tasks, nor a NUMA topology.
func (n *Nodes) tidy(name string) {
	if e := n.entries[name]; e != nil && e.shown == nil && len(e.info.Tasks) == 0 && e.info.NumaInfo == nil {
		n.recent.note(e)
		delete(n.entries, name)
		delete(n.absent, name)
		delete(n.inexact, name)
		n.Sums.Forget(name)
	}
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
		delete(n.absent, shown.Name)
	}
	e.shown = shown
	n.rebuild(e, n.withVolumeLimits(shown))
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
	e.shown, n.absent[name] = nil, true
	n.recent.note(e)
	n.rebuild(e, nil)
	n.images.hide(name)
	n.order = slices.DeleteFunc(n.order, func(other string) bool { return other == name })
	n.tidy(name)
}

// countNode recomputes the node's sums of resources from its tasks if they lost precision. It also lets the plugin in
// Sums update the node's capacity and usage of resources that Node and Pod objects do not report.
func (n *Nodes) countNode(e *node) {
	if n.inexact[e.info.Name] {
		n.rebuild(e, e.info.Node)
	}
	before, idle := e.info.Node, e.info.Idle
	n.Sums.Node(e.info)
	if e.info.Node != before || e.info.Idle != idle {
		n.recent.note(e)
	}
}

// SetUsage records the measured load of nodes.
func (n *Nodes) SetUsage(loads map[string]*api.NodeUsage) {
	n.lock.Lock()
	defer n.lock.Unlock()
	for name, load := range loads {
		if e := n.entries[name]; e != nil && e.shown != nil {
			e.info.ResourceUsage = load
			n.recent.note(e)
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
	limits := n.csiLimits[shown.Name]
	if len(limits) == 0 {
		return shown
	}
	limited := *shown
	for _, list := range []*v1.ResourceList{&limited.Status.Allocatable, &limited.Status.Capacity} {
		own := maps.Clone(*list)
		if own == nil {
			own = v1.ResourceList{}
		}
		maps.Copy(own, limits)
		*list = own
	}
	return &limited
}

// rebuild replaces the entry's NodeInfo by a new one for the Node. The new NodeInfo keeps the tasks, the NUMA topology,
// the measured load, the images and the bind generation of the former one.
func (n *Nodes) rebuild(e *node, shown *v1.Node) {
	former := e.info
	e.info = upstream.NewNode(former.Name, shown)
	delete(n.inexact, former.Name)
	for _, task := range former.Tasks {
		put(e.info, task)
	}
	e.info.NumaInfo, e.info.NumaSchedulerInfo, e.info.NumaChgFlag = former.NumaInfo, former.NumaSchedulerInfo, former.NumaChgFlag
	e.info.ResourceUsage, e.info.ImageStates = former.ResourceUsage, former.ImageStates
	e.info.BindGeneration = former.BindGeneration
}

// count updates entries of nodes: NUMA topologies from the reports of agents, resources that a plugin supplies, and sums
// that have lost precision. It looks only at nodes for which these may have changed. The caller must hold the mutex.
func (n *Nodes) count() {
	n.refreshNUMA()
	names := maps.Clone(n.inexact)
	for _, name := range n.Sums.Uncounted() {
		names[name] = true
	}
	if n.Sums.InUse() {
		for e := range n.recent.since(n.counted) {
			names[e.info.Name] = true
		}
	}
	for name := range names {
		if e := n.entries[name]; e != nil {
			n.countNode(e)
		}
	}
	n.counted = n.recent.latest()
}

// Ready implements snapshot.NodeSource. It returns a node that sessions see, which is in phase Ready, and the generation
// of its entry, a number that grows with each change of the entry; nil if sessions do not see the node.
func (n *Nodes) Ready(name string) (*api.NodeInfo, uint64) {
	if e := n.entries[name]; e != nil && e.info.Ready() {
		return e.info, e.generation
	}
	return nil, 0
}

// Registered implements snapshot.NodeSource.
func (n *Nodes) Registered() []string { return n.order }

// Changed implements snapshot.NodeSource. It forgets the dropped entries that it reports.
func (n *Nodes) Changed(after uint64) (names []string, last uint64) {
	last = max(after, n.recent.latest())
	for e := range n.recent.since(after) {
		names = append(names, e.info.Name)
		if n.entries[e.info.Name] != e {
			n.recent.drop(e)
		}
	}
	return names, last
}
