// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// InventoryOptions control how NewInventory reads Device objects.
type InventoryOptions struct {
	// AffinityKey is the key of a label of devices; empty for none. If GPUs and NICs of a node have the label, its value
	// replaces the PCIe root in joint allocation. Boards such as GB300 need this: their NICs have a data-direct root that
	// is not their PCIe root.
	AffinityKey string
}

// Limits on how many devices of each type, and how many virtual functions of each device, an inventory takes from a
// Device object. The limits are far above the size of real machines.
const (
	maxDevices = 64
	maxVFs     = 4096
)

// NewInventory parses a node's Device object. It reads labels that the Device object lacks from the node, which may be
// nil. It leaves out invalid parts and reports them in the error; the inventory that it returns with an error can be
// used. The result does not depend on the order in which the Device object lists devices.
func NewInventory(device *v1alpha1.Device, node *v1.Node, o InventoryOptions) (*Inventory, error) {
	i := &Inventory{Node: device.Name}
	label := func(key string) string {
		if value := device.Labels[key]; value != "" || node == nil {
			return value
		}
		return node.Labels[key]
	}
	i.Vendor, i.Model = label(v1alpha1.GPUVendorLabel), label(v1alpha1.GPUModelLabel)
	i.PartitionPolicy = label(v1alpha1.GPUPartitionPolicyLabel)
	i.IsolationProvider = label(v1alpha1.GPUIsolationProviderLabel)

	infos, errs := usableInfos(device.Spec.Devices)
	for t := range infos {
		if more := len(infos[t]) - maxDevices; more > 0 {
			errs = append(errs, fmt.Errorf("%d devices of type %s, must be at most %d", len(infos[t]), Type(t), maxDevices))
			infos[t], i.LeftOut[t] = infos[t][:maxDevices], more
		}
	}
	numbers := numberTopology(infos, o.AffinityKey)
	for t := range infos {
		for _, info := range infos[t] {
			d := newDevice(info, Type(t), &errs)
			d.PCIe, d.NUMA, d.affinity = numbers.of(info)
			i.Devices[t] = append(i.Devices[t], d)
		}
	}
	i.PCIes, i.NUMANodes = len(numbers.pcies), len(numbers.numaNodes)
	i.numaIDs = make([]int, i.NUMANodes)
	for id, number := range numbers.numaNodes {
		i.numaIDs[number] = int(id)
	}
	var err error
	if i.Partitions, err = parsePartitions(device.Annotations[v1alpha1.GPUPartitionsAnnotation], i); err != nil {
		errs = append(errs, err)
	}
	if err := joinErrors(errs); err != nil {
		return i, fmt.Errorf("device %.253s: %w", device.Name, err)
	}
	return i, nil
}

// usableInfos returns the devices of each type, sorted by minor. It leaves out devices of one type that have the same
// minor, because the pods that use such devices could not be distinguished.
func usableInfos(listed []v1alpha1.DeviceInfo) (infos [numTypes][]*v1alpha1.DeviceInfo, errs []error) {
	for at := range listed {
		info := &listed[at]
		t, ok := TypeOf(string(info.Type))
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("unknown type %.32q, must be gpu, rdma or fpga", info.Type))
		case info.Minor == nil || *info.Minor < 0:
			errs = append(errs, fmt.Errorf("%s %.64q: has no minor number, must be 0 or more", t, info.UUID))
		default:
			infos[t] = append(infos[t], info)
		}
	}
	for t := range infos {
		slices.SortFunc(infos[t], func(a, b *v1alpha1.DeviceInfo) int { return cmp.Compare(*a.Minor, *b.Minor) })
		usable := infos[t][:0]
		for from := 0; from < len(infos[t]); {
			minor, to := *infos[t][from].Minor, from+1
			for to < len(infos[t]) && *infos[t][to].Minor == minor {
				to++
			}
			if to == from+1 {
				usable = append(usable, infos[t][from])
			} else {
				errs = append(errs, fmt.Errorf("%s %d: is listed %d times, must be once", Type(t), minor, to-from))
			}
			from = to
		}
		infos[t] = usable
	}
	return infos, errs
}

// newDevice parses the properties of one device, and appends errors to errs. A device with an invalid amount counts as
// unhealthy and has no amounts, so that no pod gets the device.
func newDevice(info *v1alpha1.DeviceInfo, t Type, errs *[]error) Device {
	d := Device{Minor: *info.Minor, UUID: info.UUID, Healthy: info.Health, Labels: info.Labels}
	for r, name := range resourceNames {
		q, ok := info.Resources[name]
		if !ok {
			continue
		}
		value, ok := wholeNumber(q)
		if !ok || value > maxAmount {
			*errs = append(*errs, fmt.Errorf("%s %d: resource %s is %.64s, must be a whole number of at most %d", t, d.Minor, name, q.String(), int64(maxAmount)))
			d.Healthy = false
			continue
		}
		d.Total[r] = value
	}
	if !d.Healthy {
		d.Total = Amounts{}
	}
	left := maxVFs
	for g := range info.VFGroups {
		group := VFGroup{Labels: info.VFGroups[g].Labels}
		for _, vf := range info.VFGroups[g].VFs {
			if left--; left >= 0 {
				group.VFs = append(group.VFs, VF{Minor: vf.Minor, BusID: vf.BusID})
			}
		}
		slices.SortFunc(group.VFs, func(a, b VF) int { return cmp.Compare(a.BusID, b.BusID) })
		d.VFGroups = append(d.VFGroups, group)
	}
	if left < 0 {
		*errs = append(*errs, fmt.Errorf("%s %d: has %d virtual functions, must be at most %d", t, d.Minor, maxVFs-left, maxVFs))
	}
	return d
}

// topologyNumbers assigns numbers to the PCIe roots and the NUMA nodes of a node's devices, and to the values of the
// devices' label affinityKey. Each kind is numbered from 0.
type topologyNumbers struct {
	affinityKey string
	// known is the NUMA node of each PCIe root, by the name of the root. It is noNUMA if devices on the root report
	// several NUMA nodes. A root has no entry if none of its devices reports a NUMA node.
	known     map[string]int32
	pcies     map[pcieName]int
	numaNodes map[int32]int
	roots     map[string]int
}

// pcieName identifies a PCIe root of a node. The NUMA node is part of the name, because some agents number PCIe roots
// separately on each NUMA node.
type pcieName struct {
	numa int32
	id   string
}

const noNUMA = math.MinInt32

// numberTopology assigns numbers to the PCIe roots, the NUMA nodes and the label values of the devices, in the order of
// the devices' types and minors.
func numberTopology(infos [numTypes][]*v1alpha1.DeviceInfo, affinityKey string) *topologyNumbers {
	n := &topologyNumbers{affinityKey: affinityKey, known: map[string]int32{}, pcies: map[pcieName]int{}, numaNodes: map[int32]int{}, roots: map[string]int{}}
	if affinityKey == "" || !anyLabelled(infos[GPU], affinityKey) || !anyLabelled(infos[RDMA], affinityKey) {
		n.affinityKey = ""
	}
	for t := range infos {
		for _, info := range infos[t] {
			if place := info.Topology; place != nil && place.NodeID >= 0 {
				if numa, seen := n.known[place.PCIEID]; seen && numa != place.NodeID {
					n.known[place.PCIEID] = noNUMA
				} else {
					n.known[place.PCIEID] = place.NodeID
				}
			}
		}
	}
	for t := range infos {
		for _, info := range infos[t] {
			n.add(info)
		}
	}
	return n
}

func anyLabelled(infos []*v1alpha1.DeviceInfo, key string) bool {
	return slices.ContainsFunc(infos, func(info *v1alpha1.DeviceInfo) bool { return info.Labels[key] != "" })
}

// name returns the name of the device's PCIe root. If the device does not report its NUMA node, the name contains the
// NUMA node that other devices on the root report.
func (n *topologyNumbers) name(info *v1alpha1.DeviceInfo) pcieName {
	place := info.Topology
	if place == nil {
		return pcieName{numa: noNUMA}
	}
	name := pcieName{numa: place.NodeID, id: place.PCIEID}
	if name.numa < 0 {
		name.numa = noNUMA
		if numa, ok := n.known[name.id]; ok && name.id != "" {
			name.numa = numa
		}
	}
	return name
}

func (n *topologyNumbers) add(info *v1alpha1.DeviceInfo) {
	name := n.name(info)
	if _, ok := n.numaNodes[name.numa]; !ok && name.numa != noNUMA {
		n.numaNodes[name.numa] = len(n.numaNodes)
	}
	if _, ok := n.pcies[name]; !ok && name.id != "" {
		n.pcies[name] = len(n.pcies)
	}
	if value := info.Labels[n.affinityKey]; n.affinityKey != "" && value != "" {
		if _, ok := n.roots[value]; !ok {
			n.roots[value] = len(n.roots)
		}
	}
}

func (n *topologyNumbers) of(info *v1alpha1.DeviceInfo) (pcie, numa, affinity int) {
	find := func(number int, ok bool) int {
		if !ok {
			return -1
		}
		return number
	}
	name := n.name(info)
	number, ok := n.pcies[name]
	pcie = find(number, ok)
	number, ok = n.numaNodes[name.numa]
	numa = find(number, ok)
	if value := info.Labels[n.affinityKey]; n.affinityKey != "" && value != "" {
		affinity = 1 + n.roots[value]
	}
	return pcie, numa, affinity
}
