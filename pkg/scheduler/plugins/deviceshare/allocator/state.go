// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"slices"
	"sort"
)

// Inventory holds a node's devices, from its Device object. It is immutable.
type Inventory struct {
	Node string
	// Devices has the devices of each type, sorted by minor.
	Devices [numTypes][]Device
	// LeftOut counts, by type, the devices of the Device object that NewInventory ignored because the object lists too
	// many.
	LeftOut [numTypes]int
	// PCIes and NUMANodes are the numbers of PCIe roots and NUMA nodes of the node. Devices refer to roots and NUMA nodes
	// by index.
	PCIes, NUMANodes int
	// numaIDs are the machine's own numbers of the NUMA nodes, by index; nil if the machine's numbers equal the indexes.
	numaIDs []int
	// Partitions are, by number of GPUs, the sets of GPUs that may be used together; nil if the node has no partition
	// table.
	Partitions map[int][]Partition
	// PartitionPolicy says whether GPUs must be allocated by partition (Honor) or should be (Prefer); empty if the node
	// does not say.
	PartitionPolicy string
	// Vendor and Model describe the GPUs. IsolationProvider is the mechanism that isolates shares of a GPU from each other.
	// All are empty if unknown.
	Vendor, Model, IsolationProvider string
}

// Device is one device of a node.
type Device struct {
	Minor int32
	UUID  string
	// Healthy reports whether the device may be allocated to pods. If it is false, Total is zero.
	Healthy bool
	Total   Amounts
	Labels  map[string]string
	// PCIe and NUMA are the indexes of the PCIe root and the NUMA node of the device; -1 if the Device object has none.
	PCIe, NUMA int
	// affinity is 1 plus the index of the device's value of the label in nicTopologyKey, which replaces its PCIe root in
	// joint allocation; 0 if the root is not replaced.
	affinity int
	// VFGroups are the virtual functions of the device.
	VFGroups []VFGroup
}

// VFGroup is a list of virtual functions with common labels, sorted by bus ID.
type VFGroup struct {
	Labels map[string]string
	VFs    []VF
}

// Partition is a set of GPUs that may be used together. Its Minors are sorted.
type Partition struct {
	Minors []int32
	// mask has a bit for each GPU of the set, by index in the inventory; 0 if the node lacks one of the GPUs.
	mask uint64
	// Score is higher for better sets of GPUs. Bandwidth is the bandwidth of the ring that connects the GPUs, in bytes per
	// second; 0 if the partition table does not have it.
	Score     int
	Bandwidth int64
}

// State holds a node's devices and their use by pods. It is immutable: With and Without return new states, which share
// the unchanged parts with the old state.
type State struct {
	*Inventory
	// used has the amounts that pods use of each device, by type and index in Inventory.Devices.
	used [numTypes][]Amounts
	// usedVFs are the sorted bus IDs of virtual functions in use, by the type and index of their device.
	usedVFs [numTypes][][]string
	// exclusive counts, by type and index of a device, the pods that have the device, or its PCIe root, exclusively.
	// exclusives is the sum of these counts over all devices.
	exclusive  [numTypes][]exclusions
	exclusives int
	// empty is the state of the same inventory in which no pod uses devices.
	empty *State
	// pcies, numaNodes and roots are the lengths of arrays that are indexed by PCIe root, by NUMA node, and by root in
	// joint allocation.
	pcies, numaNodes, roots int
}

// exclusions counts the pods that use one device exclusively: device counts pods that have only the device, pcie counts
// pods that have its whole PCIe root.
type exclusions struct{ device, pcie int }

// NewState returns the state of the inventory in which no pod uses devices.
func NewState(inventory *Inventory) *State {
	s := &State{Inventory: inventory}
	s.empty = s
	for t := range s.Devices {
		s.used[t] = make([]Amounts, len(s.Devices[t]))
		s.usedVFs[t] = make([][]string, len(s.Devices[t]))
		s.exclusive[t] = make([]exclusions, len(s.Devices[t]))
		for i := range s.Devices[t] {
			d := &s.Devices[t][i]
			s.pcies, s.numaNodes, s.roots = max(s.pcies, d.PCIe+1), max(s.numaNodes, d.NUMA+1), max(s.roots, s.root(d)+1)
		}
	}
	return s
}

// With returns the state after a pod got the devices of the allocation. It ignores devices that the inventory does not
// have.
func (s *State) With(a *Allocation) *State { return s.change(a, true) }

// Without returns the state after a pod released the devices of the allocation. The allocation must have been added by
// With.
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
		changed.used[t], changed.usedVFs[t], changed.exclusive[t] = slices.Clone(s.used[t]), slices.Clone(s.usedVFs[t]), slices.Clone(s.exclusive[t])
		for i := range devices {
			changed.changeDevice(Type(t), &devices[i], use)
		}
	}
	return &changed
}

// changeDevice adds or removes a pod's use of the device with the minor of d. If an agent has renumbered the devices,
// another device may have the UUID of d. Then changeDevice also changes the use of that device, because it is unknown
// which of the two devices the pod uses.
func (s *State) changeDevice(t Type, d *DeviceAllocation, use bool) {
	i, ok := s.index(t, d.Minor)
	if ok {
		s.changeAt(t, i, d, use)
	}
	if d.UUID == "" || ok && s.Devices[t][i].UUID == d.UUID {
		return
	}
	for other := range s.Devices[t] {
		if s.Devices[t][other].UUID == d.UUID {
			s.changeAt(t, other, d, use)
		}
	}
}

func (s *State) changeAt(t Type, i int, d *DeviceAllocation, use bool) {
	by, amounts := 1, s.Devices[t][i].usedBy(t, d.Amounts)
	if use {
		s.used[t][i] = s.used[t][i].Add(amounts)
	} else {
		s.used[t][i] = s.used[t][i].Sub(amounts)
		by = -1
	}
	if len(d.VFs) > 0 {
		s.changeVFs(t, i, d.VFs, use)
	}
	if d.Exclusive == NotExclusive {
		return
	}
	s.exclusives += by
	if d.Exclusive == PCIeLevel {
		s.exclusive[t][i].pcie += by
	} else {
		s.exclusive[t][i].device += by
	}
}

// usedBy returns how much of the device is used by a pod that was given these amounts. This is at most the total of the
// device. For a GPU the result has both the ratio and the bytes of memory. An unavailable device has a total of 0;
// usedBy then does not limit the given amounts.
func (d *Device) usedBy(t Type, given Amounts) Amounts {
	given, _ = fill(given, t, d)
	for r, total := range d.Total {
		if total > 0 {
			given[r] = min(given[r], total)
		}
	}
	return given
}

func (s *State) changeVFs(t Type, i int, changed []VF, use bool) {
	vfs := slices.Clone(s.usedVFs[t][i])
	for _, vf := range changed {
		at, found := slices.BinarySearch(vfs, vf.BusID)
		switch {
		case use:
			vfs = slices.Insert(vfs, at, vf.BusID)
		case found:
			vfs = slices.Delete(vfs, at, at+1)
		}
	}
	s.usedVFs[t][i] = vfs
}

// index returns the index in the inventory of the device with the given minor; false if the inventory has no such
// device.
func (i *Inventory) index(t Type, minor int32) (int, bool) {
	devices := i.Devices[t]
	if at := int(minor); at >= 0 && at < len(devices) && devices[at].Minor == minor {
		return at, true
	}
	return sort.Find(len(devices), func(at int) int { return cmp.Compare(minor, devices[at].Minor) })
}

// Device returns the device with the given minor; nil if the inventory has no such device.
func (i *Inventory) Device(t Type, minor int32) *Device {
	if at, ok := i.index(t, minor); ok {
		return &i.Devices[t][at]
	}
	return nil
}

// root returns the number of the device's PCIe root, or of the group that replaces the root in joint allocation; -1 if
// unknown.
func (i *Inventory) root(d *Device) int {
	if d.affinity > 0 {
		return i.PCIes - 1 + d.affinity
	}
	return d.PCIe
}

// numaID returns the machine's own number of the device's NUMA node; -1 if unknown.
func (i *Inventory) numaID(d *Device) int {
	if d.NUMA < 0 || d.NUMA >= len(i.numaIDs) {
		return d.NUMA
	}
	return i.numaIDs[d.NUMA]
}

// isUsed reports whether any pod uses a part of the device.
func (s *State) isUsed(t Type, index int) bool {
	return !s.used[t][index].IsZero() || len(s.usedVFs[t][index]) > 0 || s.exclusive[t][index] != exclusions{}
}

// Used returns the amounts of the device at that index of the inventory that pods use.
func (s *State) Used(t Type, index int) Amounts { return s.used[t][index] }

// Free returns the amounts of the device at that index of the inventory that no pod uses. They are never negative.
func (s *State) Free(t Type, index int) Amounts {
	free := s.Devices[t][index].Total.Sub(s.used[t][index])
	for r := range free {
		free[r] = max(free[r], 0)
	}
	return free
}
