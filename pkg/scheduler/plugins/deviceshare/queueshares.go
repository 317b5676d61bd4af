// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// A user who may create pods may write any node's name, any request and any allocation into a pod. Without a bound, one
// such pod uses up the limit of its queue, and all other users of the queue wait. So the pods of a queue on a node together
// count at most the node's devices. On a node that does not exist, pods count nothing. The devices are counted for pods in
// this order: pods with an allocation, because only their devices are known; pods that a kubelet has started; the oldest
// pods. Each queue is bounded alone: otherwise a forged pod in one queue would lower what another queue counts.
//
// The devices of a node are unknown if it has no Device object, and has listed no devices since this process started.
// Its pods with an allocation count with the allocation, because they may have been bound while a Device object existed.
// Together they count at most the devices of the largest node, so a forged allocation counts no more there than on that
// node. Its other pods count nothing: a node that never had devices looks the same.
//
// Sessions do not have all nodes that exist, so the informer decides whether a node exists.

// taskOnNode identifies a task on one node.
type taskOnNode struct {
	task api.TaskID
	node string
}

// shareOut distributes the node's devices among the tasks on it, and records the shares in q.shares.
func (q *queueLimits) shareOut(node string, tasks []*api.TaskInfo) {
	type claim struct {
		task *api.TaskInfo
		want allocator.Amounts
		// place is 0 for a task with an allocation, which comes first, and 1 for other tasks.
		place int
	}
	var claims []claim
	for _, task := range tasks {
		if request := q.requestOnNode(task); request != nil {
			want, allocated := q.wantedBy(task, request)
			place := 1
			if allocated {
				place = 0
			}
			claims = append(claims, claim{task, want, place})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.place-b.place, framework.CompareStarted(a.task, b.task),
			a.task.Pod.CreationTimestamp.Compare(b.task.Pod.CreationTimestamp.Time), cmp.Compare(a.task.UID, b.task.UID))
	})
	left := q.boundOf(node)
	for _, c := range claims {
		share := c.want.Min(left)
		left = left.Sub(share)
		q.shares[taskOnNode{c.task.UID, node}] = share
	}
}

// requestOnNode returns the request of a task that is on a node; nil if the task requests no devices. A user may change the
// annotations of a running pod, so invalid ones are ignored: they must not reduce what the queue uses.
func (q *queueLimits) requestOnNode(task *api.TaskInfo) *request {
	request := q.requestOf(task)
	if request == nil || request.err == nil {
		return request
	}
	pod := *task.Pod
	pod.Annotations = nil
	if request = q.parse(&pod); request.err != nil || request.Request == nil {
		return nil
	}
	return request
}

// usedBy returns the amounts of devices with which a task on a node counts against the limits of its queue: its share
// of the node's devices if it has one. A task that the session has placed counts with its devices, because the session
// has checked that the node has them.
func (q *queueLimits) usedBy(task *api.TaskInfo, request *request) allocator.Amounts {
	if share, ok := q.shares[taskOnNode{task.UID, task.NodeName}]; ok && q.placed[task.UID] == nil {
		return share
	}
	want, _ := q.wantedBy(task, request)
	return want.Min(q.boundOf(task.NodeName))
}

// wantedBy returns the amounts with which a task on a node counts against the limits of its queue, as far as the node
// has them. They are the sum of the task's allocation. Without an allocation, they are the largest amounts that the
// task's request may get.
func (q *queueLimits) wantedBy(task *api.TaskInfo, request *request) (want allocator.Amounts, allocated bool) {
	var allocation *allocator.Allocation
	if own := q.placed[task.UID]; own != nil {
		allocation = own.allocation
	} else {
		allocation, _ = allocator.AllocationOf(task.Pod) // errors are ignored here: readAllocated logs them in the session
	}
	switch {
	case !allocation.IsEmpty():
	case q.capacityOf(task.NodeName).IsZero(): // the node has no devices, or they are unknown
		return want, false
	default:
		return q.mostOf(task, request), false
	}
	return q.sumOf(task.NodeName, request, allocation), true
}

// sumOf returns the sum of the allocation, but at least the amounts that the request gets on every node. The minimum is
// needed because a tenant may write the annotation with the allocation. NPUs count under all their names.
func (q *queueLimits) sumOf(name string, request *request, allocation *allocator.Allocation) allocator.Amounts {
	sum := allocation.Sum()
	if node := q.nodeOf(name); node != nil {
		if inventory := q.known.of(node); inventory != nil {
			sum = inventory.SumOf(allocation)
		}
	}
	return request.WithNPUs(sum.Max(request.Least()), q.capacityOf(name))
}

// nodeOf returns the named node; nil if the node does not exist.
func (q *queueLimits) nodeOf(name string) *v1.Node {
	if node := q.ssn.Nodes[name]; node != nil && node.Node != nil {
		return node.Node
	}
	node, err := q.ssn.InformerFactory().Core().V1().Nodes().Lister().Get(name)
	if err != nil {
		return nil
	}
	return node
}

// boundOf returns the amounts of devices that the pods of a queue on the named node together count at most. These are the
// devices of the node, or of the largest node of the session if the node's devices are unknown.
func (q *queueLimits) boundOf(name string) allocator.Amounts {
	has := q.capacityOf(name)
	if !has.IsZero() {
		return has
	}
	if node := q.nodeOf(name); node == nil || q.known.of(node) != nil {
		return has
	}
	if q.largestNode.IsZero() {
		for name := range q.ssn.Nodes {
			q.largestNode = q.largestNode.Max(q.capacityOf(name))
		}
	}
	return q.largestNode
}

// capacityOf returns the amounts of devices of the named node; zero if the node does not exist. GPUs of a node without a
// Device object count by their number, each with as much memory as the largest GPU in the session.
func (q *queueLimits) capacityOf(name string) allocator.Amounts {
	if known, ok := q.capacities[name]; ok {
		return known
	}
	var has allocator.Amounts
	if node := q.nodeOf(name); node != nil {
		has = q.known.capacityOf(node, allocator.NumberedGPUs(node, q.largestMemory))
	}
	q.capacities[name] = has
	return has
}
