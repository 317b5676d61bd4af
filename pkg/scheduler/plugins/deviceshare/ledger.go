// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// ledgers caches the ledgers of nodes from session to session.
type ledgers struct {
	nodes map[string]*ledger
}

// ledger is the remaining part of a node's devices. It follows from the inventory and from the pods on the node, and is
// updated with the differences.
type ledger struct {
	inventory *inventory
	entries   map[types.UID]*entry
	// now is the state with all pods on the node. later is the state without pods that are being deleted or evicted.
	now, later *allocator.State
	// uses cache verdicts on now and later.
	uses [2]use
	// unknown counts the pods that have unknown devices. unknownLater counts only pods that are not leaving.
	unknown, unknownLater int
	looks                 int
}

// entry is the data about one pod.
type entry struct {
	// annotation is the value that was last read, if the session has not decided on it.
	annotation string
	read       bool
	allocation *allocator.Allocation
	// unknown reports whether the pod has devices that its annotation does not list.
	unknown, leaving bool
	// look is the number of the last update that found the pod on the node.
	look int
}

func newLedgers() *ledgers { return &ledgers{nodes: map[string]*ledger{}} }

// of returns the updated ledger of the node. placed are the session's decisions on pods.
func (l *ledgers) of(node *api.NodeInfo, inventory *inventory, placed map[api.TaskID]*placement) *ledger {
	kept := l.nodes[node.Name]
	if kept == nil || kept.inventory != inventory {
		kept = newLedger(inventory)
		l.nodes[node.Name] = kept
	}
	kept.update(node, placed)
	return kept
}

// keepOnly drops nodes that no longer exist.
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

// update adds the pods on the node, and removes pods that are no longer there.
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

// enter adds the task. If the session placed it, the session's decision counts. Otherwise its annotation counts,
// limited to its request, because a tenant may write the annotation.
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

// readAllocated parses the pod's annotation.
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

// strike removes the entry's devices from the ledger.
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

// refusal refuses the node while it has pods with unknown devices. If the requesting pod waits for leaving pods, these
// do not count.
func (l *ledger) refusal(waits bool) *allocator.Refusal {
	if waits && l.unknownLater > 0 || !waits && l.unknown > 0 {
		return unknownUsers()
	}
	return nil
}

func unknownUsers() *allocator.Refusal {
	return &allocator.Refusal{Reason: "node(s) run device pods without a valid device-allocated annotation"}
}

// beside returns the state with all pods on the node or, for a pod that waits, without pods that are leaving.
func (l *ledger) beside(waits bool) *allocator.State {
	if waits {
		return l.later
	}
	return l.now
}
