// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// ledgers keeps the ledgers of nodes, which record the devices in use, across sessions.
type ledgers struct {
	nodes map[string]*ledger
}

// ledger records which parts of a node's devices are in use. It is computed from the inventory and from the pods on the
// node. When a pod comes to the node or leaves it, only the devices of this pod are added or removed.
type ledger struct {
	inventory *inventory
	entries   map[types.UID]*entry
	// now is the state of the devices with all pods on the node. later is the state without the pods that are being
	// deleted or evicted.
	now, later *allocator.State
	// uses caches, for each of the states now and later, a key that describes how pods use the devices.
	uses [2]use
	// unknown counts the pods on the node whose devices are not known: their kubelet gave them devices, and they have
	// no valid annotation device-allocated. unknownLater is the same count without pods that are being deleted or
	// evicted.
	unknown, unknownLater int
	looks                 int
}

// entry holds what the ledger of a node's devices in use has recorded about one pod.
type entry struct {
	// annotation is the value of the pod's annotation device-allocated when the ledger last read it. It is not used for a
	// pod that the session has placed.
	annotation string
	read       bool
	allocation *allocator.Allocation
	// unknown reports whether the pod has devices that its annotation does not list. leaving reports whether the pod is
	// being deleted or evicted.
	unknown, leaving bool
	// look is the number of the last update of the ledger in which the pod was on the node. ledger.looks counts the
	// updates.
	look int
}

func newLedgers() *ledgers { return &ledgers{nodes: map[string]*ledger{}} }

// of returns the ledger that records the node's devices in use. It first updates the ledger from the pods on the node.
// placed are the placements of the session, by task.
func (l *ledgers) of(node *api.NodeInfo, inventory *inventory, placed map[api.TaskID]*placement) *ledger {
	kept := l.nodes[node.Name]
	if kept == nil || kept.inventory != inventory {
		kept = newLedger(inventory)
		l.nodes[node.Name] = kept
	}
	kept.update(node, placed)
	return kept
}

// keepOnly drops the ledgers, which record the devices in use, of all nodes that are not in the given map.
func (l *ledgers) keepOnly(nodes map[string]*api.NodeInfo) {
	if len(l.nodes) <= len(nodes) {
		return
	}
	for name := range l.nodes {
		if nodes[name] == nil {
			delete(l.nodes, name)
		}
	}
}

func newLedger(inventory *inventory) *ledger {
	return &ledger{inventory: inventory, entries: map[types.UID]*entry{}, now: inventory.unused, later: inventory.unused}
}

// update adds the devices of new pods on the node to the devices in use. It removes the devices of pods that are no
// longer on the node.
func (l *ledger) update(node *api.NodeInfo, placed map[api.TaskID]*placement) {
	l.looks++
	for _, task := range node.Tasks {
		l.enter(task, node.Node, placed[task.UID])
	}
	if len(l.entries) == len(node.Tasks) { // each task has an entry, so no pod has left
		return
	}
	for uid, e := range l.entries {
		if e.look != l.looks {
			l.strike(e)
			delete(l.entries, uid)
		}
	}
}

// enter records the devices of the task, or updates its entry. own is the session's placement of the task; if it is not
// nil, its devices count. Otherwise the devices in the pod's annotation count. They are limited to the pod's request,
// because a tenant may write the annotation.
func (l *ledger) enter(task *api.TaskInfo, node *v1.Node, own *placement) {
	e := l.entries[task.Pod.UID]
	if e == nil {
		e = &entry{}
		l.entries[task.Pod.UID] = e
	}
	now := entry{leaving: task.Status == api.Releasing, look: l.looks}
	switch {
	case own != nil:
		now.allocation = own.allocation
	case task.Status == api.Allocated || task.Status == api.Pipelined:
	case e.read && e.annotation == allocated(task.Pod):
		now.read, now.annotation, now.allocation = true, e.annotation, e.allocation
	default:
		now.read, now.annotation, now.allocation = true, allocated(task.Pod), readAllocated(task.Pod)
	}
	now.unknown = now.read && now.allocation.IsEmpty() && allocator.HasDevicesOfKubelet(task.Pod, node)
	if e.allocation != now.allocation || e.unknown != now.unknown || e.leaving != now.leaving {
		l.strike(e)
		l.count(&now)
	}
	*e = now
}

// readAllocated parses the pod's annotation device-allocated, and logs errors in the annotation.
func readAllocated(pod *v1.Pod) *allocator.Allocation {
	allocation, err := allocator.AllocationOf(pod)
	if err != nil {
		klog.ErrorS(err, "Reading the devices of a pod failed", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	}
	return allocation
}

func (l *ledger) count(e *entry) {
	l.now = l.now.With(e.allocation)
	if !e.leaving {
		l.later = l.later.With(e.allocation)
	}
	l.countUnknown(e, 1)
}

// strike removes the devices of the entry's pod from the devices in use.
func (l *ledger) strike(e *entry) {
	l.now = l.now.Without(e.allocation)
	if !e.leaving {
		l.later = l.later.Without(e.allocation)
	}
	l.countUnknown(e, -1)
}

func (l *ledger) countUnknown(e *entry, n int) {
	if e.unknown {
		l.unknown += n
		if !e.leaving {
			l.unknownLater += n
		}
	}
}

// devicesUnknown says of a pod that its devices are not known, and what an administrator can do.
const devicesUnknown = "whose devices are unknown: its annotation " + v1alpha1.DeviceAllocatedAnnotation +
	" is missing or invalid; delete that pod, or wait until it ends"

// refusal returns a refusal of the node if pods on the node have devices that are not known, because they have no valid
// annotation device-allocated; otherwise nil. waits reports whether the requesting pod would wait for pods that are
// leaving the node. If so, the leaving pods do not count.
func (l *ledger) refusal(waits bool) *allocator.Refusal {
	if waits && l.unknownLater > 0 || !waits && l.unknown > 0 {
		return &allocator.Refusal{Reason: "node(s) with a pod " + devicesUnknown}
	}
	return nil
}

// beside returns the state of the devices for a requesting pod. The state includes all pods on the node. If the
// requesting pod waits for leaving pods, the state does not include the leaving pods.
func (l *ledger) beside(waits bool) *allocator.State {
	if waits {
		return l.later
	}
	return l.now
}
