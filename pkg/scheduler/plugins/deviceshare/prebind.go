// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// PreBind implements framework.PreBinder. It checks the pod's devices again. They may have become unhealthy, have been
// removed, no longer match the request, or be used by another scheduler's pod. PreBind does not write the allocation:
// it is in the pod's annotation, which the Binding carries. With the argument devicePluginAdaption, PreBind also sets
// annotations for vendors' device plugins. It locks the node for vendors whose device plugin needs a lock.
func (p *plugin) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	request, err := allocator.ParseRequest(task.Pod, p.requestOptions)
	if err != nil || request == nil {
		return err
	}
	allocation, err := allocator.ParseAllocation(cmp.Or(allocated(task.Pod), noDevices))
	if err != nil {
		return fmt.Errorf("reading the devices of the pod on node %s: %w", nodeName, err)
	}
	inventory := p.inventories.latest(nodeName)
	switch {
	case inventory == nil && allocation.IsEmpty() && request.OnlyVendorDevices():
		if reason := p.inventories.devices.byNumbers(nodeName, slices.Values(p.inventories.devices.podsOn(nodeName))); reason != "" {
			return fmt.Errorf("node %s: %s", nodeName, reason)
		}
		return nil
	case inventory != nil && allocation.IsEmpty():
		return fmt.Errorf("node %s got a Device object after the pod was placed there by the number of its GPUs", nodeName)
	case inventory == nil:
		return fmt.Errorf("the Device object of node %s, which lists the pod's devices, was deleted", nodeName)
	}
	others, err := p.besideOthers(inventory, task.Pod, nodeName)
	if err != nil {
		return err
	}
	if err := others.With(allocation).Recheck(request, allocation); err != nil {
		return fmt.Errorf("devices of node %s changed after the pod was placed there: %w", nodeName, err)
	}
	if !p.adaption {
		return nil
	}
	if err := adapt(task.Pod, inventory, allocation); err != nil {
		return err
	}
	if lock := vendors[inventory.Vendor].lock; lock != "" && len(allocation[allocator.GPU]) > 0 {
		return lockNode(ctx, p.inventories.devices.kube, lock, task.Pod, nodeName)
	}
	return nil
}

// besideOthers returns the state of the node's devices with the pods that are bound to the node, except the given pod.
// It leaves out pods that are still being bound, because sessions gave other devices to these pods. It returns an error
// if the devices of a pod are not known.
func (p *plugin) besideOthers(inventory *allocator.Inventory, own *v1.Pod, nodeName string) (*allocator.State, error) {
	state := allocator.NewState(inventory)
	for _, pod := range p.inventories.devices.podsOn(nodeName) {
		if pod.UID == own.UID {
			continue
		}
		allocation := readAllocated(pod)
		if allocation.IsEmpty() && allocator.HasDevicesOfKubelet(pod, p.inventories.nodeOf(nodeName)) {
			return nil, fmt.Errorf("node %s has pod %s %s", nodeName, klog.KObj(pod), devicesUnknown)
		}
		state = state.With(allocation)
	}
	return state, nil
}

// Rollback implements framework.PreBinder. It releases the node's lock if the pod holds the lock. The pod's annotations
// need no rollback, because they are written with the Binding only.
func (p *plugin) Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	if !p.adaption || allocated(task.Pod) == "" {
		return nil
	}
	inventory := p.inventories.latest(nodeName)
	if inventory == nil {
		return nil // the vendor is unknown here; if the pod holds a lock, the lock expires
	}
	if lock := vendors[inventory.Vendor].lock; lock != "" {
		return unlockNode(ctx, p.inventories.devices.kube, lock, task.Pod, nodeName)
	}
	return nil
}
