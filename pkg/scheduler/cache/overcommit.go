// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// A user who may create pods may write any node's name and any request into a pod, and the API server accepts that.
// Upstream counts such a pod as holding its request. So a pod of 1e15 cpu on a node that does not exist uses up the
// share of its whole queue. On an existing node it uses up all that the cluster can admit. A kubelet would reject the
// pod, but late, or never if the node does not exist.
//
// So here, in sessions, the pods on a node together hold at most the node's resources, the oldest pods first. Pods on a
// node that does not exist hold nothing. They still are members of their gangs. Pods that a kubelet has started come
// first. Each holds the cpu and memory that its kubelet has granted, as the pod's status reports it, because the
// kubelet has checked these. Its request may be more: a running pod can be resized to any amount, and the new request
// counts until the kubelet marks the resize as infeasible. A kubelet that is down never does. So the excess of a
// request over the grant counts only as far as the node has resources left. A kubelet ignores requests for extended
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
	for name, node := range s.books.Nodes.Absent() {
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

// recordNode returns, for each resource, the largest amount that the node has listed as capacity or allocatable, now or
// in an earlier call of recordNode. The result is a copy, which the caller may change.
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
	unchecked := slices.Collect(maps.Values(given.Nodes))
	if by != nil {
		unchecked = by.Unfit()
	}
	for _, node := range unchecked {
		most := s.listed.recordNode(node)
		if !overcommitted(node) {
			if by != nil {
				by.NoteFits(node)
			}
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

// shareOut distributes the node's resources among its tasks. First each task that a kubelet has started gets the
// resources that the kubelet has granted to it. Of an extended resource, these tasks together get at most the amount in
// `most`, which is the largest amount that the node has listed. Then the tasks get the rest of their requests until
// nothing is left: started tasks first, then the other tasks, the oldest first in each case. shareOut recomputes the
// node's used, releasing and idle resources, and returns the tasks. Devices that the node has lost still count while
// the node's capacity lists them.
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
	grants := make([]*api.Resource, len(tasks))
	for i, task := range tasks {
		grants[i] = api.EmptyResource()
		if framework.Started(task) {
			grants[i] = withoutExcess(granted(task), most)
		}
		left = atLeastNothing(left.SubWithoutAssert(grants[i]))
	}
	node.Used, node.Releasing = api.EmptyResource(), api.EmptyResource()
	for i, task := range tasks {
		rest := task.Resreq.Clone().SubWithoutAssert(grants[i]).MinDimensionResource(left, api.Zero)
		left.SubWithoutAssert(rest)
		task.Resreq = rest.Add(grants[i])
		node.Used.Add(task.Resreq)
		if task.Status == api.Releasing {
			node.Releasing.Add(task.Resreq)
		}
	}
	node.Idle = node.Allocatable.Clone().SubWithoutAssert(node.Used)
	return tasks
}

// granted returns the part of a started task's request that its kubelet has granted: cpu and memory as the pod's status
// reports them for containers that have not ended, and the pod's overhead. Other resources cannot be resized, so their
// requests count in full. A container without a report counts as granted nothing: it has not run yet, and may have been
// resized, or its kubelet is too old to report grants.
func granted(task *api.TaskInfo) *api.Resource {
	pod := task.Pod
	reported := []v1.ResourceList{pod.Spec.Overhead}
	for _, container := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if container.Resources != nil && container.State.Terminated == nil {
			reported = append(reported, container.Resources.Requests)
		}
	}
	var cpu, memory float64
	for _, amounts := range reported {
		cpu += float64(amounts.Cpu().MilliValue())
		memory += float64(amounts.Memory().Value())
	}
	grant := task.Resreq.Clone()
	grant.MilliCPU, grant.Memory = min(grant.MilliCPU, cpu), min(grant.Memory, memory)
	return grant
}

// withoutExcess returns the resources that a kubelet has granted to a task, with extended resources limited to the
// amounts in `most`. It subtracts the returned extended resources from `most`, which then has the amounts that are left
// for other started tasks.
func withoutExcess(grant, most *api.Resource) *api.Resource {
	for name, amount := range grant.ScalarResources {
		amount = min(amount, most.ScalarResources[name])
		grant.ScalarResources[name] = amount
		if amount > 0 {
			most.ScalarResources[name] -= amount
		}
	}
	return grant
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
		upstream.CapMinResources(job)
	}
}
