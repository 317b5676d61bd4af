// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// testDevice is a device of a random node, with the amounts that other pods use.
type testDevice struct {
	minor     int32
	numa      int
	pcie      string
	affinity  string
	label     string
	healthy   bool
	used      int64
	exclusive string
	vfs       int
	takenVFs  []int
	vfLabel   string
	memoryGiB int64
	typ       Type
}

func (d *testDevice) inUse() bool { return d.used > 0 || len(d.takenVFs) > 0 || d.exclusive != "" }

func (d *testDevice) bus(vf int) string { return fmt.Sprintf("%s-%d.%d", d.typ, d.minor, vf) }

// root returns the PCIe root, or the affinity label that replaces it in joint allocation.
func (d *testDevice) root() string {
	if d.affinity != "" {
		return "affinity " + d.affinity
	}
	if d.pcie == "" {
		return ""
	}
	return "pcie " + d.pcie
}

type testNode struct {
	devices    [numTypes][]*testDevice
	partitions map[string][]testPartition
	policy     string
}

type testPartition struct {
	Minors           []int32 `json:"minors"`
	RingBusBandwidth string  `json:"ringBusBandwidth,omitempty"`
	AllocationScore  int     `json:"allocationScore"`
}

const testAffinity = "data-direct"

func randomNode(r *rand.Rand, gpus, nics, fpgas int) *testNode {
	n := &testNode{}
	roots := 1 + r.IntN(4)
	withAffinity := r.IntN(5) == 0
	for t, most := range []int{gpus, nics, fpgas} {
		for minor := range r.IntN(most + 1) {
			pcie := r.IntN(roots)
			d := &testDevice{typ: Type(t), minor: int32(minor), numa: pcie % 2, pcie: strconv.Itoa(pcie), healthy: r.IntN(8) > 0, label: string(rune('a' + r.IntN(2))),
				vfs: r.IntN(3), vfLabel: string(rune('a' + r.IntN(2))), memoryGiB: 16 << r.IntN(2)}
			if r.IntN(12) == 0 {
				d.numa, d.pcie = -1, ""
			}
			if withAffinity && d.typ != FPGA && r.IntN(4) > 0 {
				d.affinity = strconv.Itoa(r.IntN(3))
			}
			switch r.IntN(6) {
			case 0:
				d.used = 100
			case 1:
				d.used = 50
			case 2:
				d.used = 10
				d.exclusive = []string{"", "DeviceLevel", "PCIeLevel"}[r.IntN(3)]
			}
			for vf := range d.vfs {
				if d.used > 0 && r.IntN(3) == 0 {
					d.takenVFs = append(d.takenVFs, vf)
				}
			}
			n.devices[t] = append(n.devices[t], d)
		}
	}
	// Affinity labels replace PCIe roots only if devices of both types have such labels.
	for t, other := range map[Type]Type{GPU: RDMA, RDMA: GPU} {
		if !slices.ContainsFunc(n.devices[other], func(d *testDevice) bool { return d.affinity != "" }) {
			for _, d := range n.devices[t] {
				d.affinity = ""
			}
		}
	}
	if r.IntN(4) == 0 {
		n.partitions = map[string][]testPartition{}
		for range r.IntN(6) {
			of := r.Uint64N(1 << max(gpus, 1))
			p := testPartition{AllocationScore: r.IntN(3), RingBusBandwidth: []string{"", "100", "200"}[r.IntN(3)]}
			for ; of != 0; of &= of - 1 {
				p.Minors = append(p.Minors, int32(bits.TrailingZeros64(of)))
			}
			if len(p.Minors) > 0 {
				n.partitions[strconv.Itoa(len(p.Minors))] = append(n.partitions[strconv.Itoa(len(p.Minors))], p)
			}
		}
		n.policy = []string{"", "Honor", "Prefer"}[r.IntN(3)]
	}
	return n
}

// object returns the node's Device object, with its devices in a random order.
func (n *testNode) object(order *rand.Rand) *v1alpha1.Device {
	d := makeDevice()
	for t := range n.devices {
		for _, device := range n.devices[t] {
			resources := map[Type]v1.ResourceList{
				GPU:  list(coreName, "100", ratioName, "100", memoryName, fmt.Sprintf("%dGi", device.memoryGiB)),
				RDMA: list(rdmaName, "100"), FPGA: list(fpgaName, "100"),
			}[Type(t)]
			info := d.add(v1alpha1.DeviceType(Type(t).String()), device.minor, int32(device.numa), device.pcie, resources)
			info.Health = device.healthy
			info.Labels = map[string]string{"kind": device.label}
			if device.affinity != "" {
				info.Labels[testAffinity] = device.affinity
			}
			group := v1alpha1.VirtualFunctionGroup{Labels: map[string]string{"kind": device.vfLabel}}
			for vf := range device.vfs {
				group.VFs = append(group.VFs, v1alpha1.VirtualFunction{Minor: int32(vf), BusID: device.bus(vf)})
			}
			info.VFGroups = []v1alpha1.VirtualFunctionGroup{group}
		}
	}
	if len(n.partitions) > 0 {
		text, _ := json.Marshal(n.partitions)
		d.Annotations[v1alpha1.GPUPartitionsAnnotation] = string(text)
	}
	d.Labels[v1alpha1.GPUPartitionPolicyLabel] = n.policy
	order.Shuffle(len(d.Spec.Devices), func(i, j int) { d.Spec.Devices[i], d.Spec.Devices[j] = d.Spec.Devices[j], d.Spec.Devices[i] })
	return &d.Device
}

// users returns the allocation of all pods that use the node's devices.
func (n *testNode) users() *Allocation {
	a := &Allocation{}
	for t := range n.devices {
		for _, d := range n.devices[t] {
			if !d.inUse() {
				continue
			}
			given := DeviceAllocation{Minor: d.minor, Exclusive: Exclusivity(slices.Index(exclusivityNames[:], d.exclusive))}
			switch Type(t) {
			case GPU:
				given.Amounts = Amounts{Core: d.used, MemoryRatio: d.used, Memory: d.used * d.memoryGiB << 30 / 100}
			case RDMA:
				given.Amounts[RDMAShare] = d.used
			case FPGA:
				given.Amounts[FPGAShare] = d.used
			}
			for _, vf := range d.takenVFs {
				given.VFs = append(given.VFs, VF{BusID: d.bus(vf)})
			}
			a[t] = append(a[t], given)
		}
	}
	return a
}

// testPod is the request of a random pod.
type testPod struct {
	of        [numTypes]testWant
	joint     []Type
	samePCIe  bool
	partition string
	bandwidth int64
}

type testWant struct {
	count     int
	percent   int64
	memoryGiB int64
	all       bool
	selector  string
	vfs       string
	scope     string
	exclusive string
}

func (w *testWant) asked() bool { return w.count > 0 || w.all }

func randomPod(r *rand.Rand) *testPod {
	p := &testPod{}
	for t := range p.of {
		w := &p.of[t]
		if r.IntN(3) == 0 || Type(t) == FPGA && r.IntN(2) == 0 {
			continue
		}
		w.count, w.percent = 1+r.IntN(4), 100
		if r.IntN(3) == 0 {
			w.count, w.percent = 1, []int64{1, 50}[r.IntN(2)]
			if Type(t) == GPU {
				w.count = 1 + r.IntN(2)
				if r.IntN(2) == 0 {
					w.memoryGiB, w.percent = []int64{8, 16}[r.IntN(2)], 0
				}
			}
		}
		if r.IntN(5) == 0 {
			w.selector = string(rune('a' + r.IntN(2)))
		}
		if Type(t) == RDMA && r.IntN(4) == 0 {
			w.vfs = string(rune('a' + r.IntN(2)))
		}
		if Type(t) != GPU && r.IntN(6) == 0 {
			w.all, w.count = true, 0
			w.percent = 1
		}
		if r.IntN(4) == 0 {
			w.scope = []string{"PCIe", "NUMANode", "Node"}[r.IntN(3)]
			if w.count == 1 && r.IntN(3) == 0 {
				w.scope = "Device"
			}
		}
		if r.IntN(8) == 0 {
			w.exclusive = []string{"DeviceLevel", "PCIeLevel"}[r.IntN(2)]
		}
	}
	if r.IntN(3) > 0 {
		p.joint = [][]Type{{GPU, RDMA}, {GPU, RDMA, FPGA}, {RDMA, GPU}, {FPGA, RDMA}}[r.IntN(4)]
		p.samePCIe = r.IntN(2) == 0
	}
	if r.IntN(5) == 0 {
		p.partition = []string{"BestEffort", "Restricted"}[r.IntN(2)]
		p.bandwidth = []int64{0, 100, 150}[r.IntN(3)]
	}
	return p
}

// pod returns a pod with this request.
func (p *testPod) pod() *v1.Pod {
	resources := v1.ResourceList{}
	hints := map[string]map[string]any{}
	for t := range p.of {
		w := &p.of[t]
		if !w.asked() {
			continue
		}
		maps.Copy(resources, w.resources(Type(t)))
		hint := map[string]any{}
		if w.selector != "" {
			hint["selector"] = map[string]any{"matchLabels": map[string]string{"kind": w.selector}}
		}
		if w.vfs != "" {
			hint["vfSelector"] = map[string]any{"matchLabels": map[string]string{"kind": w.vfs}}
		}
		if w.all {
			hint["allocateStrategy"] = "ApplyForAll"
		}
		if w.scope != "" {
			hint["requiredTopologyScope"] = w.scope
		}
		if w.exclusive != "" {
			hint["exclusivePolicy"] = w.exclusive
		}
		hints[Type(t).String()] = hint
	}
	text := func(v any) string {
		text, _ := json.Marshal(v)
		return string(text)
	}
	annotations := []string{"device-allocate-hint", text(hints)}
	if p.joint != nil {
		var types []string
		for _, t := range p.joint {
			types = append(types, t.String())
		}
		joint := map[string]any{"deviceTypes": types}
		if p.samePCIe {
			joint["requiredScope"] = "SamePCIe"
		}
		annotations = append(annotations, "device-joint-allocate", text(joint))
	}
	if p.partition != "" {
		annotations = append(annotations, "gpu-partition-spec", text(map[string]any{"allocatePolicy": p.partition, "ringBusBandwidth": p.bandwidth}))
	}
	return makePod(resources, annotations...)
}

func (w *testWant) resources(t Type) v1.ResourceList {
	amount := strconv.FormatInt(w.percent*int64(max(w.count, 1)), 10)
	switch {
	case t == RDMA:
		return list(rdmaName, amount)
	case t == FPGA:
		return list(fpgaName, amount)
	case w.memoryGiB > 0:
		return list(memoryName, fmt.Sprintf("%dGi", w.memoryGiB*int64(w.count)), sharedName, strconv.Itoa(w.count))
	}
	return list(coreName, amount, ratioName, amount, sharedName, strconv.Itoa(w.count))
}
