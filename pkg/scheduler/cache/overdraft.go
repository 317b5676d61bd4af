// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Whoever may create pods may write any node's name and any request into them, and the API server takes them. Upstream
// counts such a pod as one that holds what it asks for: one of 1e15 cpu on a node that does not exist used up the share
// of all that are in its queue, and on a node that exists what the whole cluster may let in. A kubelet would refuse it,
// but there may be none, and it takes a while.
//
// So in sessions the pods on a node hold together no more than the node has, which the ones that were created first hold
// first, and pods on a node that does not exist hold nothing. They are members of their gangs all the same. Pods that a
// kubelet has started are held in full: it has checked them, and a node whose kubelet or device plugin starts anew has no
// devices for a while, although they are in use.

// share is what a task holds of a node.
type share struct {
	task api.TaskID
	node string
	held *api.Resource
}

// onNoNode are the shares, by gang, of tasks on nodes that do not exist. The books' mutex is held.
func (s *snapshots) onNoNode() map[api.JobID][]share {
	lost := map[api.JobID][]share{}
	for name, node := range s.books.Nodes.All() {
		if node.Node != nil {
			continue
		}
		if _, err := s.nodes.Get(name); !apierrors.IsNotFound(err) {
			continue // the books are about to have it, or it is another scheduler's
		}
		for _, task := range node.Tasks {
			lost[task.Job] = append(lost[task.Job], share{task.UID, name, api.EmptyResource()})
		}
	}
	return lost
}

// boundByNodes makes what tasks hold in the snapshot what their nodes have for them. It is given the shares of those on
// nodes that do not exist.
func boundByNodes(snapshot *api.ClusterInfo, shares map[api.JobID][]share) {
	for _, node := range snapshot.Nodes {
		if overdrawn(node) {
			for _, task := range shareOut(node) {
				shares[task.Job] = append(shares[task.Job], share{task.UID, node.Name, task.Resreq})
			}
		}
	}
	for gang, held := range shares {
		for _, id := range []api.JobID{gang, deletedID(gang)} {
			if job := snapshot.Jobs[id]; job != nil {
				holdAtMost(job, held)
			}
		}
	}
}

// overdrawn is true if the tasks on the node ask together for more than it has.
func overdrawn(node *api.NodeInfo) bool {
	used, has, may := node.Used, node.Capacity, node.Allocatable
	if used.MilliCPU > max(has.MilliCPU, may.MilliCPU) || used.Memory > max(has.Memory, may.Memory) {
		return true
	}
	for name, amount := range used.ScalarResources {
		if amount > max(has.ScalarResources[name], may.ScalarResources[name]) {
			return true
		}
	}
	return false
}

// shareOut gives the tasks on the node what it has, those that a kubelet has started first and in full, then one after the
// other until nothing is left, and adds its books up again. It returns the tasks. A node that has lost devices has them as
// long as its capacity says so.
func shareOut(node *api.NodeInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		tasks = append(tasks, task)
	}
	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int {
		return cmp.Or(startedFirst(a, b), a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	left := node.Capacity.Clone()
	left.SetMaxResource(node.Allocatable)
	node.Used, node.Releasing = api.EmptyResource(), api.EmptyResource()
	for _, task := range tasks {
		if !started(task) {
			task.Resreq = task.Resreq.Clone().MinDimensionResource(left, api.Zero)
		}
		left = atLeastNothing(left.SubWithoutAssert(task.Resreq))
		node.Used.Add(task.Resreq)
		if task.Status == api.Releasing {
			node.Releasing.Add(task.Resreq)
		}
	}
	node.Idle = node.Allocatable.Clone().SubWithoutAssert(node.Used)
	return tasks
}

// started is true if a kubelet has taken the task's pod.
func started(task *api.TaskInfo) bool { return task.Pod.Status.StartTime != nil }

func startedFirst(a, b *api.TaskInfo) int {
	switch {
	case started(a) == started(b):
		return 0
	case started(a):
		return -1
	default:
		return 1
	}
}

// atLeastNothing makes amounts below 0 zero.
func atLeastNothing(r *api.Resource) *api.Resource {
	r.MilliCPU, r.Memory = max(r.MilliCPU, 0), max(r.Memory, 0)
	for name, amount := range r.ScalarResources {
		r.ScalarResources[name] = max(amount, 0)
	}
	return r
}

// holdAtMost makes the shares what the job's tasks hold, and adds its books up again.
func holdAtMost(job *api.JobInfo, shares []share) {
	for _, s := range shares {
		if task := job.Tasks[s.task]; task != nil && task.NodeName == s.node {
			task.Resreq = s.held.Clone()
		}
	}
	job.Allocated, job.TotalRequest = api.EmptyResource(), api.EmptyResource()
	for _, task := range job.Tasks {
		job.TotalRequest.Add(task.Resreq)
		if api.AllocatedStatus(task.Status) {
			job.Allocated.Add(task.Resreq)
		}
	}
	if isOrphan(job) {
		needsAll(job)
	}
}
