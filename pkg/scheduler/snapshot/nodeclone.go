// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// nodeClone is a session's copy of a node, and the data that shows whether it is unchanged.
type nodeClone struct {
	clone *api.NodeInfo
	// was is the original copy. sums has the original amounts of its resources, in the order of sumsOf.
	was   api.NodeInfo
	sums  [7]*Amount
	tasks []taskClone
	// fits reports whether the tasks request no more than the node has, see Fits.
	fits bool
	// version is the generation of the source.
	version uint64
	// source is the node in the books.
	source *api.NodeInfo

	// kube is the view of the node for Kubernetes' plugins. generation is the generation that kube had when it was made
	// from this copy; each change raises it.
	kube       *kubeframework.NodeInfo
	generation int64
}

// newNodeClone records a copy that was just made. former is the copy before it, if any: the view of its pods for Kubernetes'
// plugins is reused.
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

// sumsOf returns the resources that Clone takes from the Kubernetes object and the tasks. Adding and removing tasks changes only
// the first ones, up to index firstFixed.
func sumsOf(n *api.NodeInfo) [7]*api.Resource {
	return [...]*api.Resource{n.Releasing, n.Pipelined, n.Idle, n.Used, n.Allocatable, n.Capacity, n.OversubscriptionResource}
}

const firstFixed = 4

// pristine reports whether the copy is unchanged. Unless whole is set, a changed task is detected only through the sums, and the
// node's load and images are not compared.
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

// equalFields reports whether the fields of the copy that are not compared with the source's have their original values.
func (n *nodeClone) equalFields() bool {
	c, was := n.clone, &n.was
	return c.Name == was.Name && c.Node == was.Node && c.State == was.State && c.NumaInfo == nil && c.NumaChgFlag == was.NumaChgFlag &&
		c.NumaSchedulerInfo == nil && c.RevocableZone == was.RevocableZone && len(c.Others) == 0 && c.OversubscriptionNode == was.OversubscriptionNode &&
		c.OfflineJobEvicting == was.OfflineJobEvicting && c.Generation == was.Generation
}

// equalSums reports whether the copy's resources have their original amounts. Unless whole is set, resources from index firstFixed
// on are compared only if the copy has other objects for them.
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

// kubeNode returns the view of the copy for Kubernetes' plugins. It is rebuilt for a new copy, and if the last session changed
// it.
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
			info, _ = kubeframework.NewPodInfo(pod) // as in upstream, an affinity term that cannot be parsed is left out
		}
		n.kube.AddPodInfo(info)
	}
	n.kube.SetNode(n.clone.Node)
	n.generation = n.kube.Generation
	return n.kube
}
