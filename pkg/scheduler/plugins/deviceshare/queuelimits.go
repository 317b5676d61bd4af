// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// queueLimits enforces the limits of devices in the capabilities of queues. Upstream's plugins capacity and proportion
// compare only the resource names that pods request. But a pod that requests devices by one name also uses them under
// other names, and the used amounts may depend on the node. So queueLimits counts each pod under every name. It counts
// the pod's allocation if the pod has one, and otherwise the largest amounts that any node could give. The pods on a node
// together count at most the node's devices (queueshares.go). Nothing is counted for queues whose capability has no
// device names.
type queueLimits struct {
	ssn       *framework.Session
	known     *inventories
	requestOf func(task *api.TaskInfo) *request
	parse     func(pod *v1.Pod) *request
	placed    map[api.TaskID]*placement
	// nested reports whether the limits of a queue also apply to its child queues.
	nested bool
	limits map[api.QueueID]allocator.QueueUse
	// used is the use of devices in each queue with a limit. counted is the use of each task that is included in used.
	// Both are nil before the first use.
	used    map[api.QueueID]allocator.QueueUse
	counted map[api.TaskID]allocator.QueueUse
	// shares has, for each task on a node, the amounts of the node's devices that count against the limits of its queue
	// (shareOut). capacities caches the devices of nodes, by name.
	shares     map[taskOnNode]allocator.Amounts
	capacities map[string]allocator.Amounts
	// largestMemory is the memory of the largest GPU in the session, in bytes. largestNode has, for each resource, the
	// largest amount that a node of the session has. It is zero before the first use.
	largestMemory int64
	largestNode   allocator.Amounts
	// inventories has one inventory of each set of equal inventories in the session. most caches, by request, the largest
	// amounts that any of these inventories can give.
	inventories []*inventory
	most        map[mostKey]allocator.Amounts
}

// mostKey is a key of the cache queueLimits.most: the key of a request, and the GPU models that the pod allows.
type mostKey struct {
	request uint64
	models  string
}

// queuePlugins are upstream's plugins that enforce the capability of queues.
var queuePlugins = []string{"capacity", "proportion"}

// open registers the limits with the session. It does nothing if neither of upstream's plugins enforces the capability
// of queues, or if no capability limits devices.
func (q *queueLimits) open() {
	enforced := false
	for _, name := range queuePlugins {
		option, ok := q.ssn.PluginOption(name)
		enforced = enforced || ok
		q.nested = q.nested || ok && option.EnabledHierarchy != nil && *option.EnabledHierarchy
	}
	if !enforced {
		return
	}
	q.limits = map[api.QueueID]allocator.QueueUse{}
	for id, queue := range q.ssn.Queues {
		if limits, limited := allocator.QueueLimits(queue.Queue.Spec.Capability); limited {
			q.limits[id] = limits
		}
	}
	if len(q.limits) == 0 {
		return
	}
	q.ssn.AddAllocatableFn(Name, q.allocatable)
	q.ssn.AddPreemptiveFn(Name, func(queue, task any) bool {
		return q.allocatable(queue.(*api.QueueInfo), task.(*api.TaskInfo))
	})
	q.ssn.AddEventHandler(&vcframework.EventHandler{
		AllocateFunc:   func(event *vcframework.Event) { q.add(event.Task) },
		DeallocateFunc: func(event *vcframework.Event) { q.remove(event.Task) },
	})
}

// allocatable reports whether the task's devices fit into the limits of the queue and of its ancestors. A queue that
// exceeds one limit gets no further devices of any kind.
func (q *queueLimits) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	limited := q.limitedOf(queue.UID)
	if len(limited) == 0 {
		return true
	}
	tasks, gone := q.ssn.QueueUse.Asked(task)
	more, asks := q.wants(tasks)
	if !asks {
		return true
	}
	q.count()
	freed := q.freedBy(gone)
	for _, id := range limited {
		if name := q.used[id].Sub(freed[id]).Exceeded(q.limits[id], more); name != "" {
			klog.V(3).InfoS("A queue has reached its capability for devices", "queue", id, "resource", name, "pod", klog.KObj(task.Pod))
			return false
		}
	}
	return true
}

// limitedOf returns the queues whose limits apply to pods of the given queue. These are the queue itself and, if limits
// are nested, its ancestors. Queues without limits are left out.
func (q *queueLimits) limitedOf(queue api.QueueID) (limited []api.QueueID) {
	path := []api.QueueID{queue}
	if q.nested {
		path = q.ssn.QueueUse.Path(queue)
	}
	for _, id := range path {
		if _, ok := q.limits[id]; ok {
			limited = append(limited, id)
		}
	}
	return limited
}

// wants returns the largest use of devices that the tasks may have together. It returns false if no task requests
// devices.
func (q *queueLimits) wants(tasks []*api.TaskInfo) (use allocator.QueueUse, asks bool) {
	for _, task := range tasks {
		if request := q.requestOf(task); request != nil && request.err == nil {
			use, asks = use.Add(request.QueueUse(q.mostOf(task, request))), true
		}
	}
	return use, asks
}

// freedBy returns how much use of devices each queue would lose if the tasks ended. Only queues with a limit that count
// the tasks are included.
func (q *queueLimits) freedBy(tasks []*api.TaskInfo) map[api.QueueID]allocator.QueueUse {
	freed := map[api.QueueID]allocator.QueueUse{}
	for _, task := range tasks {
		job := q.ssn.Jobs[framework.DeletedJob(task.Job)]
		if job == nil || job.Tasks[task.UID] == nil {
			job = q.ssn.Jobs[task.Job]
		}
		use, counted := q.counted[task.UID]
		if !counted || job == nil {
			continue
		}
		for _, id := range q.limitedOf(job.Queue) {
			freed[id] = freed[id].Add(use)
		}
	}
	return freed
}

// count computes the fields used and counted, once in a session. Pods that are being deleted, and victims of earlier
// sessions, are in jobs of their own (framework.DeletedJob). They count until they no longer exist.
func (q *queueLimits) count() {
	if q.used != nil {
		return
	}
	q.used, q.counted = map[api.QueueID]allocator.QueueUse{}, map[api.TaskID]allocator.QueueUse{}
	q.shares, q.capacities = map[taskOnNode]allocator.Amounts{}, map[string]allocator.Amounts{}
	for _, inventory := range q.different() {
		q.largestMemory = max(q.largestMemory, inventory.Largest(allocator.GPU)[allocator.Memory])
	}
	type queueOnNode struct {
		queue api.QueueID
		node  string
	}
	on := map[queueOnNode][]*api.TaskInfo{}
	for _, job := range q.ssn.Jobs {
		if len(q.limitedOf(job.Queue)) == 0 {
			continue
		}
		for status, tasks := range job.TaskStatusIndex {
			if !api.AllocatedStatus(status) && status != api.Pipelined && !framework.IsDeletedJob(job.UID) {
				continue
			}
			for _, task := range tasks {
				key := queueOnNode{job.Queue, task.NodeName}
				on[key] = append(on[key], task)
			}
		}
	}
	for key, tasks := range on {
		q.shareOut(key.node, tasks)
		for _, task := range tasks {
			q.add(task)
		}
	}
}

func (q *queueLimits) add(task *api.TaskInfo) {
	job := q.ssn.Jobs[task.Job]
	if q.used == nil || job == nil {
		return
	}
	q.remove(task)
	limited := q.limitedOf(job.Queue)
	if len(limited) == 0 {
		return
	}
	request := q.requestOnNode(task)
	if request == nil {
		return
	}
	use := request.QueueUse(q.usedBy(task, request))
	q.counted[task.UID] = use
	for _, id := range limited {
		q.used[id] = q.used[id].Add(use)
	}
}

func (q *queueLimits) remove(task *api.TaskInfo) {
	use, ok := q.counted[task.UID]
	if !ok {
		return
	}
	delete(q.counted, task.UID)
	for _, id := range q.limitedOf(q.ssn.Jobs[task.Job].Queue) {
		q.used[id] = q.used[id].Sub(use)
	}
}

// recount updates the fields used and counted for a task that got other devices. The caller holds s.mu.
func (q *queueLimits) recount(own *placement) {
	before, ok := q.counted[own.task.UID]
	if !ok {
		return
	}
	use := own.request.QueueUse(q.sumOf(own.node, own.request, own.allocation))
	q.counted[own.task.UID] = use
	for _, id := range q.limitedOf(q.ssn.Jobs[own.task.Job].Queue) {
		q.used[id] = q.used[id].Sub(before).Add(use)
	}
}

// mostOf returns the largest amounts that the request may get on any node of the session that has a GPU model which the
// task allows.
func (q *queueLimits) mostOf(task *api.TaskInfo, request *request) allocator.Amounts {
	models := modelsOf(task.Pod)
	key := mostKey{request.key, strings.Join(models, "\x00")}
	if known, ok := q.most[key]; ok {
		return known
	}
	most := request.Least()
	for _, inventory := range q.different() {
		if len(models) > 0 && !slices.Contains(models, inventory.Model) {
			continue
		}
		if here, ok := inventory.Most(request.Request); ok {
			most = most.Max(here)
		}
	}
	if q.most == nil {
		q.most = map[mostKey]allocator.Amounts{}
	}
	q.most[key] = most
	return most
}

// different returns one inventory of each set of equal inventories in the session.
func (q *queueLimits) different() []*inventory {
	if q.inventories != nil {
		return q.inventories
	}
	q.inventories = []*inventory{}
	seen := map[uint64]bool{}
	for _, node := range q.ssn.Nodes {
		if node.Node == nil {
			continue
		}
		if inventory := q.known.of(node.Node); inventory != nil && !seen[inventory.key] {
			seen[inventory.key] = true
			q.inventories = append(q.inventories, inventory)
		}
	}
	return q.inventories
}
