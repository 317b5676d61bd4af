// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// keptNode is the copy of a node that sessions get, and what is needed to tell whether it is as good as new.
type keptNode struct {
	clone *api.NodeInfo
	// was is the copy as it was made, but sums, which are the amounts of its resources.
	was   api.NodeInfo
	sums  [7]*amount
	tasks []keptTask

	// kube is what Kubernetes' plugins see of the node, and generation the one it had when it was made of this copy: each
	// change gives it another.
	kube       *kubeframework.NodeInfo
	generation int64
}

// keepNode keeps a copy that was just made. former is the copy before it, if any: what Kubernetes' plugins see of its
// pods is used again.
func keepNode(source, clone *api.NodeInfo, former *keptNode) *keptNode {
	k := &keptNode{clone: clone, was: *clone, tasks: make([]keptTask, 0, len(source.Tasks))}
	for i, r := range sumsOf(clone) {
		k.sums[i] = amountOf(r)
	}
	var known amounts
	for key, task := range source.Tasks {
		k.tasks = append(k.tasks, keepTask(key, task, clone.Tasks[key], &known))
	}
	if former != nil {
		k.kube, k.generation = former.kube, -1
	}
	return k
}

// sumsOf are the resources that Clone takes from the Kubernetes object and the tasks.
func sumsOf(n *api.NodeInfo) [7]*api.Resource {
	return [...]*api.Resource{n.Releasing, n.Pipelined, n.Idle, n.Used, n.Allocatable, n.Capacity, n.OversubscriptionResource}
}

// asNew says whether the copy is what Clone of the source would be.
func (k *keptNode) asNew(source *api.NodeInfo) bool {
	c := k.clone
	if source.Node != k.was.Node || source.NumaInfo != nil || source.NumaSchedulerInfo != nil || len(source.Others) > 0 ||
		c.Tasks == nil || c.Others == nil || len(source.Tasks) != len(k.tasks) || len(c.Tasks) != len(k.tasks) || !k.sameFields() ||
		c.BindGeneration != source.BindGeneration || !sameUsage(c.ResourceUsage, source.ResourceUsage) || !sameImages(c.ImageStates, source.ImageStates) {
		return false
	}
	for i := range k.tasks {
		t := &k.tasks[i]
		if source.Tasks[t.key] != t.source || c.Tasks[t.key] != t.clone || !t.asNew() {
			return false
		}
	}
	return true
}

// sameFields compares the fields of the copy that are not compared with the source's.
func (k *keptNode) sameFields() bool {
	c, was := k.clone, &k.was
	if c.Name != was.Name || c.Node != was.Node || c.State != was.State || c.NumaInfo != nil || c.NumaChgFlag != was.NumaChgFlag ||
		c.NumaSchedulerInfo != nil || c.RevocableZone != was.RevocableZone || len(c.Others) > 0 || c.OversubscriptionNode != was.OversubscriptionNode ||
		c.OfflineJobEvicting != was.OfflineJobEvicting || c.Generation != was.Generation {
		return false
	}
	for i, r := range sumsOf(c) {
		if !k.sums[i].is(r) {
			return false
		}
	}
	return true
}

// kubeNode is what Kubernetes' plugins see of the copy: made anew for a new copy, and if the last session changed it.
func (k *keptNode) kubeNode() fwk.NodeInfo {
	if k.kube != nil && k.kube.Generation == k.generation {
		return k.kube
	}
	known := map[*v1.Pod]fwk.PodInfo{}
	if k.kube != nil {
		for _, info := range k.kube.Pods {
			known[info.GetPod()] = info
		}
	}
	k.kube = kubeframework.NewNodeInfo()
	for _, pod := range k.clone.Pods() {
		info, ok := known[pod]
		if !ok {
			info, _ = kubeframework.NewPodInfo(pod) // an affinity term that cannot be read is left out, as upstream does
		}
		k.kube.AddPodInfo(info)
	}
	k.kube.SetNode(k.clone.Node)
	k.generation = k.kube.Generation
	return k.kube
}
