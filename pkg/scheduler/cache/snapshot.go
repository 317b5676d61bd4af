// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// snapshots takes snapshots of the books. A snapshot is a copy of the books, with seven changes:
//
//   - Pods that hold nodes count against their queue even if their PodGroup does not exist, or if they are being
//     deleted (orphans.go). Of the pods that are being deleted, only those count that the method Deleted of the books'
//     Pods returns and whose node, if it exists, is ready.
//   - Objects that are invalid or too large, or that made sessions panic, are quarantined (quarantine.go).
//   - Pods hold no more than their node has (overcommit.go).
//   - Nodes have their own copy of the state of their devices (devices.Own).
//   - Pending tasks have their own copy of the pod, because allocation writes the node's name and plugins write
//     annotations into it. Upstream writes both to the informer's pod.
//   - A PodGroup has the status that this scheduler has decided, even if the watch still shows another status, so that
//     no session decides the same thing again.
//   - A pod whose node selector names a node has that node as its nominated node. allocate then tries this node before
//     others, which the pod cannot use. The node must have room for all pods that name it, because preempt evicts no
//     pods from a nominated node. A gang that requires a network domain is left unchanged, because upstream ignores the
//     domain of a pod with a nominated node.
type snapshots struct {
	books      *books.Books
	nodes      corelisters.NodeLister
	hyperNodes *hyperNodes
	quarantine *Quarantine
	status     *statuswriter.Writer
	listed     listed
}

// full returns a snapshot that belongs to the caller.
func (s *snapshots) full() *api.ClusterInfo {
	hyperNodes := s.hyperNodes.current()
	s.books.Lock()
	lost := s.onNoNode()
	whole := s.books.Full(hyperNodes, true)
	s.addStandIns(whole)
	s.books.Unlock()
	s.prepare(whole, lost, nil)
	return whole
}

// session returns the snapshot for the session that opens now, and its nodes in their other forms. Both belong to the
// session until the next call, which reuses unchanged parts (package snapshot). annotations are the maps of the watched
// pods of pending tasks, to read only. seen is the number of jobs in the snapshot, without the additional jobs for gangs
// without a PodGroup and for pods that are being deleted.
func (s *snapshots) session() (given *api.ClusterInfo, forms snapshot.NodeForms, annotations map[api.TaskID]map[string]string, seen int) {
	hyperNodes, copies := s.hyperNodes.current(), s.books.Copies()
	s.books.Lock()
	lost := s.onNoNode()
	given = s.books.Snapshot(hyperNodes)
	standIns := s.addStandIns(given)
	s.books.Unlock()
	annotations = s.prepare(given, lost, copies)
	return given, copies.Forms(given.Nodes), annotations, len(given.Jobs) - standIns
}

// prepare makes the changes that turn a copy of the books into a snapshot (see type snapshots), except that it adds no
// jobs. lost has, by gang, the tasks on nodes that do not exist. Each of them has a share (the resources that the task
// is counted to hold) without resources. The parameter by has the copies of nodes and jobs that make up a session's
// snapshot; it is nil for any other snapshot. prepare returns the annotations of the pending tasks' pods, as the watch
// has them.
func (s *snapshots) prepare(snapshot *api.ClusterInfo, lost map[api.JobID][]share, by *snapshot.Copies) map[api.TaskID]map[string]string {
	s.quarantine.takeFrom(snapshot, by)
	s.boundByNodes(snapshot, lost, by)
	s.quarantine.objects.CapMinResources(snapshot)
	devices.Own(snapshot.Nodes)
	crowded := crowdedNodes(snapshot)
	annotations := map[api.TaskID]map[string]string{}
	for _, job := range snapshot.Jobs {
		domain := job.ContainsHardTopology() // upstream ignores a required network domain when a pod has a nominated node
		for _, task := range job.TaskStatusIndex[api.Pending] {
			annotations[task.UID] = task.Pod.Annotations
			task.Pod = by.OwnPodOf(task)
			if node := snapshot.Nodes[namedNode(task.Pod)]; node != nil && !domain && !crowded[node.Name] && task.Pod.Status.NominatedNodeName == "" {
				task.Pod.Status.NominatedNodeName = node.Name
			}
		}
		if status, ok := s.status.Decided(job); ok {
			job.PodGroup.Status = *status.DeepCopy()
		}
	}
	return annotations
}

// namedNode returns the node that a pod names in its node selector; empty if it names none.
func namedNode(pod *v1.Pod) string { return pod.Spec.NodeSelector[v1.LabelHostname] }

// crowdedNodes returns the nodes that lack room for all pending pods that name them, and the nodes whose hostname label
// differs from their name.
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
