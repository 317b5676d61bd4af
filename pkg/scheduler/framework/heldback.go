// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// Keeper is a Cache that hands out again, from session to session, what has not changed.
type Keeper interface {
	// SessionSnapshot is Snapshot for the session that opens now, and what Kubernetes' plugins see of its nodes. What the
	// last session was given is no longer its own.
	SessionSnapshot() (snapshot *api.ClusterInfo, nodeMap map[string]fwk.NodeInfo)
}

// heldBack is what upstream is not shown of a snapshot while it makes a session of it, until the first plugin opens.
//
// Between the snapshot and the first plugin upstream does two things that take longer than the snapshot itself: it makes
// Kubernetes' view of every node and all its pods, and deep copies of all pods that have a node. Both come from fields
// that are exported and that nothing has looked at by then. So upstream is shown no nodes, and jobs without their index
// of tasks, and the session is completed here. What else upstream derives from nodes and indexes in that time is
// derived from the complete ones, with upstream's own functions:
//
//   - The lists of nodes, of all and by HyperNode, and the sum of what they have: in complete.
//   - A job or sub-job that has tasks on nodes and no HyperNode noted is given the one that they lie in. This needs the
//     nodes by HyperNode: where there is such a sub-job, nodes are not held back.
//   - A HyperNode noted for a job is dropped when none of its tasks has a node: of its index, one task that has a node is
//     left. Sub-jobs keep their index.
type heldBack struct {
	nodes   map[string]*api.NodeInfo
	nodeMap map[string]fwk.NodeInfo
	// names lists the nodes in the cache's order, and members has them by HyperNode.
	names   []string
	members map[string]sets.Set[string]
	indexes map[api.JobID]map[api.TaskStatus]api.TasksMap
}

// holdBack takes from the snapshot what upstream need not see.
func holdBack(snapshot *api.ClusterInfo, nodeMap map[string]fwk.NodeInfo) *heldBack {
	h := &heldBack{
		nodes: snapshot.Nodes, nodeMap: nodeMap, names: snapshot.NodeList, members: snapshot.RealNodesSet,
		indexes: make(map[api.JobID]map[api.TaskStatus]api.TasksMap, len(snapshot.Jobs)),
	}
	if !recoversHyperNodes(snapshot) {
		snapshot.Nodes = map[string]*api.NodeInfo{}
	}
	for id, job := range snapshot.Jobs {
		h.indexes[id] = job.TaskStatusIndex
		job.TaskStatusIndex = nil
		if job.AllocatedHyperNode != "" {
			job.TaskStatusIndex = anAllocated(h.indexes[id])
		}
	}
	return h
}

// recoversHyperNodes says whether upstream will look for the HyperNode that tasks of a sub-job lie in.
func recoversHyperNodes(snapshot *api.ClusterInfo) bool {
	if !snapshot.HyperNodesReadyToSchedule {
		return false
	}
	for _, job := range snapshot.Jobs {
		if !job.ContainsNetworkTopology() {
			continue
		}
		for _, sub := range job.SubJobs {
			_, known := snapshot.HyperNodes[sub.AllocatedHyperNode]
			known = known || sub.AllocatedHyperNode == vcframework.ClusterTopHyperNode
			if sub.WithNetworkTopology() && sub.AllocatedTaskNum() > 0 && !known {
				return true
			}
		}
	}
	return false
}

// anAllocated is an index of one of the tasks that have a node, if there are any.
func anAllocated(index map[api.TaskStatus]api.TasksMap) map[api.TaskStatus]api.TasksMap {
	for status, tasks := range index {
		if !api.AllocatedStatus(status) {
			continue
		}
		for uid, task := range tasks {
			return map[api.TaskStatus]api.TasksMap{status: {uid: task}}
		}
	}
	return nil
}

// complete gives the session what was held back.
func (h *heldBack) complete(ssn *vcframework.Session) {
	for id, index := range h.indexes {
		ssn.Jobs[id].TaskStatusIndex = index
	}
	if len(ssn.Nodes) == 0 {
		ssn.Nodes = h.nodes
		ssn.NodeList = util.GetNodeList(h.nodes, h.names)
		lists, members := util.GetRealNodesByHyperNode(h.members, h.nodes)
		maps.Copy(ssn.RealNodesList, lists)
		maps.Copy(ssn.RealNodesSet, members)
		ssn.RealNodesList[vcframework.ClusterTopHyperNode] = ssn.NodeList
		for _, node := range ssn.NodeList {
			ssn.RealNodesSet[vcframework.ClusterTopHyperNode].Insert(node.Name)
		}
		for _, node := range h.nodes {
			ssn.TotalResource.Add(node.Allocatable)
		}
	}
	ssn.NodeMap = h.nodeMap
	ssn.PodLister = podLister(ssn)
}

// podLister is upstream's PodLister of the session. Pods that have the name of their task's node themselves are not
// copied: the lister gives these away as they are, and copies them itself when it has to.
func podLister(ssn *vcframework.Session) *vcframework.PodLister {
	tasks := 0
	for _, job := range ssn.Jobs {
		tasks += len(job.Tasks)
	}
	lister := &vcframework.PodLister{
		Session:          ssn,
		CachedPods:       map[api.TaskID]*v1.Pod{},
		Tasks:            make(map[api.TaskID]*api.TaskInfo, tasks),
		TaskWithAffinity: map[api.TaskID]*api.TaskInfo{},
	}
	for _, job := range ssn.Jobs {
		for status, tasks := range job.TaskStatusIndex {
			if !api.AllocatedStatus(status) {
				continue
			}
			for uid, task := range tasks {
				lister.Tasks[uid] = task
				if task.Pod.Spec.NodeName != task.NodeName {
					pod := *task.Pod
					pod.Spec.NodeName, pod.Annotations = task.NodeName, maps.Clone(pod.Annotations)
					lister.CachedPods[uid] = &pod
				}
				if vcframework.HaveAffinity(task.Pod) {
					lister.TaskWithAffinity[uid] = task
				}
			}
		}
	}
	return lister
}
