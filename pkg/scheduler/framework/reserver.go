// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// WhyUnreserved returns why the last attempt to reserve for the task failed; nil if it succeeded, or if no attempt was
// made. The text names neither the task nor the node.
func (ssn *Session) WhyUnreserved(task *api.TaskInfo) error { return ssn.reservers.why[task.UID] }

// reservers are the plugins that reserve resources for placed tasks, in conf order, and the session's reservations. The
// zero value has no plugins.
type reservers struct {
	plugins []namedReserver
	// reserved are the tasks for which all plugins have reserved, and which are not handed over to be bound. refused
	// maps tasks for which a plugin failed to reserve to the error. Such a task may still be placed, because some
	// upstream actions do not check for the error.
	reserved map[api.TaskID]*api.TaskInfo
	refused  map[api.TaskID]error
	// why holds, for each task, why the last attempt to reserve for it failed. The text is the same for all nodes.
	why map[api.TaskID]error
}

type namedReserver struct {
	plugin string
	Reserver
}

// add adds a plugin whose Reserve is called for each task that the session places.
func (r *reservers) add(ssn *vcframework.Session, plugin string, one Reserver) {
	if len(r.plugins) == 0 {
		r.reserved, r.refused, r.why = map[api.TaskID]*api.TaskInfo{}, map[api.TaskID]error{}, map[api.TaskID]error{}
		ssn.AddEventHandler(&vcframework.EventHandler{
			AllocateFunc: func(event *vcframework.Event) {
				if task := event.Task; task.Status == api.Allocated || task.Status == api.Pipelined { // other status: an undone eviction
					event.Err = r.reserve(task, ssn.Nodes[task.NodeName])
				}
			},
			DeallocateFunc: func(event *vcframework.Event) {
				if event.Task.Status == api.Pending { // an evicted task keeps its reservation until it has terminated
					r.unreserve(event.Task)
				}
			},
		})
	}
	r.plugins = append(r.plugins, namedReserver{plugin, one})
}

// reserve calls Reserve of all plugins for the task on the node. If one fails, no plugin keeps a reservation.
func (r *reservers) reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if err := r.tryReserve(task, node); err != nil {
		klog.V(3).InfoS("Reserving for a placed task failed", "pod", klog.KObj(task.Pod), "node", task.NodeName, "err", err)
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
		return fmt.Errorf("resources reserved for pod %s are not released yet", klog.KObj(task.Pod))
	}
	for i, one := range r.plugins {
		if err := one.reserve(task, node); err != nil {
			undo(r.plugins[:i], task)
			r.why[task.UID] = fmt.Errorf("refused by plugin %s: %w", one.plugin, err)
			return fmt.Errorf("plugin %s: reserving for pod %s on node %s: %w", one.plugin, klog.KObj(task.Pod), node.Name, err)
		}
	}
	return nil
}

// reserve calls the plugin's Reserve. If Reserve panics, the panic becomes an error, and Unreserve is called.
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

// unreserve undoes the reservations for a task that is Pending again. A task that was handed over to be bound keeps its
// reservations, because they no longer belong to the session.
func (r *reservers) unreserve(task *api.TaskInfo) {
	delete(r.refused, task.UID)
	if r.reserved[task.UID] == nil {
		return
	}
	delete(r.reserved, task.UID)
	undo(r.plugins, task)
}

// undo calls Unreserve of the plugins for the task, the last plugin first.
func undo(plugins []namedReserver, task *api.TaskInfo) {
	for _, one := range slices.Backward(plugins) {
		_ = one.unreserve(task)
	}
}

// unreserve calls the plugin's Unreserve. A panic is logged and becomes an error.
func (r namedReserver) unreserve(task *api.TaskInfo) (err error) {
	defer recoverAs(r.plugin, &err)
	r.Unreserve(task)
	return nil
}

// undoAll undoes all reservations of tasks that were not handed over.
func (r *reservers) undoAll() {
	for _, task := range r.reserved {
		r.unreserve(task)
	}
}
