// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

func TestRefusals(t *testing.T) {
	gpus := func(n string, hint string) *Request {
		return parse(t, makePod(list(nvidiaName, n), "device-allocate-hint", hint))
	}
	joint := func(gpus, rdma string) *Request {
		return parse(t, makePod(list(nvidiaName, gpus, rdmaName, rdma), "device-joint-allocate", jointPCIe))
	}
	half := parse(t, makePod(list(koordGPU, "50")))
	unhealthy := nodeA()
	unhealthy.Spec.Devices[0].Health = false
	isolated := nodeA()
	isolated.Labels[v1alpha1.GPUIsolationProviderLabel] = "HAMi-core"
	bare := makeDevice()
	bare.gpu(0, -1, "")
	bare.gpu(1, -1, "")
	many := makeDevice()
	for minor := range int32(72) {
		many.gpu(minor, -1, "")
	}
	crowded, err := NewInventory(&many.Device, nil, InventoryOptions{})
	if err == nil {
		t.Error("72 GPUs are no error")
	}
	node := nodeA().state(t)
	tests := map[string]struct {
		state   *State
		request *Request
		o       Options
		want    Refusal
	}{
		"the node has more than are used": {NewState(crowded), gpus("65", ""), Options{},
			Refusal{"Insufficient gpu devices: 65 requested, 64 of 64 GPUs free, 8 ignored beyond the limit of 64 for a Device object", true}},
		"others have the GPUs": {node.With(whole(0, 1, 2, 3, 4)), gpus("4", ""), Options{},
			Refusal{"Insufficient gpu devices: 4 requested, 3 of 8 GPUs free, 5 without room", false}},
		"the node has fewer": {node.With(whole(0)), gpus("9", ""), Options{},
			Refusal{"Insufficient gpu devices: 9 requested, 7 of 8 GPUs free, 1 without room", true}},
		"one is unhealthy": {unhealthy.state(t), gpus("8", ""), Options{},
			Refusal{"Insufficient gpu devices: 8 requested, 7 of 8 GPUs free, 1 unhealthy", true}},
		"no NIC beside free GPUs": {inUse(node, whole(0, 1, 2, 3, 4), nics(100, 3, 4)), joint("2", "1"), Options{},
			Refusal{"Device Joint-Allocate rules violation: 3 GPUs free, none with an RDMA NIC on the same PCIe switch", false}},
		"too few GPUs have a NIC beside them": {inUse(node, whole(0, 1, 2), nics(100, 3, 4)), joint("2", "1"), Options{},
			Refusal{"Device Joint-Allocate rules violation: 5 GPUs free, only 1 with an RDMA NIC on the same PCIe switch, 2 requested", false}},
		"too few NICs beside any GPUs": {node, joint("2", "300"), Options{},
			Refusal{"Device Joint-Allocate rules violation: 8 GPUs free, no 2 with all requested devices on the same PCIe switches and in one Node", true}},
		"no NUMA node has as many": {node.With(whole(1, 5)), gpus("4", `{"gpu":{"requiredTopologyScope":"NUMANode"}}`), Options{},
			Refusal{"Insufficient Topology Scoped GPU Devices: 4 requested in one NUMANode, 6 GPUs free, at most 3 in one", false}},
		"no PCIe root is as large": {node, gpus("4", `{"gpu":{"requiredTopologyScope":"PCIe"}}`), Options{},
			Refusal{"Insufficient Topology Scoped GPU Devices: 4 requested in one PCIe, 8 GPUs free, at most 2 in one", true}},
		"nobody knows the topology": {bare.state(t), gpus("2", `{"gpu":{"requiredTopologyScope":"PCIe"}}`), Options{},
			Refusal{"node(s) missing GPU Device Topology Tree: 2 GPUs free, requested in one PCIe, which the Device object does not report", true}},
		"other NUMA nodes have some": {node, gpus("8", ""), Options{NUMANodes: []int{1}},
			Refusal{"Insufficient NUMA Scoped Devices: 8 requested, 4 of 8 GPUs free, 4 on other NUMA nodes", true}},
		"no GPU beside a NIC": {node.With(whole(2, 3, 4, 5, 6, 7)), parse(t, makePod(list(nvidiaName, "2", rdmaName, "300"), "device-joint-allocate",
			`{"deviceTypes":["rdma","gpu"],"requiredScope":"SamePCIe"}`)), Options{},
			Refusal{"Device Joint-Allocate rules violation: 4 RDMA NICs free, only 1 with a GPU on the same PCIe switch, 3 requested", false}},
		"no NUMA node has all": {node, parse(t, makePod(list(rdmaName, "1"), "device-allocate-hint", `{"rdma":{"allocateStrategy":"ApplyForAll","requiredTopologyScope":"NUMANode"}}`)), Options{},
			Refusal{"Insufficient Topology Scoped rdma devices: all that match requested in one NUMANode, 4 RDMA NICs free, at most 2 in one", true}},
		"shares that are not kept apart": {isolated.state(t), half, Options{},
			Refusal{`GPU isolation provider is "HAMi-core", the pod requests ""`, true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, refusal := Allocate(tt.state, tt.request, tt.o)
			if refusal == nil {
				t.Fatalf("allocated %s", text(a))
			}
			if diff := cmp.Diff(tt.want, *refusal); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("whole GPUs need no isolation", func(t *testing.T) {
		check(t, isolated.state(t), parse(t, makePod(list(memoryName, gpuMemory))), Options{}, "gpu 0", false)
		check(t, isolated.state(t), gpus("1", ""), Options{}, "gpu 0", false)
	})
}

// TestRequestsThatAreRejected, and more than case D32 has. That no eviction helps such pods is told by the plugin (TestAPodThatAsksForWhatCannotBeIsRefusedForGood).
func TestRequestsThatAreRejected(t *testing.T) {
	hint := func(text string) *v1.Pod {
		return makePod(list(nvidiaName, "2", rdmaName, "1"), "device-allocate-hint", text)
	}
	tests := map[string]struct {
		pod *v1.Pod
		// want is in the error, beside the pod's name.
		want string
	}{
		"core 101":                           {makePod(list(coreName, "101", memoryName, "1")), coreName + ": is 101"},
		"core alone":                         {makePod(list(coreName, "100")), "cannot be requested together"},
		"gpu 101":                            {makePod(list(koordGPU, "101")), koordGPU + ": is 101"},
		"core 100, ratio 101":                {makePod(list(coreName, "100", ratioName, "101")), ratioName + ": is 101"},
		"all kinds of GPUs":                  {makePod(list(nvidiaName, "1", koordGPU, "100", coreName, "100", ratioName, "100", memoryName, "1")), nvidiaName + ", " + koordGPU},
		"ratio 101, shared 1":                {makePod(list(ratioName, "101", sharedName, "1")), ratioName + ": is 101 over 1 GPUs"},
		"ratio 101, shared 2":                {makePod(list(ratioName, "101", sharedName, "2")), ratioName + ": is 101 over 2 GPUs"},
		"core 101, memory, shared 1":         {makePod(list(coreName, "101", memoryName, "1", sharedName, "1")), coreName + ": is 101 over 1 GPUs"},
		"core 101, memory, shared 2":         {makePod(list(coreName, "101", memoryName, "1", sharedName, "2")), coreName + ": is 101 over 2 GPUs"},
		"npu-core, memory without shared":    {makePod(list(npuCoreName, "1", memoryName, "1")), npuCoreName},
		"shared 2, template":                 {makePod(list(sharedName, "2", npuCoreName, "1", npuCPUName, "1", memoryName, "1")), sharedName + " is 2"},
		"shared 1, template without npu-cpu": {makePod(list(sharedName, "1", npuCoreName, "1", memoryName, "1")), npuCoreName},
		"dvpp 101":                           {makePod(list(sharedName, "1", npuCoreName, "1", npuCPUName, "1", npuDVPPName, "101", memoryName, "1")), npuDVPPName + " is 101"},
		"fpga 201":                           {makePod(list(fpgaName, "201")), fpgaName + ": is 201"},
		"rdma 201":                           {makePod(list(rdmaName, "201")), rdmaName + ": is 201"},
		"shared 0":                           {makePod(list(sharedName, "0", coreName, "100", ratioName, "100")), sharedName + ": is 0"},
		"shared 0 alone":                     {makePod(list(sharedName, "0")), sharedName + ": is 0"},
		"shared alone":                       {makePod(list(sharedName, "1")), sharedName},
		"ratio 100 for cores of two":         {makePod(list(coreName, "200", ratioName, "100")), coreName},
		"a part of one":                      {makePod(list(nvidiaName, "500m")), "whole number"},
		"less than none":                     {makePod(list(nvidiaName, "-1")), "whole number"},
		"more than can be counted":           {makePod(list(nvidiaName, "9223372036854775807")), "at most"},
		"more than can be counted, together": {twice(makePod(list(memoryName, "140737488355327"))), "all together at most"},
		"a hint that is no JSON":             {hint(`{`), "device-allocate-hint"},
		"a hint for no type":                 {hint(`{"tpu":{}}`), `unknown type "tpu"`},
		"an unknown strategy":                {hint(`{"rdma":{"allocateStrategy":"Some"}}`), `allocateStrategy is "Some"`},
		"a strategy for GPUs":                {hint(`{"gpu":{"allocateStrategy":"ApplyForAll"}}`), "gpu: allocateStrategy"},
		"an unknown scope":                   {hint(`{"gpu":{"requiredTopologyScope":"Socket"}}`), `requiredTopologyScope is "Socket"`},
		"two GPUs on one device":             {hint(`{"gpu":{"requiredTopologyScope":"Device"}}`), "2 devices are requested"},
		"an unknown policy":                  {hint(`{"gpu":{"exclusivePolicy":"All"}}`), `exclusivePolicy is "All"`},
		"a selector that selects nothing":    {hint(`{"gpu":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`), "gpu: selector"},
		"joint types that are none":          {makePod(list(nvidiaName, "1"), "device-joint-allocate", `{"deviceTypes":["gpu","nvme"]}`), `deviceTypes has "nvme"`},
		"an unknown joint scope":             {makePod(list(nvidiaName, "1"), "device-joint-allocate", `{"requiredScope":"SameNUMA"}`), `requiredScope is "SameNUMA"`},
		"a partition that is no JSON":        {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `[]`), "gpu-partition-spec"},
		"an unknown partition policy":        {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `{"allocatePolicy":"Maybe"}`), `allocatePolicy is "Maybe"`},
		"half a byte of a ring":              {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `{"ringBusBandwidth":"500m"}`), "ringBusBandwidth is 500m"},
		"a long annotation":                  {hint(strings.Repeat("x", 100000)), "device-allocate-hint"},
		"a selector of many labels":          {hint(`{"gpu":{"selector":{"matchLabels":{` + strings.Join(manyOf(`"k%d":"v"`, 65), ",") + `}}}}`), "gpu: selector: has 65 requirements"},
		"a selector of many expressions":     {hint(`{"rdma":{"vfSelector":{"matchExpressions":[` + strings.Join(manyOf(`{"key":"k%d","operator":"Exists"}`, 5000), ",") + `]}}}`), "rdma: vfSelector: has 5000 requirements"},
		"a selector of many values":          {hint(`{"gpu":{"selector":{"matchExpressions":[{"key":"k","operator":"In","values":[` + strings.Join(manyOf(`"v%d"`, 10000), ",") + `]}]}}}`), "gpu: selector: has 10000 values"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(tt.pod, RequestOptions{})
			if err == nil || !strings.Contains(err.Error(), "ns/p") || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with ns/p and %q", err, tt.want)
			}
			if len(err.Error()) > 2048 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestRecheck(t *testing.T) {
	request := parse(t, makePod(list(nvidiaName, "2", rdmaName, "1"), "device-joint-allocate", jointHint, "device-allocate-hint", vfHint))
	a, refusal := Allocate(nodeA().state(t), request, Options{})
	if refusal != nil {
		t.Fatal(refusal.Reason)
	}
	tests := map[string]struct {
		change func(d *deviceObject)
		others *Allocation
		want   string
	}{
		"nothing changed":              {},
		"a GPU turned unhealthy":       {change: func(d *deviceObject) { d.Spec.Devices[1].Health = false }, want: "device gpu 1 (gpu-1) is unhealthy"},
		"another GPU turned unhealthy": {change: func(d *deviceObject) { d.Spec.Devices[2].Health = false }},
		"the NIC went away":            {change: func(d *deviceObject) { d.Spec.Devices = d.Spec.Devices[:8] }, want: "device rdma 1 is no longer in the Device object"},
		"a GPU was exchanged":          {change: func(d *deviceObject) { d.Spec.Devices[0].UUID = "new" }, want: "device gpu 0 was replaced by another device (new, was gpu-0)"},
		"a GPU has less than before": {change: func(d *deviceObject) {
			d.Spec.Devices[0].Resources = list(coreName, "100", ratioName, "50", memoryName, gpuMemory)
		}, want: "device gpu 0 (gpu-0) is overcommitted: koordinator.sh/gpu-memory-ratio 100 of 50 is in use"},
		"the virtual function went away": {change: func(d *deviceObject) { d.Spec.Devices[8].VFGroups = nil }, want: "device rdma 1 (rdma-1) no longer has virtual function 0000:1f:00.2"},
		"another pod has the GPU":        {others: part(10, 1), want: "device gpu 1 (gpu-1) is overcommitted: koordinator.sh/gpu-core 110 of 100 is in use"},
		"another pod has the function":   {others: vf(1, "0000:1f:00.2"), want: "device rdma 1 (rdma-1) has virtual function 0000:1f:00.2 in use by another pod"},
		"another pod has other devices":  {others: &Allocation{GPU: whole(2)[GPU], RDMA: vf(1, "0000:1f:00.3")[RDMA]}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := nodeA()
			if tt.change != nil {
				tt.change(d)
			}
			err := d.state(t).With(a).With(tt.others).Recheck(request, a)
			if got := errorText(err); got != tt.want {
				t.Errorf("recheck: %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRecheckOfTheRequest: devices that are all there, but are not where or what the request wants.
func TestRecheckOfTheRequest(t *testing.T) {
	two := list(nvidiaName, "2", rdmaName, "1")
	blue := map[string]string{"color": "blue"}
	tests := map[string]struct {
		annotations []string
		change      func(d *deviceObject)
		want        string
	}{
		"the NIC is on another PCIe root": {[]string{"device-joint-allocate", jointPCIe}, func(d *deviceObject) { d.Spec.Devices[8].Topology.PCIEID = "pcie3" },
			"none with an RDMA NIC on the same PCIe switch"},
		"a GPU is on another PCIe root": {[]string{"device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`}, func(d *deviceObject) { d.Spec.Devices[1].Topology.PCIEID = "pcie3" },
			"2 requested in one PCIe"},
		"a label is another": {[]string{"device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"color":"blue"}}}}`}, func(d *deviceObject) { d.Spec.Devices[0].Labels = nil },
			"a device of type gpu is not selected by the request"},
		"a label of its virtual function is another": {[]string{"device-allocate-hint", `{"rdma":{"vfSelector":{"matchLabels":{"color":"blue"}}}}`},
			func(d *deviceObject) { d.Spec.Devices[8].VFGroups[0].Labels = nil }, "virtual function"},
		"the partition is gone": {[]string{"gpu-partition-spec", "{}"}, func(d *deviceObject) { d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,2]}]}` },
			"none of the 1 partitions of 2 fits"},
		"GPUs of two PCIe roots are on one, and a NIC is left over": {[]string{"device-joint-allocate", jointPCIe, "device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"far":"apart"}}}}`},
			func(d *deviceObject) { d.Spec.Devices[4].Topology = d.Spec.Devices[3].Topology }, "devices are no longer on the same PCIe switches"},
		"the NIC is elsewhere, which may be": {[]string{"device-joint-allocate", jointHint}, func(d *deviceObject) { d.Spec.Devices[8].Topology.PCIEID = "pcie3" }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := nodeA()
			d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,1]}]}`
			for _, labelled := range []int{0, 1} {
				d.Spec.Devices[labelled].Labels = blue
			}
			for _, far := range []int{3, 4} {
				d.Spec.Devices[far].Labels = map[string]string{"far": "apart"}
			}
			d.Spec.Devices[8].VFGroups[0].Labels = blue
			request := parse(t, makePod(two, tt.annotations...))
			a, refusal := Allocate(d.state(t), request, Options{})
			if refusal != nil {
				t.Fatal(refusal.Reason)
			}
			if err := d.state(t).With(a).Recheck(request, a); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tt.change(d)
			err := d.state(t).With(a).Recheck(request, a)
			if got := errorText(err); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("recheck: %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBadDeviceObjects(t *testing.T) {
	tests := map[string]struct {
		build func(d *deviceObject)
		gpus  string
		want  string
	}{
		"a minor twice": {
			build: func(d *deviceObject) { d.gpu(0, -1, ""); d.gpu(1, -1, ""); d.gpu(1, -1, ""); d.gpu(1, 0, "") },
			gpus:  "0", want: "gpu 1: is listed 3 times",
		},
		"no minor": {
			build: func(d *deviceObject) { d.gpu(0, -1, "").Minor = nil; d.gpu(1, -1, "") },
			gpus:  "1", want: "has no minor number",
		},
		"a minor below 0": {
			build: func(d *deviceObject) { d.gpu(math.MinInt32, -1, ""); d.gpu(math.MaxInt32, -1, "") },
			gpus:  "2147483647", want: "has no minor number",
		},
		"an unknown type": {
			build: func(d *deviceObject) { d.add("tpu", 0, -1, "", nil); d.gpu(1, -1, "") },
			gpus:  "1", want: `unknown type "tpu"`,
		},
		"a negative amount": {
			build: func(d *deviceObject) {
				d.gpu(0, -1, "").Resources = list(coreName, "-5", ratioName, "100")
				d.gpu(1, -1, "")
			},
			gpus: "1", want: "gpu 0: resource " + coreName + " is -5",
		},
		"an amount that cannot be counted": {
			build: func(d *deviceObject) { d.gpu(0, -1, "").Resources = list(memoryName, "9Ei"); d.gpu(1, -1, "") },
			gpus:  "1", want: "gpu 0: resource " + memoryName,
		},
		"too many devices": {
			build: func(d *deviceObject) {
				for minor := range int32(10000) {
					d.nic(minor, 0, fmt.Sprint(minor))
				}
				d.gpu(0, -1, "")
			},
			gpus: "0", want: "10000 devices of type rdma, must be at most 64",
		},
		"too many virtual functions": {
			build: func(d *deviceObject) {
				d.gpu(0, -1, "")
				d.nic(0, -1, "").VFGroups = []v1alpha1.VirtualFunctionGroup{{VFs: make([]v1alpha1.VirtualFunction, 10000)}}
			},
			gpus: "0", want: "rdma 0: has 10000 virtual functions",
		},
		"partitions that are no JSON": {
			build: func(d *deviceObject) { d.gpu(0, -1, ""); d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"1":` },
			gpus:  "0", want: v1alpha1.GPUPartitionsAnnotation,
		},
		"partitions of the wrong size": {
			build: func(d *deviceObject) {
				d.gpu(0, -1, "")
				d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,0]},{"minors":[0,1,2]}],"x":[],"-1":[]}`
			},
			gpus: "0", want: "a partition of 2 has 1 different minors",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := makeDevice()
			tt.build(d)
			i, err := NewInventory(&d.Device, nil, InventoryOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "device n1: ") || len(err.Error()) > 2048 {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			// What is left is of use: each GPU can be had, and no other.
			var got []string
			s := NewState(i)
			for {
				a, _ := Allocate(s, parse(t, makePod(list(ratioName, "100"))), Options{})
				if a == nil {
					break
				}
				got = append(got, fmt.Sprint(a[GPU][0].Minor))
				s = s.With(a)
			}
			if diff := cmp.Diff(tt.gpus, strings.Join(got, ",")); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"[1]":                                 "not resources by template",
		"a-b: {c: {huawei.com/npu-core: -1}}": "a-b: c: resource huawei.com/npu-core is -1",
	} {
		if _, err := ParseTemplates(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("templates %q: error %v, want %q", text, err, want)
		}
	}
}
