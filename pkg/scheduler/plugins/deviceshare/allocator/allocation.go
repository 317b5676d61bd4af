// SPDX-License-Identifier: Apache-2.0

package allocator

// Allocation is the list of a pod's devices on its node, by type. Devices of a type are sorted by minor. An Allocation
// is immutable.
type Allocation [numTypes][]DeviceAllocation

// DeviceAllocation is a pod's share of one device.
type DeviceAllocation struct {
	Minor   int32
	Amounts Amounts
	// UUID is the device's UUID; empty if the Device object has no UUID for it.
	UUID string
	VFs  []VF
	// Template is the name of the shared-resource template of the device's share; empty for none.
	Template string
	// Exclusive is the part of the node that no other pod may use: nothing, the device, or the PCIe root of the device.
	Exclusive Exclusivity
}

// VF is a virtual function of a NIC.
type VF struct {
	Minor int32
	BusID string
}

// IsEmpty reports whether the allocation is nil or has no devices.
func (a *Allocation) IsEmpty() bool {
	if a == nil {
		return true
	}
	for _, devices := range a {
		if len(devices) > 0 {
			return false
		}
	}
	return true
}
