// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// nodeClone is the copy of a node that sessions get, and what is needed to tell whether it is as good as new.
type nodeClone struct {
	clone *api.NodeInfo
	// was is the copy as it was made, but sums, which are the amounts of its resources.
	was   api.NodeInfo
	sums  [7]*Amount
	tasks []taskClone
	// version is the generation of the source.
	version uint64
	// source is what was copied.
	source *api.NodeInfo

	// kube is what Kubernetes' plugins see of the node, and generation the one it had when it was made of this copy: each
	// change gives it another.
	kube       *kubeframework.NodeInfo
	generation int64
}

// newNodeClone keeps a copy that was just made. former is the copy before it, if any: what Kubernetes' plugins see of its
// pods is used again.
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

// sumsOf are the resources that Clone takes from the Kubernetes object and the tasks.
func sumsOf(n *api.NodeInfo) [7]*api.Resource {
	return [...]*api.Resource{n.Releasing, n.Pipelined, n.Idle, n.Used, n.Allocatable, n.Capacity, n.OversubscriptionResource}
}

// pristine reports whether the copy is as it was made. If not all of it is compared, a task is only missed if the sums say so.
func (n *nodeClone) pristine(whole bool) bool {
	c := n.clone
	if len(c.Tasks) != len(n.tasks) || c.Tasks == nil || c.Others == nil || !n.equalFields() || c.BindGeneration != n.was.BindGeneration ||
		!equalUsage(c.ResourceUsage, n.source.ResourceUsage) || !equalImages(c.ImageStates, n.source.ImageStates) {
		return false
	}
	if !whole {
		return true
	}
	for i := range n.tasks {
		if t := &n.tasks[i]; c.Tasks[t.key] != t.clone || !t.unchanged() {
			return false
		}
	}
	return true
}

// equalFields compares the fields of the copy that are not compared with the source's.
func (n *nodeClone) equalFields() bool {
	c, was := n.clone, &n.was
	if c.Name != was.Name || c.Node != was.Node || c.State != was.State || c.NumaInfo != nil || c.NumaChgFlag != was.NumaChgFlag ||
		c.NumaSchedulerInfo != nil || c.RevocableZone != was.RevocableZone || len(c.Others) > 0 || c.OversubscriptionNode != was.OversubscriptionNode ||
		c.OfflineJobEvicting != was.OfflineJobEvicting || c.Generation != was.Generation {
		return false
	}
	for i, r := range sumsOf(c) {
		n.sums[i].restore(r)
		if !n.sums[i].Is(r) {
			return false
		}
	}
	return true
}

// kubeNode is what Kubernetes' plugins see of the copy: made anew for a new copy, and if the last session changed it.
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
			info, _ = kubeframework.NewPodInfo(pod) // an affinity term that cannot be read is left out, as upstream does
		}
		n.kube.AddPodInfo(info)
	}
	n.kube.SetNode(n.clone.Node)
	n.generation = n.kube.Generation
	return n.kube
}
