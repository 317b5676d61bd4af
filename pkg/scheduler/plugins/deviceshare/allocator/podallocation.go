// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// vendorNames are the names of resources that kubelets allocate. A pod that is on a node and requests one of them has
// devices, even if no scheduler chose the devices. Resources with other names are allocated by this plugin only: a pod
// without the annotation device-allocated has no devices under these names.
var vendorNames = []v1.ResourceName{nvidiaGPU, amdGPU, dcuGPU, resourceNames[NPUCore], resourceNames[NPUCPU], resourceNames[NPUDVPP]}

// HasDevicesOfKubelet reports whether the kubelet of the node gave devices to the pod. It returns true if the pod
// requests devices by a vendor's name and the node has resources of that name. The request need not be valid. If the
// node has no such resources, the kubelet rejects the pod, unless the pod already runs. A nil node counts as having
// resources of every name.
func HasDevicesOfKubelet(pod *v1.Pod, node *v1.Node) bool {
	has := func(name v1.ResourceName) bool {
		if node == nil || pod.Status.Phase == v1.PodRunning {
			return true
		}
		allocatable, capacity := node.Status.Allocatable[name], node.Status.Capacity[name]
		return allocatable.Sign() > 0 || capacity.Sign() > 0
	}
	asks := func(c v1.Container) bool {
		return slices.ContainsFunc(vendorNames, func(name v1.ResourceName) bool {
			limit, request := c.Resources.Limits[name], c.Resources.Requests[name]
			return (limit.Sign() > 0 || request.Sign() > 0) && has(name)
		})
	}
	return slices.ContainsFunc(pod.Spec.Containers, asks) || slices.ContainsFunc(pod.Spec.InitContainers, asks)
}

// maxVFsOfPod limits how many virtual functions of one device the annotation of a pod may list. This scheduler
// allocates one virtual function of each device.
const maxVFsOfPod = 64

// AllocationOf returns the devices of a pod on a node, from its annotation device-allocated. It limits them to the
// pod's request, because a tenant may write the annotation. A device that is listed without amounts gets the requested
// amounts. AllocationOf returns nil for a pod without a valid request for devices. With an error it still returns the
// valid part of the annotation.
func AllocationOf(pod *v1.Pod) (*Allocation, error) {
	asked, err := readAsked(pod)
	if err != nil || asked.form == 0 {
		return nil, nil
	}
	most, err := asked.most()
	if err != nil {
		return nil, nil
	}
	a, err := ParseAllocation(pod.Annotations[v1alpha1.DeviceAllocatedAnnotation])
	if a == nil {
		return nil, err
	}
	errs := []error{err}
	for t := range a {
		var more bool
		asked.fillIn(Type(t), a[t])
		if a[t], more = most[t].limit(a[t]); more {
			errs = append(errs, fmt.Errorf("annotation %s: lists more %s than the pod requests, the excess is ignored", v1alpha1.DeviceAllocatedAnnotation, Type(t)))
		}
	}
	return a, errors.Join(errs...)
}

// most returns, by type, the largest allocation that the pod's resource requests allow. It ignores the annotation with
// hints, because the annotation may be changed while the pod runs. With hints a pod can have any number of whole NICs
// and FPGAs, and beside them any number of GPUs.
func (a *asked) most() (most [numTypes]typeRequest, err error) {
	if most[GPU], err = a.normalizeGPUs(); err != nil {
		return most, err
	}
	gpu := &most[GPU]
	if gpu.asked() && gpu.amounts[MemoryRatio] == 0 {
		gpu.amounts[MemoryRatio] = 100 // the ratio depends on the memory of the GPU, which is unknown here
	}
	if gpu.asked() && gpu.amounts[Memory] == 0 {
		gpu.amounts[Memory] = maxAmount
	}
	if a.values[byRDMA] > 0 {
		most[RDMA] = typeRequest{count: math.MaxInt32, amounts: Amounts{RDMAShare: 100}}
	}
	if a.values[byFPGA] > 0 {
		most[FPGA] = typeRequest{count: math.MaxInt32, amounts: Amounts{FPGAShare: 100}}
	}
	if gpu.asked() && (most[RDMA].asked() || most[FPGA].asked()) {
		gpu.count = math.MaxInt32
	}
	return most, nil
}

// fillIn sets the requested amounts on devices that the annotation lists without amounts.
func (a *asked) fillIn(t Type, devices []DeviceAllocation) {
	var each Amounts
	switch t {
	case GPU:
		gpu, _ := a.normalizeGPUs()
		each = gpu.amounts
	case RDMA:
		each[RDMAShare] = min(a.values[byRDMA], 100)
	case FPGA:
		each[FPGAShare] = min(a.values[byFPGA], 100)
	}
	for i := range devices {
		if devices[i].Amounts.IsZero() {
			devices[i].Amounts = each
		}
	}
}

// limit cuts the number of devices, and the amounts of each device, down to the request. more reports whether the list
// exceeded the request.
func (t *typeRequest) limit(devices []DeviceAllocation) (limited []DeviceAllocation, more bool) {
	if len(devices) > t.count {
		devices, more = devices[:t.count], true
	}
	for i := range devices {
		for r, most := range t.amounts {
			if devices[i].Amounts[r] > most {
				devices[i].Amounts[r], more = most, true
			}
		}
		if len(devices[i].VFs) > maxVFsOfPod {
			devices[i].VFs, more = devices[i].VFs[:maxVFsOfPod], true
		}
	}
	if len(devices) == 0 {
		return nil, more
	}
	return devices, more
}
