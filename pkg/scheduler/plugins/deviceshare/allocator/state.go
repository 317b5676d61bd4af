// SPDX-License-Identifier: Apache-2.0

package allocator

import "slices"

// Inventory is a node's devices, as its Device object tells of them. It does not change once made.
type Inventory struct {
	Node string
	// Devices are by type, each type's by minor.
	Devices [numTypes][]Device
	// PCIes and NUMANodes are how many there are; devices name them by number.
	PCIes, NUMANodes int
	// Partitions are, by number of GPUs, the sets of GPUs that may be given together; nil without a table.
	Partitions map[int][]Partition
	// PartitionPolicy is Honor, Prefer or empty.
	PartitionPolicy string
	// Vendor and Model are the GPUs'; IsolationProvider is what keeps shares of a GPU apart. Empty when the node does not say.
	Vendor, Model, IsolationProvider string
	// SecondaryWellPlanned is true if the node's other devices are enough for its GPUs in any division.
	SecondaryWellPlanned bool
}

// Device is one device of a node.
type Device struct {
	Minor int32
	UUID  string
	// Healthy is false of a device that gives nothing to pods that do not have it already; its Total is zero.
	Healthy bool
	Total   Amounts
	Labels  map[string]string
	// PCIe and NUMA are the numbers of its PCIe root, or what stands for it, and of its NUMA node; -1 when the Device object does not say.
	PCIe, NUMA int
	// VFGroups are its virtual functions.
	VFGroups []VFGroup
}

// VFGroup is virtual functions with labels in common, by bus ID.
type VFGroup struct {
	Labels map[string]string
	VFs    []VF
}

// Partition is a set of GPUs that may be given together, by minor.
type Partition struct {
	Minors []int32
	// Score is better the higher it is; Bandwidth is of the ring that they make, in bytes per second, 0 when the table does not say.
	Score     int
	Bandwidth int64
}

// State is a node's devices and what pods use of them. It does not change: With and Without make others, which share what is equal.
type State struct {
	*Inventory
	// used is by type and index in Inventory.Devices.
	used [numTypes][]Amounts
	// usedVFs are the bus IDs of virtual functions in use, by type and index; sorted.
	usedVFs [numTypes][][]string
}

// NewState returns the state in which nobody uses anything.
func NewState(inventory *Inventory) *State {
	s := &State{Inventory: inventory}
	for t := range s.Devices {
		s.used[t] = make([]Amounts, len(s.Devices[t]))
		s.usedVFs[t] = make([][]string, len(s.Devices[t]))
	}
	return s
}

// With returns the state in which the allocation is in use too. Of devices that the inventory does not have nothing is noted.
func (s *State) With(a *Allocation) *State { return s.change(a, true) }

// Without returns the state in which the allocation, which With added, is not in use.
func (s *State) Without(a *Allocation) *State { return s.change(a, false) }

func (s *State) change(a *Allocation, use bool) *State {
	if a.IsEmpty() {
		return s
	}
	changed := *s
	for t, devices := range a {
		if len(devices) == 0 {
			continue
		}
		changed.used[t], changed.usedVFs[t] = slices.Clone(s.used[t]), slices.Clone(s.usedVFs[t])
		for i := range devices {
			changed.changeDevice(Type(t), &devices[i], use)
		}
	}
	return &changed
}

func (s *State) changeDevice(t Type, d *DeviceAllocation, use bool) {
	i, ok := s.index(t, d.Minor)
	if !ok {
		return
	}
	vfs := slices.Clone(s.usedVFs[t][i])
	if use {
		s.used[t][i] = s.used[t][i].Add(d.Amounts)
		for _, vf := range d.VFs {
			vfs = append(vfs, vf.BusID)
		}
		slices.Sort(vfs)
	} else {
		s.used[t][i] = s.used[t][i].Sub(d.Amounts)
		for _, vf := range d.VFs {
			if at, found := slices.BinarySearch(vfs, vf.BusID); found {
				vfs = slices.Delete(vfs, at, at+1)
			}
		}
	}
	s.usedVFs[t][i] = vfs
}

// index is where the device of that minor is in the inventory.
func (i *Inventory) index(t Type, minor int32) (int, bool) {
	return slices.BinarySearchFunc(i.Devices[t], minor, func(d Device, minor int32) int { return int(d.Minor - minor) })
}

// Device returns the device of that minor; nil for none.
func (i *Inventory) Device(t Type, minor int32) *Device {
	if at, ok := i.index(t, minor); ok {
		return &i.Devices[t][at]
	}
	return nil
}

// Used is what pods use of the device at that index of the inventory.
func (s *State) Used(t Type, index int) Amounts { return s.used[t][index] }

// Free is what is left of the device at that index of the inventory; never negative.
func (s *State) Free(t Type, index int) Amounts {
	free := s.Devices[t][index].Total.Sub(s.used[t][index])
	for r := range free {
		free[r] = max(free[r], 0)
	}
	return free
}
