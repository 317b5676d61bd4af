// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// A user who may create pods may write any node's name and any request into a pod, and the API server accepts that.
// Upstream counts such a pod as holding its request. A pod of 1e15 cpu on a node that does not exist used up the share
// of its whole queue. On an existing node it used up all that the cluster can admit. A kubelet would reject the pod,
// but late, or never if the node does not exist.
//
// So in sessions the pods on a node together hold at most the node's resources, the oldest pods first. Pods on a node
// that does not exist hold nothing. They still are members of their gangs. Pods that a kubelet has started hold the
// full cpu and memory that they request, because the kubelet has checked these. A kubelet ignores requests for extended
// resources that its node does not list, and starts the pod. So started pods together hold at most the largest amount
// of an extended resource that the node has listed. That is not always the current amount: a node whose kubelet or
// device plugin restarts lists no devices for some time, although the devices are in use.

// share is the part of a node's resources that a task is counted to hold.
type share struct {
	task api.TaskID
	node string
	held *api.Resource
}

// onNoNode returns, by gang, the tasks on nodes that do not exist. Each has a share without resources, because such a
// task holds nothing. The caller must hold the books' mutex.
func (s *snapshots) onNoNode() map[api.JobID][]share {
	lost := map[api.JobID][]share{}
	for name, node := range s.books.Nodes.All() {
		if node.Node != nil {
			continue
		}
		if _, err := s.nodes.Get(name); !apierrors.IsNotFound(err) {
			continue // the books do not have the node yet, or it belongs to another scheduler
		}
		for _, task := range node.Tasks {
			lost[task.Job] = append(lost[task.Job], share{task.UID, name, api.EmptyResource()})
		}
	}
	return lost
}

// listed has, for each node, the largest amount of each resource that the node has listed since this process started.
type listed struct {
	mu sync.Mutex
	of map[string]*api.Resource
}

// recordNode returns, for each resource, the largest amount that the node has listed as capacity or allocatable, now or in an
// earlier call of recordNode. The result is a copy, which the caller may change.
func (l *listed) recordNode(node *api.NodeInfo) *api.Resource {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*api.Resource{}
	}
	most := l.of[node.Name]
	if most == nil {
		most = api.EmptyResource()
		l.of[node.Name] = most
	}
	most.SetMaxResource(node.Capacity)
	most.SetMaxResource(node.Allocatable)
	return most.Clone()
}

// prune drops the recorded amounts of nodes that no longer exist. It does nothing until the number of recorded nodes is
// about twice that of existing nodes, which is the parameter existing.
func (l *listed) prune(nodes corelisters.NodeLister, existing int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) <= 2*existing+100 {
		return
	}
	maps.DeleteFunc(l.of, func(name string, _ *api.Resource) bool {
		_, err := nodes.Get(name)
		return apierrors.IsNotFound(err)
	})
}

// boundByNodes limits the resources that tasks in the snapshot hold to the resources of their nodes. shares has, by
// gang, a share without resources for each task on a node that does not exist. For a session's snapshot, the parameter
// by records which nodes were not overcommitted and have not changed since. These nodes are not checked again. For any
// other snapshot, it is nil.
func (s *snapshots) boundByNodes(given *api.ClusterInfo, shares map[api.JobID][]share, by *snapshot.Copies) {
	s.listed.prune(s.nodes, len(given.Nodes))
	for _, node := range given.Nodes {
		if by.Fits(node) {
			continue
		}
		most := s.listed.recordNode(node)
		if !overcommitted(node) {
			by.NoteFits(node)
			continue
		}
		for _, task := range shareOut(node, most) {
			shares[task.Job] = append(shares[task.Job], share{task.UID, node.Name, task.Resreq})
		}
	}
	for gang, held := range shares {
		for _, id := range []api.JobID{gang, framework.DeletedJob(gang)} {
			if job := given.Jobs[id]; job != nil {
				holdAtMost(job, held)
			}
		}
	}
}

// overcommitted reports whether the tasks on the node together request more than the node has.
func overcommitted(node *api.NodeInfo) bool {
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

// shareOut distributes the node's resources among its tasks. Tasks that a kubelet has started come first. They get the
// cpu and memory that they request. Together they get at most the amount of an extended resource in most, which is the
// largest amount that the node has listed. The other tasks get the rest in order of age, until nothing is left.
// shareOut recomputes the node's used, releasing and idle resources, and returns the tasks. Devices that the node has
// lost still count while the node's capacity lists them.
func shareOut(node *api.NodeInfo, most *api.Resource) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range node.Tasks {
		tasks = append(tasks, task)
	}
	slices.SortFunc(tasks, func(a, b *api.TaskInfo) int {
		return cmp.Or(framework.CompareStarted(a, b), a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	left := node.Capacity.Clone()
	left.SetMaxResource(node.Allocatable)
	node.Used, node.Releasing = api.EmptyResource(), api.EmptyResource()
	for _, task := range tasks {
		if framework.Started(task) {
			task.Resreq = withoutExcess(task.Resreq, most)
		} else {
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

// withoutExcess returns the request of a started task, with extended resources limited to the amounts in most. It
// subtracts the returned amounts from most, which then has the amounts that are left for other started tasks.
func withoutExcess(request, most *api.Resource) *api.Resource {
	request = request.Clone()
	for name, amount := range request.ScalarResources {
		amount = min(amount, most.ScalarResources[name])
		request.ScalarResources[name] = amount
		if amount > 0 {
			most.ScalarResources[name] -= amount
		}
	}
	return request
}

// atLeastNothing replaces the resource's negative amounts with zero.
func atLeastNothing(r *api.Resource) *api.Resource {
	r.MilliCPU, r.Memory = max(r.MilliCPU, 0), max(r.Memory, 0)
	for name, amount := range r.ScalarResources {
		r.ScalarResources[name] = max(amount, 0)
	}
	return r
}

// holdAtMost replaces the requests of those tasks of the job that have a share in shares by the resources of the share.
// It recomputes the job's allocated and total requested resources.
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
		framework.StandFor(job)
	}
}
