// SPDX-License-Identifier: Apache-2.0

// Package accounting lets a plugin supply capacity and usage of resources that Node and Pod objects do not report, such
// as devices. All code that reads sums of resources, upstream's included, then uses the plugin's amounts: for idle and
// releasing resources of nodes, resources of victims, and shares of queues.
//
// A pod is placed on a node only if the node's free amounts suffice, but the plugin's own filter makes the final
// decision. So these amounts must never be lower than the capacity that the plugin really has. A pod counts for the
// requests of its containers, which the method Count sets when an informer receives the pod. A node counts for the
// amounts that the plugin's ResourceCounter returns, not for the amounts in its Node object: see NodeCapacityOverride.
package accounting

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// ResourceCounter is implemented by a plugin that counts some resources itself, such as shares of devices: how much of them a
// pod requests, and how much a node has. Pod and Node objects do not show these amounts.
type ResourceCounter interface {
	// CountPod replaces the requests of the pod's containers by the amounts that the plugin counts for the pod. It is
	// called from several goroutines, for each version of a pod and before other code reads the pod. It may be called
	// again with a pod that it has already changed. It does not block.
	CountPod(pod *v1.Pod)
	// CountNode returns how much of each resource is free on the node while these pods use it, and the node's total
	// without any pods.
	CountNode(node *v1.Node, pods iter.Seq[*v1.Pod]) (free, all map[v1.ResourceName]int64)
	// Names returns the names of the resources that the plugin counts. Their amounts in Node objects are ignored.
	Names() []v1.ResourceName
	// ChangedNodes returns the nodes whose amounts may have changed since the last call of ChangedNodes.
	ChangedNodes() []string
}

// NodeCapacityOverride sets the amounts of a plugin's ResourceCounter in the pods and nodes of a cache. It does nothing
// if no ResourceCounter is set.
type NodeCapacityOverride struct {
	counter atomic.Pointer[ResourceCounter]
	// given are the Node objects with the amounts that were last computed, by node. inconsistent are the nodes where
	// free and used amounts do not add up to the capacity, or pods use more than the node has: pods still use a broken
	// device, or a pod got more than it requests. The amounts of inconsistent nodes are computed again each time. The
	// cache's mutex guards both maps.
	given        map[string]*v1.Node
	inconsistent map[string]bool
}

// Use sets the ResourceCounter. It must be called while the books are still empty.
func (b *NodeCapacityOverride) Use(counter ResourceCounter) { b.counter.Store(&counter) }

// Count changes a pod or node when an informer receives it. It sets the pod's requests, or the resources of the node
// without any pods, to the amounts that the ResourceCounter counts. Mostly these amounts are right, so the method Node
// has nothing to correct later.
func (b *NodeCapacityOverride) Count(object any) {
	counter := b.counter.Load()
	if counter == nil {
		return
	}
	switch object := object.(type) {
	case *v1.Pod:
		(*counter).CountPod(object)
	case *v1.Node:
		_, all := (*counter).CountNode(object, func(func(*v1.Pod) bool) {})
		setAmounts(object, (*counter).Names(), listOf(all))
	}
}

// InUse reports whether a ResourceCounter is set.
func (b *NodeCapacityOverride) InUse() bool { return b.counter.Load() != nil }

// Uncounted returns the nodes whose amounts the method Node must compute again although the caller has not changed the
// nodes. The ResourceCounter reports these nodes as changed, or their amounts are inconsistent. A node may be listed
// twice, or no longer exist. The caller holds the cache's mutex.
func (b *NodeCapacityOverride) Uncounted() []string {
	counter := b.counter.Load()
	if counter == nil {
		return nil
	}
	changed := (*counter).ChangedNodes()
	for _, name := range changed {
		delete(b.given, name)
	}
	return slices.AppendSeq(slices.Clone(changed), maps.Keys(b.inconsistent))
}

// Forget removes the stored amounts of the node, which no longer exists. The caller holds the cache's mutex.
func (b *NodeCapacityOverride) Forget(node string) {
	delete(b.given, node)
	delete(b.inconsistent, node)
}

// Node sets the node's total to the usage of its pods plus the free amounts from the ResourceCounter. So the node's
// idle resources are exactly these free amounts. The caller holds the cache's mutex.
func (b *NodeCapacityOverride) Node(node *api.NodeInfo) {
	counter := b.counter.Load()
	if counter == nil || node.Node == nil || b.given[node.Name] == node.Node && !b.inconsistent[node.Name] && !overcommitted(node, (*counter).Names()) {
		return
	}
	free, all := (*counter).CountNode(node.Node, func(yield func(*v1.Pod) bool) {
		for _, task := range node.Tasks {
			if !yield(task.Pod) {
				return
			}
		}
	})
	if b.given == nil {
		b.given, b.inconsistent = map[string]*v1.Node{}, map[string]bool{}
	}
	has, settled := map[v1.ResourceName]int64{}, true
	for _, name := range (*counter).Names() {
		used := int64(math.Round(node.Used.ScalarResources[name] / 1000))
		settled = settled && all[name]-used == free[name]
		has[name] = free[name] + used
	}
	overrideNode(node, (*counter).Names(), listOf(has))
	if b.given[node.Name] = node.Node; settled && !overcommitted(node, (*counter).Names()) {
		delete(b.inconsistent, node.Name)
	} else {
		b.inconsistent[node.Name] = true
	}
}

// overcommitted reports whether the node's pods use more of a resource than the node has.
func overcommitted(node *api.NodeInfo, names []v1.ResourceName) bool {
	for _, name := range names {
		if node.Idle.ScalarResources[name] < 0 {
			return true
		}
	}
	return false
}

// overrideNode sets the node's total of the named resources, in the NodeInfo and in a copy of its Node object: other
// code computes values from the Node object later. The original Node object stays unchanged, because other goroutines
// read it.
func overrideNode(node *api.NodeInfo, names []v1.ResourceName, has v1.ResourceList) {
	other := false
	for _, name := range names {
		was, said := node.Node.Status.Allocatable[name]
		is, there := has[name]
		other = other || said != there || was.Cmp(is) != 0
	}
	if !other {
		return
	}
	made := *node.Node
	setAmounts(&made, names, has)
	node.Node = &made
	now, before := api.NewResource(has), node.Allocatable
	node.Idle, node.Allocatable, node.Capacity = node.Idle.Clone(), node.Allocatable.Clone(), node.Capacity.Clone()
	for _, name := range names {
		amount, there := now.ScalarResources[name]
		if _, was := before.ScalarResources[name]; !was && !there {
			continue
		}
		for _, sum := range []*api.Resource{node.Allocatable, node.Capacity} {
			sum.SetScalar(name, amount)
		}
		node.Idle.SetScalar(name, node.Idle.ScalarResources[name]+amount-before.ScalarResources[name])
	}
}

// setAmounts sets the amounts of the resources in the Node object.
func setAmounts(node *v1.Node, names []v1.ResourceName, has v1.ResourceList) {
	for _, list := range []*v1.ResourceList{&node.Status.Allocatable, &node.Status.Capacity} {
		other := maps.Clone(*list)
		if other == nil {
			other = v1.ResourceList{}
		}
		for _, name := range names {
			delete(other, name)
		}
		maps.Copy(other, has)
		*list = other
	}
}

func listOf(amounts map[v1.ResourceName]int64) v1.ResourceList {
	list := v1.ResourceList{}
	for name, amount := range amounts {
		if amount > 0 {
			list[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return list
}
