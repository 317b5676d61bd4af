// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

func TestJointAllocation(t *testing.T) {
	vfNode := func(t *testing.T) *State { return nodeA().state(t) }
	fourRoots := func(t *testing.T) *State {
		d := makeDevice()
		for minor := range int32(4) {
			d.gpu(minor, minor/2, fmt.Sprint("pcie", minor))
		}
		for minor, pcie := range []int{0, 0, 0, 1, 2, 3} {
			d.nic(int32(minor), int32(pcie/2), fmt.Sprint("pcie", pcie))
		}
		return d.state(t)
	}
	bare := func(t *testing.T) *State {
		d := makeDevice()
		d.gpu(0, -1, "")
		d.nic(1, -1, "")
		return d.state(t)
	}
	tests := map[string]struct {
		gpus    string
		rdma    string
		hints   string
		joint   string
		node    func(t *testing.T) *State
		used    []*Allocation
		want    string
		refused bool
	}{
		"D1: a NIC alone":                               {gpus: "0", want: "rdma 1/1f:00.2"},
		"D2: one GPU and the NIC beside it":             {gpus: "1", want: "gpu 0; rdma 1/1f:00.2"},
		"D4: three GPUs and a NIC on each of two roots": {gpus: "3", want: "gpu 0,1,2; rdma 1/1f:00.2,2/90:00.2"},
		"D6: six GPUs and three NICs":                   {gpus: "6", want: "gpu 0,1,2,3,4,5; rdma 1/1f:00.2,2/90:00.2,3/51:00.2"},
		"D8: an unused root on the NUMA node in use": {gpus: "2", used: []*Allocation{whole(0), vf(1, "0000:1f:00.2")},
			want: "gpu 2,3; rdma 2/90:00.2"},
		"D10: no topology and no virtual functions": {gpus: "1", node: bare, want: "Insufficient rdma VirtualFunctions", refused: true},
		"D12: the other NUMA node": {gpus: "4", used: []*Allocation{whole(0, 1, 2, 3), vf(1, "0000:1f:00.2")},
			want: "gpu 4,5,6,7; rdma 3/51:00.2,4/b9:00.2"},
		"D14: NICs in turn of the roots":         {gpus: "4", rdma: "400", hints: "{}", node: fourRoots, want: "gpu 0,1,2,3; rdma 0@100,3@100,4@100,5@100"},
		"D15: all NICs":                          {gpus: "4", hints: `{"rdma":{"allocateStrategy":"ApplyForAll"}}`, want: "gpu 0,1,2,3; rdma 1,2,3,4"},
		"D17a: a NIC on each root is required":   {gpus: "3", joint: jointPCIe, want: "gpu 0,1,2; rdma 1/1f:00.2,2/90:00.2"},
		"D17b: roots without a free NIC are out": {gpus: "2", joint: jointPCIe, used: []*Allocation{whole(0), nics(100, 1)}, want: "gpu 2,3; rdma 2/90:00.2"},
		"D17e: the whole node":                   {gpus: "8", joint: jointPCIe, want: "gpu 0,1,2,3,4,5,6,7; rdma 1/1f:00.2,2/90:00.2,3/51:00.2,4/b9:00.2"},
		"D20: one PCIe root, on the NUMA node in use": {gpus: "2", hints: `{"gpu":{"requiredTopologyScope":"PCIe"},"rdma":{"vfSelector":{}}}`, used: []*Allocation{whole(5)},
			want: "gpu 6,7; rdma 4/b9:00.2"},
		"D22: no NUMA node has as many": {gpus: "4", hints: `{"gpu":{"requiredTopologyScope":"NUMANode"},"rdma":{"vfSelector":{}}}`, used: []*Allocation{whole(5), whole(0)},
			want: "Insufficient Topology Scoped GPU Devices", refused: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			node, rdma, hints, joint := tt.node, tt.rdma, tt.hints, tt.joint
			if node == nil {
				node = vfNode
			}
			if rdma == "" {
				rdma = "1"
			}
			if hints == "" {
				hints = vfHint
			}
			if joint == "" {
				joint = jointHint
			}
			r := parse(t, makePod(list(nvidiaName, tt.gpus, rdmaName, rdma), "device-allocate-hint", hints, "device-joint-allocate", joint))
			check(t, inUse(node(t), tt.used...), r, Options{Strategy: LeastAllocated{DefaultWeights}}, tt.want, tt.refused)
		})
	}
}

func TestDevicesOfUnknownPlace(t *testing.T) {
	allNICs := `{"rdma":{"allocateStrategy":"ApplyForAll","requiredTopologyScope":"NUMANode"}}`
	t.Run("one NIC shares a NUMA node with itself", func(t *testing.T) {
		d := makeDevice()
		d.gpu(0, 0, "a")
		d.nic(0, -1, "")
		check(t, d.state(t), parse(t, makePod(list(nvidiaName, "1", rdmaName, "1"), "device-allocate-hint", allNICs, "device-joint-allocate", jointHint)), Options{},
			"gpu 0; rdma 0", false)
	})
	t.Run("a data-direct root of which one GPU does not say its NUMA node", func(t *testing.T) {
		d := makeDevice()
		for minor, numa := range []int32{-1, 0, 0} {
			d.gpu(int32(minor), numa, "a").Labels = map[string]string{"root": []string{"x", "y", "x"}[minor]}
		}
		d.nic(0, 0, "b").Labels = map[string]string{"root": "x"}
		inventory, err := NewInventory(&d.Device, nil, InventoryOptions{AffinityKey: "root"})
		if err != nil {
			t.Fatal(err)
		}
		check(t, NewState(inventory), parse(t, makePod(list(nvidiaName, "2", rdmaName, "1"), "device-joint-allocate", jointPCIe)), Options{}, "gpu 0,2; rdma 0", false)
	})
}

func TestVirtualFunctionsOfSeveralGroups(t *testing.T) {
	d := makeDevice()
	d.nic(0, -1, "").VFGroups = []v1alpha1.VirtualFunctionGroup{
		{Labels: map[string]string{"a": "x"}, VFs: []v1alpha1.VirtualFunction{{BusID: "3"}, {BusID: "5"}}},
		{Labels: map[string]string{"a": "y"}, VFs: []v1alpha1.VirtualFunction{{BusID: "4"}, {BusID: "2"}}},
	}
	s := d.state(t)
	for _, want := range []string{"2", "3", "4", "5"} {
		a, _ := Allocate(s, parse(t, makePod(list(rdmaName, "1"), "device-allocate-hint", vfHint)), Options{})
		if diff := cmp.Diff("rdma 0/"+want, text(a)); diff != "" {
			t.Errorf("the first by bus ID (-want +got):\n%s", diff)
		}
		s = s.With(a)
	}
}

func TestDevicesWithoutANUMANodeHaveNoPreference(t *testing.T) {
	d := makeDevice()
	d.gpu(0, 1, "a")
	d.gpu(1, -1, "")
	check(t, d.state(t), parse(t, makePod(list(nvidiaName, "1"))), Options{NUMANodes: []int{0}}, "gpu 1", false)
}

// TestShareOfGPUPacksTheTopology is Koordinator's case D23: a share goes to a free GPU whose neighbour is in use.
func TestShareOfGPUPacksTheTopology(t *testing.T) {
	r := parse(t, makePod(list(coreName, "50", ratioName, "50")))
	check(t, nodeA().state(t).With(whole(5)), r, Options{Strategy: MostAllocated{DefaultWeights}}, "gpu 4@50", false)
}

func TestOrderOfSecondaries(t *testing.T) {
	tests := map[string]struct {
		preferred []int
		scores    map[int]float64
		want      []int
	}{
		"D38: the preferred roots in turn":           {preferred: []int{0, 1}, want: []int{1, 5, 2, 6, 0, 3, 4, 7}},
		"D38: the best of a root goes first":         {preferred: []int{0, 1}, scores: map[int]float64{5: 10, 6: 50}, want: []int{6, 1, 5, 2, 0, 3, 4, 7}},
		"D38: of equal ones of a root the lowest":    {preferred: []int{0, 1}, scores: map[int]float64{5: 10, 6: 10}, want: []int{5, 1, 6, 2, 0, 3, 4, 7}},
		"D38: without a preferred root by the minor": {want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			group := map[int]int{1: 0, 2: 0, 5: 1, 6: 1}
			var of []candidate
			for minor := range 8 {
				c := candidate{index: minor, group: -1, score: tt.scores[minor]}
				if number, ok := group[minor]; ok {
					c.group = number
				}
				of = append(of, c)
			}
			(&search{}).inRounds(of, func(number int) bool { return number >= 0 && len(tt.preferred) > 0 })
			var got []int
			for _, c := range of {
				got = append(got, c.index)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPartitions(t *testing.T) {
	h800 := func() *deviceObject {
		d := nodeA()
		d.Labels[v1alpha1.GPUModelLabel], d.Labels[v1alpha1.GPUPartitionPolicyLabel] = "H800", v1alpha1.PartitionHonor
		return d
	}
	prefer := func() *deviceObject {
		d := h800()
		d.Labels[v1alpha1.GPUPartitionPolicyLabel] = v1alpha1.PartitionPrefer
		return d
	}
	table := func(text string) func() *deviceObject {
		return func() *deviceObject {
			d := nodeA()
			d.Annotations[v1alpha1.GPUPartitionsAnnotation] = text
			return d
		}
	}
	scored := table(`{"2":[{"minors":[0,1],"allocationScore":1,"ringBusBandwidth":"100Gi"},{"minors":[2,3],"allocationScore":5},{"minors":[6,7],"allocationScore":3,"ringBusBandwidth":"200Gi"}]}`)
	tests := map[string]struct {
		node    func() *deviceObject
		gpus    string
		spec    string
		joint   string
		used    []*Allocation
		want    string
		refused bool
	}{
		"D25a: one":              {gpus: "1", want: "gpu 0"},
		"D25a: two":              {gpus: "2", want: "gpu 0,1"},
		"D25a: four":             {gpus: "4", want: "gpu 0,1,2,3"},
		"D25a: eight":            {gpus: "8", want: "gpu 0,1,2,3,4,5,6,7"},
		"D27b: what leaves most": {gpus: "1", used: []*Allocation{whole(4)}, want: "gpu 5"},
		"what leaves most of the table": {node: table(`{"1":[{"minors":[1]},{"minors":[7]}],"2":[{"minors":[1,2]},{"minors":[3,4]},{"minors":[5,6]}]}`),
			gpus: "1", used: []*Allocation{whole(0)}, want: "gpu 7"},
		"no entry of that size":          {gpus: "3", want: "node(s) Unsupported number of GPU requests", refused: true},
		"no free entry":                  {gpus: "4", used: []*Allocation{whole(3), whole(7)}, want: "Insufficient Partitioned GPU Devices", refused: true},
		"a share of one is in use":       {gpus: "2", used: []*Allocation{part(10, 0)}, want: "gpu 2,3"},
		"preferred, and there is none":   {node: prefer, gpus: "3", want: "gpu 0,1,2"},
		"preferred, and none is free":    {node: prefer, gpus: "4", used: []*Allocation{whole(3), whole(7)}, want: "gpu 0,1,2,6"},
		"the pod insists":                {node: prefer, gpus: "3", spec: `{}`, want: "node(s) Unsupported number of GPU requests", refused: true},
		"no table and the pod insists":   {node: nodeA, gpus: "2", spec: `{}`, want: "node(s) missing GPU Partition Table", refused: true},
		"the highest score":              {node: scored, gpus: "2", spec: `{}`, want: "gpu 2,3"},
		"the next score":                 {node: scored, gpus: "2", spec: `{}`, used: []*Allocation{whole(2)}, want: "gpu 6,7"},
		"only the highest score":         {node: scored, gpus: "2", spec: `{"allocatePolicy":"Restricted"}`, used: []*Allocation{whole(2)}, want: "Insufficient Partitioned GPU Devices", refused: true},
		"a ring fast enough":             {node: scored, gpus: "2", spec: `{"ringBusBandwidth":"150Gi"}`, want: "gpu 6,7"},
		"a ring just fast enough":        {node: scored, gpus: "2", spec: `{"ringBusBandwidth":"200Gi"}`, want: "gpu 6,7"},
		"no ring fast enough":            {node: scored, gpus: "2", spec: `{"ringBusBandwidth":"300Gi"}`, want: "Insufficient Partitioned GPU Devices", refused: true},
		"an entry with NICs":             {node: scored, gpus: "2", spec: `{}`, joint: jointPCIe, used: []*Allocation{nics(100, 2)}, want: "gpu 6,7; rdma 4"},
		"no entry with NICs":             {node: scored, gpus: "2", spec: `{}`, joint: jointPCIe, used: []*Allocation{nics(100, 1, 2, 4)}, want: "Device Joint-Allocate rules violation", refused: true},
		"an entry with NICs if possible": {gpus: "2", joint: jointHint, used: []*Allocation{nics(100, 1, 2)}, want: "gpu 4,5; rdma 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			resources := list(nvidiaName, tt.gpus)
			var annotations []string
			if tt.spec != "" {
				annotations = append(annotations, "gpu-partition-spec", tt.spec)
			}
			if tt.joint != "" {
				resources = list(nvidiaName, tt.gpus, rdmaName, "1")
				annotations = append(annotations, "device-joint-allocate", tt.joint)
			}
			node := tt.node
			if node == nil {
				node = h800
			}
			check(t, inUse(node().state(t), tt.used...), parse(t, makePod(resources, annotations...)), Options{}, tt.want, tt.refused)
		})
	}
}

func TestNICCounts(t *testing.T) {
	node := func() *deviceObject {
		d := makeDevice()
		for minor := range int32(5) {
			d.nic(minor+1, -1, "").Labels = map[string]string{"type": map[bool]string{true: "fakeS", false: "fakeW"}[minor == 2]}
		}
		return d
	}
	tests := map[string]struct {
		rdma, hint string
		used       []*Allocation
		want       string
		refused    bool
	}{
		"D33a: one whole NIC":              {rdma: "100", want: "rdma 1@100"},
		"two whole NICs":                   {rdma: "200", want: "rdma 1@100,2@100"},
		"D33b: a share of all that match":  {rdma: "1", hint: `{"rdma":{"allocateStrategy":"ApplyForAll","selector":{"matchLabels":{"type":"fakeW"}}}}`, want: "rdma 1,2,4,5"},
		"one of all that match is used up": {rdma: "1", hint: `{"rdma":{"allocateStrategy":"ApplyForAll"}}`, used: []*Allocation{nics(100, 3)}, want: "all that match requested", refused: true},
		"none matches":                     {rdma: "1", hint: `{"rdma":{"allocateStrategy":"ApplyForAll","selector":{"matchLabels":{"type":"other"}}}}`, want: "Insufficient rdma devices", refused: true},
		"as many NICs as the number":       {rdma: "3", hint: `{"rdma":{"allocateStrategy":"RequestsAsCount"}}`, want: "rdma 1,2,3"},
		"as many whole NICs as the number": {rdma: "3", hint: `{"rdma":{"allocateStrategy":"RequestsAsCount","exclusivePolicy":"DeviceLevel"}}`, used: []*Allocation{nics(1, 2)}, want: "rdma 1@100,3@100,4@100"},
		"a NIC that matches":               {rdma: "100", hint: `{"rdma":{"selector":{"matchLabels":{"type":"fakeS"}}}}`, want: "rdma 3@100"},
		"more than any node has":           {rdma: "100000000000", want: "Insufficient rdma devices: 1000000000 requested", refused: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := makePod(list(rdmaName, tt.rdma))
			if tt.hint != "" {
				pod = makePod(list(rdmaName, tt.rdma), "device-allocate-hint", tt.hint)
			}
			check(t, inUse(node().state(t), tt.used...), parse(t, pod), Options{}, tt.want, tt.refused)
		})
	}
}

func TestFPGACounts(t *testing.T) {
	d := makeDevice()
	for minor := range int32(3) {
		d.add(v1alpha1.FPGA, minor, -1, "", list(fpgaName, "100"))
	}
	check(t, d.state(t), parse(t, makePod(list(fpgaName, "200"))), Options{}, "fpga 0,1", false)
	check(t, d.state(t), parse(t, makePod(list(fpgaName, "50"))), Options{}, "fpga 0", false)
	whole := makePod(list(fpgaName, "2"), "device-allocate-hint", `{"fpga":{"allocateStrategy":"RequestsAsCount","exclusivePolicy":"DeviceLevel"}}`)
	a, _ := Allocate(d.state(t), parse(t, whole), Options{})
	if diff := cmp.Diff([]int64{100, 100}, []int64{a[FPGA][0].Amounts[FPGAShare], a[FPGA][1].Amounts[FPGAShare]}); diff != "" {
		t.Errorf("allocation with two FPGAs that are not shared (-want +got):\n%s", diff)
	}
}

func TestChoiceAndHealth(t *testing.T) {
	half := parse(t, makePod(list(koordGPU, "50")))
	node := func(unhealthy ...int32) *State {
		d := makeDevice()
		for minor := range int32(4) {
			d.gpu(minor+1, -1, "")
		}
		for _, minor := range unhealthy {
			d.Spec.Devices[minor-1].Health = false
		}
		return d.state(t)
	}
	t.Run("D34a: the least used", func(t *testing.T) {
		check(t, inUse(node(), part(50, 1), part(50, 2)), half, Options{Strategy: LeastAllocated{DefaultWeights}}, "gpu 3@50", false)
	})
	t.Run("the most used that has room", func(t *testing.T) {
		check(t, inUse(node(), part(50, 1), part(60, 2), part(50, 4)), half, Options{Strategy: MostAllocated{DefaultWeights}}, "gpu 1@50", false)
	})
	t.Run("D35: not the unhealthy", func(t *testing.T) {
		check(t, node(1), half, Options{}, "gpu 2@50", false)
	})
	t.Run("D36b: over-booked, and what may be preempted is not enough", func(t *testing.T) {
		s := inUse(node(2, 3, 4), whole(1), whole(1)).Without(whole(1))
		check(t, s, half, Options{}, "Insufficient gpu devices", true)
	})
	t.Run("the sum of several victims is enough", func(t *testing.T) {
		s := inUse(node(2, 3, 4), part(60, 1), part(40, 1))
		check(t, s.Without(part(40, 1)), half, Options{}, "Insufficient gpu devices", true)
		check(t, s.Without(part(60, 1)), half, Options{}, "gpu 1@50", false)
	})
}

func TestScores(t *testing.T) {
	ratioOnly := Weights{MemoryRatio: 1}
	node := makeDevice()
	node.gpu(0, -1, "")
	empty := node.state(t)
	two := makeDevice()
	two.gpu(0, -1, "")
	two.gpu(1, -1, "")
	two.nic(0, -1, "")
	tests := map[string]struct {
		strategy Strategy
		before   *State
		taken    *Allocation
		want     float64
	}{
		"D37a: least, half of an unused device":     {LeastAllocated{ratioOnly}, empty, part(50, 0), 50},
		"D37c: least, a part of a half used device": {LeastAllocated{ratioOnly}, empty.With(part(50, 0)), part(30, 0), 20},
		"most is what least is not":                 {MostAllocated{ratioOnly}, empty.With(part(50, 0)), part(30, 0), 80},
		"all devices that are taken count":          {MostAllocated{ratioOnly}, two.state(t), whole(0, 1), 100},
		"only resources that are asked for count":   {MostAllocated{DefaultWeights}, two.state(t).With(whole(0)), nics(10, 0), 10},
		"what is over-booked is used, no more":      {MostAllocated{ratioOnly}, inUse(two.state(t), whole(0), whole(0), part(50, 1)), part(50, 1), 100},
		"types count the same": {MostAllocated{DefaultWeights}, two.state(t),
			&Allocation{GPU: whole(0)[GPU], RDMA: nics(10, 0)[RDMA]}, 30},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.strategy.NodeScore(tt.before, tt.before.With(tt.taken)); got != tt.want {
				t.Errorf("the score of the node is %v, want %v", got, tt.want)
			}
		})
	}
}
