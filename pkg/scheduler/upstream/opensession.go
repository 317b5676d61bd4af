// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// Deferred is the part of a snapshot that is hidden from upstream while it creates a session, until the first plugin
// opens.
//
// In that time upstream does two things that take longer than the snapshot itself: it creates Kubernetes' view of every
// node and all its pods, and it deep copies all pods that have a node. Both results are exported fields that no code
// reads before the first plugin opens. So upstream gets no nodes, and jobs without their index of tasks. Complete then
// sets these fields of the session. Upstream also derives other values from nodes and indexes in that time. These are
// handled as follows:
//
//   - The lists of nodes, in total and by HyperNode: Complete computes them with upstream's own functions. The sum of
//     their resources comes with the snapshot.
//   - The HyperNode of a job or sub-job that has tasks on nodes and no recorded HyperNode: upstream needs the nodes by
//     HyperNode to find it. If there is such a sub-job, nodes are not deferred.
//   - The HyperNode recorded for a job: upstream drops it when none of the job's tasks has a node. So one task with a
//     node stays in the job's index. Sub-jobs keep their index.
type Deferred struct {
	nodes map[string]*api.NodeInfo
	kube  map[string]fwk.NodeInfo
	total *api.Resource
	// names lists the nodes in the cache's order. members maps each HyperNode to its nodes.
	names   []string
	members map[string]sets.Set[string]
	indexes map[api.JobID]map[api.TaskStatus]api.TasksMap
}

// Defer removes the deferred parts, which are the nodes and the jobs' indexes of tasks, from the snapshot, and returns
// them. kube are the nodes as Kubernetes' plugins read them, and total is the sum of what the nodes have to allocate.
func Defer(snapshot *api.ClusterInfo, kube map[string]fwk.NodeInfo, total *api.Resource) *Deferred {
	d := &Deferred{
		nodes: snapshot.Nodes, kube: kube, total: total, names: snapshot.NodeList, members: snapshot.RealNodesSet,
		indexes: make(map[api.JobID]map[api.TaskStatus]api.TasksMap, len(snapshot.Jobs)),
	}
	if !recoversHyperNodes(snapshot) {
		snapshot.Nodes = map[string]*api.NodeInfo{}
	}
	for id, job := range snapshot.Jobs {
		d.indexes[id] = job.TaskStatusIndex
		job.TaskStatusIndex = nil
		if job.AllocatedHyperNode != "" {
			job.TaskStatusIndex = onePlaced(d.indexes[id])
		}
	}
	return d
}

// recoversHyperNodes reports whether upstream will search for the HyperNode that contains the tasks of a sub-job. For
// that it needs the nodes.
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

// placed yields the tasks of an index that have a node, with their status. The node may be set in the API server or
// only in the books.
func placed(index map[api.TaskStatus]api.TasksMap) iter.Seq2[api.TaskStatus, *api.TaskInfo] {
	return func(yield func(api.TaskStatus, *api.TaskInfo) bool) {
		for status, tasks := range index {
			if !api.AllocatedStatus(status) {
				continue
			}
			for _, task := range tasks {
				if !yield(status, task) {
					return
				}
			}
		}
	}
}

// onePlaced returns an index that contains one of the placed tasks; nil if no task is placed.
func onePlaced(index map[api.TaskStatus]api.TasksMap) map[api.TaskStatus]api.TasksMap {
	for status, task := range placed(index) {
		return map[api.TaskStatus]api.TasksMap{status: {task.UID: task}}
	}
	return nil
}

// Complete gives the deferred parts, which are the nodes and the jobs' indexes of tasks, to the session. It also sets
// the session's lister of placed pods.
func (d *Deferred) Complete(ssn *vcframework.Session, pods *PlacedPods) {
	for id, index := range d.indexes {
		ssn.Jobs[id].TaskStatusIndex = index
	}
	if len(ssn.Nodes) == 0 {
		ssn.Nodes = d.nodes
		ssn.NodeList = util.GetNodeList(d.nodes, d.names)
		lists, members := util.GetRealNodesByHyperNode(d.members, d.nodes)
		maps.Copy(ssn.RealNodesList, lists)
		maps.Copy(ssn.RealNodesSet, members)
		ssn.RealNodesList[vcframework.ClusterTopHyperNode] = ssn.NodeList
		all := make(sets.Set[string], len(ssn.NodeList))
		for _, node := range ssn.NodeList {
			all.Insert(node.Name)
		}
		ssn.RealNodesSet[vcframework.ClusterTopHyperNode] = all
		ssn.TotalResource.Add(d.total)
	}
	ssn.NodeMap = d.kube
	ssn.PodLister = pods.lister(ssn)
}
