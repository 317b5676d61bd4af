// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// WhyUnreserved is why the last attempt to reserve for the task failed, in words that name neither the task nor the node; nil when it
// succeeded, or none was made.
func (ssn *Session) WhyUnreserved(task *api.TaskInfo) error { return ssn.reservers.why[task.UID] }

// reservers are the plugins that reserve for tasks, in order, and what they have reserved in the session. The zero value has none.
type reservers struct {
	plugins []namedReserver
	// reserved are the tasks that all have reserved for and that are not handed over; refused are those placed all the same after one
	// failed, and why it did: not every action of upstream asks.
	reserved map[api.TaskID]*api.TaskInfo
	refused  map[api.TaskID]error
	// why is why the last attempt to reserve for a task failed, in words that are the same on each node.
	why map[api.TaskID]error
}

type namedReserver struct {
	plugin string
	Reserver
}

// add has the plugin reserve for the session's tasks.
func (r *reservers) add(ssn *vcframework.Session, plugin string, one Reserver) {
	if len(r.plugins) == 0 {
		r.reserved, r.refused, r.why = map[api.TaskID]*api.TaskInfo{}, map[api.TaskID]error{}, map[api.TaskID]error{}
		ssn.AddEventHandler(&vcframework.EventHandler{
			AllocateFunc: func(event *vcframework.Event) {
				if task := event.Task; task.Status == api.Allocated || task.Status == api.Pipelined { // else an eviction was taken back
					event.Err = r.reserve(task, ssn.Nodes[task.NodeName])
				}
			},
			DeallocateFunc: func(event *vcframework.Event) {
				if event.Task.Status == api.Pending { // else it is evicted, and keeps what it has until it is gone
					r.unreserve(event.Task)
				}
			},
		})
	}
	r.plugins = append(r.plugins, namedReserver{plugin, one})
}

// reserve has all plugins reserve for the task, or none.
func (r *reservers) reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if err := r.tryReserve(task, node); err != nil {
		klog.V(3).InfoS("What a placed task needs is not reserved", "pod", klog.KObj(task.Pod), "node", task.NodeName, "err", err)
		r.refused[task.UID] = err
		return err
	}
	delete(r.refused, task.UID)
	delete(r.why, task.UID)
	r.reserved[task.UID] = task
	return nil
}

func (r *reservers) tryReserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if node == nil {
		return fmt.Errorf("node %s is not in the session", task.NodeName)
	}
	if r.reserved[task.UID] != nil {
		return fmt.Errorf("what was reserved for pod %s is not given back yet", klog.KObj(task.Pod))
	}
	for i, one := range r.plugins {
		if err := one.reserve(task, node); err != nil {
			undo(r.plugins[:i], task)
			r.why[task.UID] = fmt.Errorf("plugin %s cannot reserve: %w", one.plugin, err)
			return fmt.Errorf("plugin %s: reserving for pod %s on node %s: %w", one.plugin, klog.KObj(task.Pod), node.Name, err)
		}
	}
	return nil
}

// reserve is Reserve; a panic is its error.
func (r namedReserver) reserve(task *api.TaskInfo, node *api.NodeInfo) (err error) {
	panicked := true
	defer func() {
		if panicked {
			undo([]namedReserver{r}, task)
		}
	}()
	defer recoverAs(r.plugin, &err)
	err = r.Reserve(task, node)
	panicked = false
	return err
}

// unreserve undoes reserve for a task that is Pending again. What is handed over is not the session's any more.
func (r *reservers) unreserve(task *api.TaskInfo) {
	delete(r.refused, task.UID)
	if r.reserved[task.UID] == nil {
		return
	}
	delete(r.reserved, task.UID)
	undo(r.plugins, task)
}

// undo has the plugins undo what they reserved, the last one first.
func undo(plugins []namedReserver, task *api.TaskInfo) {
	for _, one := range slices.Backward(plugins) {
		_ = one.unreserve(task)
	}
}

// unreserve is Unreserve; a panic, which is logged, is its error.
func (r namedReserver) unreserve(task *api.TaskInfo) (err error) {
	defer recoverAs(r.plugin, &err)
	r.Unreserve(task)
	return nil
}

// giveBack undoes what is reserved and was not handed over.
func (r *reservers) giveBack() {
	for _, task := range r.reserved {
		r.unreserve(task)
	}
}
