// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Snapshot returns upstream's snapshot with nine changes:
//
//   - Pods that hold nodes count when their PodGroup does not exist (orphans.go).
//   - What cannot be reckoned with, or made sessions panic, is set aside (aside.go).
//   - Faulty HyperNodes are left out (hypernodes.go).
//   - Pods hold no more than their node has (overdraft.go).
//   - Nodes have ledgers of their devices of their own.
//   - A job has the minima of binding.ApplyMinimum.
//   - Victims of an eviction are leaving (evictor.go).
//   - Pending tasks have a pod of their own, because allocation writes the node's name and plugins write annotations
//     into it, which upstream does to the informer's pod.
//   - A PodGroup whose status this scheduler has decided but the watch has not shown yet has the decided one, so that no
//     session decides the same thing again.
//   - A pod that names its node has it as its nominated node, so that allocate looks at that node before all others, of
//     which none will do; but only when there is room for all that name it, because preempt makes none on a nominated node.
//
// All of it is the caller's own.
func (c *Cache) Snapshot() *api.ClusterInfo {
	hyperNodes := c.hyperNodes.current()
	c.SchedulerCache.Mutex.Lock()
	c.mendBooks()
	lost := c.onNoNode()
	whole := snapshot.Full(c.SchedulerCache, hyperNodes)
	c.addOrphans(whole)
	c.SchedulerCache.Mutex.Unlock()
	c.prepare(whole, lost, nil)
	return whole
}

// SessionSnapshot is Snapshot for the session that opens now, and what Kubernetes' plugins see of its nodes. Both are
// the session's until the next call, which hands out again what has not changed (package snapshot).
func (c *Cache) SessionSnapshot() (*api.ClusterInfo, map[string]fwk.NodeInfo) {
	hyperNodes := c.hyperNodes.current()
	c.SchedulerCache.Mutex.Lock()
	c.mendBooks()
	lost := c.onNoNode()
	given := c.snapshotter.Snapshot(c.SchedulerCache, hyperNodes)
	orphans := c.addOrphans(given)
	c.SchedulerCache.Mutex.Unlock()
	c.prepare(given, lost, c.snapshotter)
	c.tellFaulty()
	c.tellStrays(len(given.Jobs) - orphans)
	nodeMap := c.snapshotter.NodeMap()
	maps.DeleteFunc(nodeMap, func(name string, _ fwk.NodeInfo) bool { return given.Nodes[name] == nil })
	return given, nodeMap
}

// prepare makes the changes. The snapshot is the snapshotter's, if there is one.
func (c *Cache) prepare(snapshot *api.ClusterInfo, lost map[api.JobID][]share, by *snapshot.Snapshotter) {
	c.forgetIncomplete()
	for _, job := range snapshot.Jobs {
		binding.ApplyMinimum(job)
	}
	c.setAside(snapshot, by)
	boundByNodes(snapshot, lost)
	c.aside.ReckonWithHoldings(snapshot)
	devices.Own(snapshot.Nodes)
	c.evictor.bookVictims(snapshot)
	crowded := crowdedNodes(snapshot)
	for _, job := range snapshot.Jobs {
		domain := job.ContainsHardTopology() // where upstream lets a nomination out of the required domain
		for _, task := range job.TaskStatusIndex[api.Pending] {
			task.Pod = ownPod(task.Pod)
			if node := snapshot.Nodes[namedNode(task.Pod)]; node != nil && !domain && !crowded[node.Name] && task.Pod.Status.NominatedNodeName == "" {
				task.Pod.Status.NominatedNodeName = node.Name
			}
		}
		if status, ok := c.status.Decided(job); ok {
			job.PodGroup.Status = *status.DeepCopy()
		}
	}
}

// ownPod copies what scheduling writes to: the pod's fields, and its annotations. The rest is shared and read-only.
//
// A pod that the watch shows may be one that upstream has not been told of yet. When it is, and the pod has no controller, its
// handler writes the owners of the pod as it was before into it, under the cache's mutex. So such a pod is copied under the mutex,
// and neither goes into the books nor is read whole without it.
func ownPod(pod *v1.Pod) *v1.Pod {
	own := *pod
	own.Annotations = maps.Clone(pod.Annotations)
	return &own
}

// ownWatchedPod is ownPod of a pod that the watch shows.
func (c *Cache) ownWatchedPod(pod *v1.Pod) *v1.Pod {
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	return ownPod(pod)
}

// namedNode is the node a pod names in its node selector; empty when it names none.
func namedNode(pod *v1.Pod) string { return pod.Spec.NodeSelector[v1.LabelHostname] }

// crowdedNodes are the nodes without room for all pending pods that name them, and those whose hostname label is not
// their name.
func crowdedNodes(snapshot *api.ClusterInfo) map[string]bool {
	wanted := map[string]*api.Resource{}
	for _, job := range snapshot.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if name := namedNode(task.Pod); name != "" {
				if wanted[name] == nil {
					wanted[name] = api.EmptyResource()
				}
				wanted[name].Add(task.InitResreq)
			}
		}
	}
	crowded := map[string]bool{}
	for name, resources := range wanted {
		if node := snapshot.Nodes[name]; node != nil {
			crowded[name] = node.Node.Labels[v1.LabelHostname] != name || !resources.LessEqual(node.FutureIdle(), api.Zero)
		}
	}
	return crowded
}
