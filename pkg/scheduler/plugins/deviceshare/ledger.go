// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// ledgers are those of nodes, as they were looked at last. They are kept from session to session.
type ledgers struct {
	mu    sync.Mutex
	nodes map[string]*ledger
}

// ledger is what is left of a node's devices. It follows from the inventory and from the pods on the node, and is brought up to date by
// what differs.
type ledger struct {
	inventory *inventory
	entries   map[types.UID]*entry
	// now is what is left beside all pods on the node, later beside those that are not being deleted or evicted.
	now, later *allocator.State
	looks      int
}

// entry is what one pod has.
type entry struct {
	annotation string
	allocation *allocator.Allocation
	leaving    bool
	// look is the last look that found the pod on the node.
	look int
}

func newLedgers() *ledgers { return &ledgers{nodes: map[string]*ledger{}} }

// of returns the ledger of the node, up to date. placed are what the session has decided for pods.
func (l *ledgers) of(node *api.NodeInfo, inventory *inventory, placed map[api.TaskID]*placement) *ledger {
	kept := l.nodes[node.Name]
	if kept == nil || kept.inventory != inventory {
		kept = newLedger(inventory)
		l.nodes[node.Name] = kept
	}
	kept.update(node, placed)
	return kept
}

// keepOnly forgets nodes that are gone.
func (l *ledgers) keepOnly(nodes map[string]*api.NodeInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// update enters the pods on the node, and strikes out those that are not.
func (l *ledger) update(node *api.NodeInfo, placed map[api.TaskID]*placement) {
	l.looks++
	for _, task := range node.Tasks {
		l.enter(task, placed[task.UID])
	}
	for uid, e := range l.entries {
		if e.look != l.looks {
			l.strike(e)
			delete(l.entries, uid)
		}
	}
}

// enter enters the task. One that the session placed has what it decided, if anything; any other what its annotation says, if it asks for
// devices at all: anybody may write an annotation.
func (l *ledger) enter(task *api.TaskInfo, own *placement) {
	uid, leaving := task.Pod.UID, task.Status == api.Releasing
	e := l.entries[uid]
	var allocation *allocator.Allocation
	annotation := ""
	switch {
	case own != nil:
		allocation = own.allocation
	case task.Status == api.Allocated || task.Status == api.Pipelined:
	default:
		if annotation = allocated(task.Pod); annotation != "" {
			allocation = l.decode(e, task, annotation)
		}
	}
	if e == nil {
		if allocation.IsEmpty() {
			return
		}
		e = &entry{}
		l.entries[uid] = e
	}
	e.look = l.looks
	if e.allocation == allocation && e.leaving == leaving {
		return
	}
	l.strike(e)
	e.annotation, e.allocation, e.leaving = annotation, allocation, leaving
	l.now = l.now.With(allocation)
	if !leaving {
		l.later = l.later.With(allocation)
	}
}

// decode reads the annotation, unless it was read before.
func (l *ledger) decode(e *entry, task *api.TaskInfo, annotation string) *allocator.Allocation {
	if e != nil && e.annotation == annotation {
		return e.allocation
	}
	if !allocator.AsksForDevices(task.Pod) {
		return nil
	}
	allocation, err := allocator.ParseAllocation(annotation)
	if err != nil {
		klog.ErrorS(err, "Which devices a pod has cannot be read, they may be given to others", "pod", klog.KObj(task.Pod), "node", task.NodeName)
	}
	return allocation
}

// strike takes the entry's devices off.
func (l *ledger) strike(e *entry) {
	l.now = l.now.Without(e.allocation)
	if !e.leaving {
		l.later = l.later.Without(e.allocation)
	}
}

// beside is what is left beside all pods on the node, or, for a pod that waits, beside those that are not leaving.
func (l *ledger) beside(waits bool) *allocator.State {
	if waits {
		return l.later
	}
	return l.now
}
