// SPDX-License-Identifier: Apache-2.0

package allocator

// Allocation is which devices a pod has on its node, by type; each type's by minor. It does not change once made.
type Allocation [numTypes][]DeviceAllocation

// DeviceAllocation is what a pod has of one device.
type DeviceAllocation struct {
	Minor   int32
	Amounts Amounts
	// UUID is the device's; empty when the Device object gives none.
	UUID string
	VFs  []VF
	// Template is the name of the shared-resource template; empty for none.
	Template string
	// Exclusive is whom the pod does not share with.
	Exclusive Exclusivity
}

// VF is a virtual function of a NIC.
type VF struct {
	Minor int32
	BusID string
}

// IsEmpty is true of an allocation without devices, and of nil.
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
