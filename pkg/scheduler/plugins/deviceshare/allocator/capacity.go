// SPDX-License-Identifier: Apache-2.0

package allocator

import v1 "k8s.io/api/core/v1"

// Capacity returns the total amounts of the inventory's devices. An unhealthy device has no amounts. It counts as the
// largest device of its type, because pods may still use it.
func (i *Inventory) Capacity() (sum Amounts) {
	for t := range i.Devices {
		largest := i.Largest(Type(t))
		for at := range i.Devices[t] {
			if d := &i.Devices[t][at]; d.Healthy {
				sum = sum.Add(d.Total)
			} else {
				sum = sum.Add(largest)
			}
		}
	}
	return sum
}

// Largest returns, for each resource, the largest amount that a device of the type has.
func (i *Inventory) Largest(t Type) (largest Amounts) {
	for at := range i.Devices[t] {
		largest = largest.Max(i.Devices[t][at].Total)
	}
	return largest
}

// NumberedGPUs returns the total amounts of the GPUs that the node's status counts by vendors' resource names. memory
// is the assumed memory of each GPU, in bytes.
func NumberedGPUs(node *v1.Node, memory int64) Amounts {
	count := 0
	for _, name := range []v1.ResourceName{nvidiaGPU, amdGPU, dcuGPU} {
		allocatable, capacity := node.Status.Allocatable[name], node.Status.Capacity[name]
		count += int(min(max(allocatable.Value(), capacity.Value(), 0), maxDevices))
	}
	return Amounts{Core: times(100, count), MemoryRatio: times(100, count), Memory: times(memory, count)}
}
