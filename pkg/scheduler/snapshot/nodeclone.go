// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// nodeClone is a session's copy of a node, with the data that shows whether the session has changed the copy.
type nodeClone struct {
	clone *api.NodeInfo
	// was has the fields of the copy when it was made. sums has, in the same order, the amounts of the resources that
	// sumsOf returned at that time.
	was   api.NodeInfo
	sums  [7]*Amount
	tasks []taskClone
	// version is the generation that the source had when the copy was made.
	version uint64
	// source is the node in the books.
	source *api.NodeInfo

	// kube is the node in the form that Kubernetes' plugins read. generation is kube's generation when it was made from
	// this copy; each change of kube raises its generation.
	kube       *kubeframework.NodeInfo
	generation int64
}

// newNodeClone records the original values of a copy that was just made. former is the previous copy of the node; nil
// if there was none. The Kubernetes form of its pods is used again.
func newNodeClone(source, clone *api.NodeInfo, former *nodeClone) *nodeClone {
	n := &nodeClone{clone: clone, was: *clone, source: source, tasks: make([]taskClone, 0, len(source.Tasks))}
	for i, r := range sumsOf(clone) {
		n.sums[i] = AmountOf(r)
	}
	var known amounts
	for key, task := range source.Tasks {
		n.tasks = append(n.tasks, newTaskClone(key, task, clone.Tasks[key], &known))
	}
	if former != nil {
		n.kube, n.generation = former.kube, -1
	}
	return n
}

// sumsOf returns the resources of the node. Adding and removing tasks changes only the idle resources and the sums over
// tasks, which come before index firstFixed.
func sumsOf(n *api.NodeInfo) [7]*api.Resource {
	return [...]*api.Resource{n.Releasing, n.Pipelined, n.Idle, n.Used, n.Allocatable, n.Capacity, n.OversubscriptionResource}
}

const (
	firstFixed  = 4
	allocatable = 4 // the index of the node's allocatable resources
)

// pristine reports whether the session has left the copy unchanged. Unless whole is set, changed tasks are detected
// only by their number and the sums of their requests, and the node's load and images are not compared.
func (n *nodeClone) pristine(whole bool) bool {
	c := n.clone
	if len(c.Tasks) != len(n.tasks) || c.Tasks == nil || c.Others == nil || !n.equalFields() || !n.equalSums(whole) || c.BindGeneration != n.was.BindGeneration {
		return false
	}
	if !whole {
		return true
	}
	if !equalUsage(c.ResourceUsage, n.source.ResourceUsage) || !equalImages(c.ImageStates, n.source.ImageStates) {
		return false
	}
	for i := range n.tasks {
		if t := &n.tasks[i]; c.Tasks[t.key] != t.clone || !t.unchanged() {
			return false
		}
	}
	return true
}

// equalFields reports whether the copy's name, Node object, state and similar fields have their original values.
// pristine compares the resources, the tasks, the load and the images separately.
func (n *nodeClone) equalFields() bool {
	c, was := n.clone, &n.was
	return c.Name == was.Name && c.Node == was.Node && c.State == was.State && c.NumaInfo == nil && c.NumaChgFlag == was.NumaChgFlag &&
		c.NumaSchedulerInfo == nil && c.RevocableZone == was.RevocableZone && len(c.Others) == 0 && c.OversubscriptionNode == was.OversubscriptionNode &&
		c.OfflineJobEvicting == was.OfflineJobEvicting && c.Generation == was.Generation
}

// equalSums reports whether the resources of the copy that sumsOf returns have their original amounts. Those from index
// firstFixed on normally do not change. Unless whole is set, they are compared only if the copy no longer refers to its
// original Resource objects.
func (n *nodeClone) equalSums(whole bool) bool {
	was := sumsOf(&n.was)
	for i, r := range sumsOf(n.clone) {
		if i >= firstFixed && !whole && r == was[i] {
			continue
		}
		n.sums[i].restore(r)
		if !n.sums[i].Is(r) {
			return false
		}
	}
	return true
}

// kubeNode returns the node in the form that Kubernetes' plugins read. It is built again for a new copy, and if the
// last session changed it.
func (n *nodeClone) kubeNode() fwk.NodeInfo {
	if n.kube != nil && n.kube.Generation == n.generation {
		return n.kube
	}
	known := map[*v1.Pod]fwk.PodInfo{}
	if n.kube != nil {
		for _, info := range n.kube.Pods {
			known[info.GetPod()] = info
		}
	}
	n.kube = kubeframework.NewNodeInfo()
	for _, pod := range n.clone.Pods() {
		info, ok := known[pod]
		if !ok {
			info, _ = kubeframework.NewPodInfo(pod) // as in upstream, an invalid affinity term is left out
		}
		n.kube.AddPodInfo(info)
	}
	n.kube.SetNode(n.clone.Node)
	n.generation = n.kube.Generation
	return n.kube
}
