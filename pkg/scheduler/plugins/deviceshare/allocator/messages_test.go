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
		t.Error("an inventory of 72 GPUs has no error")
	}
	node := nodeA().state(t)
	partitioned := func(table string) *State {
		d := nodeA()
		if table != "" {
			d.Annotations[v1alpha1.GPUPartitionsAnnotation] = table
		}
		return d.state(t)
	}
	inPartition := parse(t, makePod(list(nvidiaName, "2"), "gpu-partition-spec", `{"allocatePolicy":"Restricted"}`))
	one := makeDevice()
	one.nic(1, -1, "").VFGroups = []v1alpha1.VirtualFunctionGroup{{VFs: []v1alpha1.VirtualFunction{{BusID: "0000:1f:00.2"}}}}
	withVF := parse(t, makePod(list(rdmaName, "1"), "device-allocate-hint", vfHint))
	alone := parse(t, makePod(list(rdmaName, "1"), "device-allocate-hint", `{"rdma":{"exclusivePolicy":"DeviceLevel"}}`))
	labelled := parse(t, makePod(list(nvidiaName, "1"), "device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"color":"blue"}}}}`))
	tests := map[string]struct {
		state   *State
		request *Request
		o       Options
		want    Refusal
	}{
		"the node has more than are used": {NewState(crowded), gpus("65", ""), Options{},
			Refusal{"Insufficient gpu devices: 65 requested, 64 of 64 GPUs free, 8 ignored because a Device object may list at most 64", true}},
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
			Refusal{"Device Joint-Allocate rules violation: 8 GPUs free, no 2 with all requested devices on the same PCIe switches", true}},
		"no NUMA node has as many": {node.With(whole(1, 5)), gpus("4", `{"gpu":{"requiredTopologyScope":"NUMANode"}}`), Options{},
			Refusal{"Insufficient Topology Scoped GPU Devices: 4 requested on one NUMA node, 6 GPUs free, at most 3 on one", false}},
		"no PCIe root is as large": {node, gpus("4", `{"gpu":{"requiredTopologyScope":"PCIe"}}`), Options{},
			Refusal{"Insufficient Topology Scoped GPU Devices: 4 requested on one PCIe switch, 8 GPUs free, at most 2 on one", true}},
		"the topology is unknown": {bare.state(t), gpus("2", `{"gpu":{"requiredTopologyScope":"PCIe"}}`), Options{},
			Refusal{"node(s) missing GPU Device Topology Tree: 2 GPUs free, requested on one PCIe switch, which the Device object does not report", true}},
		"other NUMA nodes have some": {node, gpus("8", ""), Options{NUMANodes: []int{1}},
			Refusal{"Insufficient NUMA Scoped Devices: 8 requested, 4 of 8 GPUs free, 4 on other NUMA nodes", true}},
		"no GPU beside a NIC": {node.With(whole(2, 3, 4, 5, 6, 7)), parse(t, makePod(list(nvidiaName, "2", rdmaName, "300"), "device-joint-allocate",
			`{"deviceTypes":["rdma","gpu"],"requiredScope":"SamePCIe"}`)), Options{},
			Refusal{"Device Joint-Allocate rules violation: 4 RDMA NICs free, only 1 with a GPU on the same PCIe switch, 3 requested", false}},
		"no NUMA node has all": {node, parse(t, makePod(list(rdmaName, "1"), "device-allocate-hint", `{"rdma":{"allocateStrategy":"ApplyForAll","requiredTopologyScope":"NUMANode"}}`)), Options{},
			Refusal{"Insufficient Topology Scoped rdma devices: all that match requested on one NUMA node, 4 RDMA NICs free, at most 2 on one", true}},
		"no partition table":                  {partitioned(""), inPartition, Options{}, Refusal{"node(s) missing GPU Partition Table: GPUs are allocated by partition only", true}},
		"no partition of two":                 {partitioned(`{"1":[{"minors":[0]}]}`), inPartition, Options{}, Refusal{"node(s) Unsupported number of GPU requests: the partition table has no partition of 2", true}},
		"the only partition of two is in use": {partitioned(`{"2":[{"minors":[0,1]}]}`).With(whole(1)), inPartition, Options{}, Refusal{"Insufficient Partitioned GPU Devices: 7 GPUs free, no partition of 2 fits", false}},
		"no virtual functions are left":       {one.state(t).With(vf(1, "0000:1f:00.2")), withVF, Options{}, Refusal{"Insufficient rdma VirtualFunctions: 1 requested, 0 of 1 RDMA NIC free, 1 without a virtual function", false}},
		"other pods use the NICs":             {inUse(node, nics(1, 1, 2, 3, 4)), alone, Options{}, Refusal{"Insufficient rdma devices: 1 requested, 0 of 4 RDMA NICs free, 4 used by or reserved for other pods", false}},
		"no GPU is selected":                  {node, labelled, Options{}, Refusal{"Insufficient gpu devices: 1 requested, 0 of 8 GPUs free, 8 not selected", true}},
		"shares that are not kept apart": {isolated.state(t), half, Options{},
			Refusal{`GPU isolation provider is "HAMi-core", the pod requests ""`, true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, refusal := Allocate(tt.state, tt.request, tt.o)
			if refusal == nil {
				t.Fatalf("allocated %s, want a refusal", text(a))
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

// TestRefusalsOfMembersTogether has the refusals of several members that are placed on one node together.
func TestRefusalsOfMembersTogether(t *testing.T) {
	gpus := func(n string) *Request { return parse(t, makePod(list(nvidiaName, n))) }
	node := nodeA().state(t)
	tests := map[string]struct {
		state    *State
		requests []*Request
		want     Refusal
	}{
		"each alone has room":                  {node.With(whole(0)), []*Request{gpus("4"), gpus("4")}, Refusal{"Insufficient gpu devices for 2 members together, but enough for each alone", false}},
		"each alone has room on an empty node": {node, []*Request{gpus("8"), gpus("8")}, Refusal{"Insufficient gpu devices for 2 members together, but enough for each alone", true}},
		"one of them has no room":              {node.With(whole(0)), []*Request{gpus("1"), gpus("8")}, Refusal{"Insufficient gpu devices: 8 requested, 7 of 8 GPUs free, 1 without room", true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, refusal := AllocateTogether(tt.state, tt.requests, Options{})
			if refusal == nil {
				t.Fatal("allocated devices, want a refusal")
			}
			if diff := cmp.Diff(tt.want, *refusal); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBadAllocations has the errors of ParseAllocation for annotations that list a pod's devices.
func TestBadAllocations(t *testing.T) {
	const (
		annotation = "annotation scheduling.koordinator.sh/device-allocated: "
		noDevice   = `, must be a JSON object such as {"minor":0}`
	)
	tests := map[string]string{
		`[]`:          annotation + `invalid value "[]", must be a JSON object such as {"gpu":[{"minor":0}]}`,
		`{"rdma":{}}`: annotation + `rdma: "{}" is not a list of devices`,
		`{"gpu":[7]}`: annotation + `gpu[0]: invalid value "7"` + noDevice,
		`{"gpu":[{"minor":0},{"minor":0},{"minor":0}]}`:                        annotation + `gpu 0: is listed 3 times, must be once`,
		`{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"1e30"}}]}`: annotation + `gpu[0]: resource koordinator.sh/gpu-core: 1e30 is not a whole number of at most 140737488355327`,
		`{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"-1"}}]}`: annotation + `gpu[0]: resource koordinator.sh/gpu-memory: -1 is not a whole number of at most 140737488355327`,
		`{"gpu":[1,2,3,4,5,6]}`: annotation + `gpu[0]: invalid value "1"` + noDevice + "\n" + `gpu[1]: invalid value "2"` + noDevice + "\n" + `gpu[2]: invalid value "3"` + noDevice + "\n" + `gpu[3]: invalid value "4"` + noDevice + "\nand 2 more",
	}
	for text, want := range tests {
		if _, err := ParseAllocation(text); errorText(err) != want {
			t.Errorf("%s: error\n%s\nwant\n%s", text, errorText(err), want)
		}
	}
}

// TestRequestsThatAreRejected has the errors of invalid requests, with those of Koordinator's case D32.
// TestAPodThatAsksForWhatCannotBeIsRefusedForGood checks that no pods are evicted for them.
func TestRequestsThatAreRejected(t *testing.T) {
	const combination = "not a valid combination; request GPUs by nvidia.com/gpu alone, by koordinator.sh/gpu alone, or by koordinator.sh/gpu-core, " +
		"koordinator.sh/gpu-memory-ratio or koordinator.sh/gpu-core, koordinator.sh/gpu-memory, optionally with koordinator.sh/gpu.shared"
	hint := func(text string) *v1.Pod {
		return makePod(list(nvidiaName, "2", rdmaName, "1"), "device-allocate-hint", text)
	}
	tests := map[string]struct {
		pod *v1.Pod
		// want is the error after the pod's name.
		want string
	}{
		"core 101":                            {makePod(list(coreName, "101", memoryName, "1")), "resource koordinator.sh/gpu-core: is 101, must be at most 100 or a multiple of 100"},
		"core alone":                          {makePod(list(coreName, "100")), "resources koordinator.sh/gpu-core: " + combination},
		"gpu 101":                             {makePod(list(koordGPU, "101")), "resource koordinator.sh/gpu: is 101, must be at most 100 or a multiple of 100"},
		"core 100, ratio 101":                 {makePod(list(coreName, "100", ratioName, "101")), "resource koordinator.sh/gpu-memory-ratio: is 101, must be at most 100 or a multiple of 100"},
		"all kinds of GPUs":                   {makePod(list(nvidiaName, "1", koordGPU, "100", coreName, "100", ratioName, "100", memoryName, "1")), "resources nvidia.com/gpu, koordinator.sh/gpu, koordinator.sh/gpu-core, koordinator.sh/gpu-memory-ratio, koordinator.sh/gpu-memory: " + combination},
		"ratio 101, shared 1":                 {makePod(list(ratioName, "101", sharedName, "1")), "resource koordinator.sh/gpu-memory-ratio: is 101 for 1 GPU (koordinator.sh/gpu.shared); it must divide equally among the GPUs, at most 100 for each"},
		"ratio 101, shared 2":                 {makePod(list(ratioName, "101", sharedName, "2")), "resource koordinator.sh/gpu-memory-ratio: is 101 for 2 GPUs (koordinator.sh/gpu.shared); it must divide equally among the GPUs, at most 100 for each"},
		"core 101, memory, shared 1":          {makePod(list(coreName, "101", memoryName, "1", sharedName, "1")), "resource koordinator.sh/gpu-core: is 101 for 1 GPU (koordinator.sh/gpu.shared); it must divide equally among the GPUs, at most 100 for each"},
		"core 101, memory, shared 2":          {makePod(list(coreName, "101", memoryName, "1", sharedName, "2")), "resource koordinator.sh/gpu-core: is 101 for 2 GPUs (koordinator.sh/gpu.shared); it must divide equally among the GPUs, at most 100 for each"},
		"npu-core, memory without shared":     {makePod(list(npuCoreName, "1", memoryName, "1")), "resources koordinator.sh/gpu-memory, huawei.com/npu-core: " + combination},
		"shared 2, template":                  {makePod(list(sharedName, "2", npuCoreName, "1", npuCPUName, "1", memoryName, "1")), "resources koordinator.sh/gpu.shared, koordinator.sh/gpu-memory, huawei.com/npu-core, huawei.com/npu-cpu: koordinator.sh/gpu.shared is 2 and huawei.com/npu-dvpp is 0, must be 1 and at most 100"},
		"shared 1, template without npu-cpu":  {makePod(list(sharedName, "1", npuCoreName, "1", memoryName, "1")), "resources koordinator.sh/gpu.shared, koordinator.sh/gpu-memory, huawei.com/npu-core: " + combination},
		"dvpp 101":                            {makePod(list(sharedName, "1", npuCoreName, "1", npuCPUName, "1", npuDVPPName, "101", memoryName, "1")), "resources koordinator.sh/gpu.shared, koordinator.sh/gpu-memory, huawei.com/npu-core, huawei.com/npu-cpu, huawei.com/npu-dvpp: koordinator.sh/gpu.shared is 1 and huawei.com/npu-dvpp is 101, must be 1 and at most 100"},
		"fpga 201":                            {makePod(list(fpgaName, "201")), "resource koordinator.sh/fpga: is 201, must be at most 100 or a multiple of 100"},
		"rdma 201":                            {makePod(list(rdmaName, "201")), "resource koordinator.sh/rdma: is 201, must be at most 100 or a multiple of 100"},
		"shared 0":                            {makePod(list(sharedName, "0", coreName, "100", ratioName, "100")), "resource koordinator.sh/gpu.shared: is 0, must be the number of GPUs to share, at least 1"},
		"shared 0 alone":                      {makePod(list(sharedName, "0")), "resource koordinator.sh/gpu.shared: is 0, must be the number of GPUs to share, at least 1"},
		"shared alone":                        {makePod(list(sharedName, "1")), "resources koordinator.sh/gpu.shared: " + combination},
		"ratio 100 for cores of two":          {makePod(list(coreName, "200", ratioName, "100")), "resource koordinator.sh/gpu-core: is 200 for 1 GPU; it must divide equally among the GPUs, at most 100 for each"},
		"a part of one":                       {makePod(list(nvidiaName, "500m")), `resource nvidia.com/gpu: container "c" requests 500m, must be a whole number, and all together at most 140737488355327`},
		"less than none":                      {makePod(list(nvidiaName, "-1")), `resource nvidia.com/gpu: container "c" requests -1, must be a whole number, and all together at most 140737488355327`},
		"more than can be counted":            {makePod(list(nvidiaName, "9223372036854775807")), `resource nvidia.com/gpu: container "c" requests 9223372036854775807, must be a whole number, and all together at most 140737488355327`},
		"more than can be counted, together":  {twice(makePod(list(memoryName, "140737488355327"))), `resource koordinator.sh/gpu-memory: container "c" requests 140737488355327, must be a whole number, and all together at most 140737488355327`},
		"a hint that is no JSON":              {hint(`{`), `annotation scheduling.koordinator.sh/device-allocate-hint: invalid value "{", must be a JSON object such as {"rdma":{"allocateStrategy":"ApplyForAll"}}: unexpected end of JSON input`},
		"a hint for no type":                  {hint(`{"tpu":{}}`), `annotation scheduling.koordinator.sh/device-allocate-hint: unknown type "tpu", must be gpu, rdma or fpga`},
		"an unknown strategy":                 {hint(`{"rdma":{"allocateStrategy":"Some"}}`), `annotation scheduling.koordinator.sh/device-allocate-hint: rdma: allocateStrategy is "Some", must be ApplyForAll, RequestsAsCount or empty`},
		"a strategy for GPUs":                 {hint(`{"gpu":{"allocateStrategy":"ApplyForAll"}}`), `annotation scheduling.koordinator.sh/device-allocate-hint: gpu: allocateStrategy is "ApplyForAll", must be empty for GPUs: the pod's resources say how many`},
		"an unknown scope":                    {hint(`{"gpu":{"requiredTopologyScope":"Socket"}}`), `annotation scheduling.koordinator.sh/device-allocate-hint: gpu: requiredTopologyScope is "Socket", must be Device, PCIe, NUMANode, Node or empty`},
		"two GPUs on one device":              {hint(`{"gpu":{"requiredTopologyScope":"Device"}}`), "annotation scheduling.koordinator.sh/device-allocate-hint: gpu: requiredTopologyScope is Device, but 2 devices are requested; must be PCIe, NUMANode or Node"},
		"an unknown policy":                   {hint(`{"gpu":{"exclusivePolicy":"All"}}`), `annotation scheduling.koordinator.sh/device-allocate-hint: gpu: exclusivePolicy is "All", must be DeviceLevel, PCIeLevel or empty`},
		"a selector that selects nothing":     {hint(`{"gpu":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`), `annotation scheduling.koordinator.sh/device-allocate-hint: gpu: selector: "Near" is not a valid label selector operator`},
		"joint types that are none":           {makePod(list(nvidiaName, "1"), "device-joint-allocate", `{"deviceTypes":["gpu","nvme"]}`), `annotation scheduling.koordinator.sh/device-joint-allocate: deviceTypes has "nvme", must be of gpu, rdma and fpga`},
		"an unknown joint scope":              {makePod(list(nvidiaName, "1"), "device-joint-allocate", `{"requiredScope":"SameNUMA"}`), `annotation scheduling.koordinator.sh/device-joint-allocate: requiredScope is "SameNUMA", must be SamePCIe or empty`},
		"a partition that is no JSON":         {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `[]`), `annotation scheduling.koordinator.sh/gpu-partition-spec: invalid value "[]", must be a JSON object such as {"allocatePolicy":"Restricted"}`},
		"a partition policy that is a number": {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `{"allocatePolicy":1}`), `annotation scheduling.koordinator.sh/gpu-partition-spec: invalid value "{\"allocatePolicy\":1}", must be a JSON object such as {"allocatePolicy":"Restricted"}; field "allocatePolicy" has the wrong type (number)`},
		"a hint that is a list":               {hint(`[]`), `annotation scheduling.koordinator.sh/device-allocate-hint: invalid value "[]", must be a JSON object such as {"rdma":{"allocateStrategy":"ApplyForAll"}}`},
		"joint types that are a text":         {makePod(list(nvidiaName, "1"), "device-joint-allocate", `{"deviceTypes":"gpu"}`), `annotation scheduling.koordinator.sh/device-joint-allocate: invalid value "{\"deviceTypes\":\"gpu\"}", must be a JSON object such as {"deviceTypes":["gpu","rdma"]}; field "deviceTypes" has the wrong type (string)`},
		"an unknown partition policy":         {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `{"allocatePolicy":"Maybe"}`), `annotation scheduling.koordinator.sh/gpu-partition-spec: allocatePolicy is "Maybe", must be Restricted, BestEffort or empty`},
		"half a byte of a ring":               {makePod(list(nvidiaName, "1"), "gpu-partition-spec", `{"ringBusBandwidth":"500m"}`), "annotation scheduling.koordinator.sh/gpu-partition-spec: ringBusBandwidth is 500m, must be a whole number of bytes per second"},
		"a long annotation":                   {hint(strings.Repeat("x", 100000)), `annotation scheduling.koordinator.sh/device-allocate-hint: invalid value "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", must be a JSON object such as {"rdma":{"allocateStrategy":"ApplyForAll"}}: invalid character 'x' looking for beginning of value`},
		"a selector of many labels":           {hint(`{"gpu":{"selector":{"matchLabels":{` + strings.Join(manyOf(`"k%d":"v"`, 65), ",") + `}}}}`), "annotation scheduling.koordinator.sh/device-allocate-hint: gpu: selector: has 65 requirements, must be at most 64"},
		"a selector of many expressions":      {hint(`{"rdma":{"vfSelector":{"matchExpressions":[` + strings.Join(manyOf(`{"key":"k%d","operator":"Exists"}`, 5000), ",") + `]}}}`), "annotation scheduling.koordinator.sh/device-allocate-hint: rdma: vfSelector: has 5000 requirements, must be at most 64"},
		"a selector of many values":           {hint(`{"gpu":{"selector":{"matchExpressions":[{"key":"k","operator":"In","values":[` + strings.Join(manyOf(`"v%d"`, 10000), ",") + `]}]}}}`), "annotation scheduling.koordinator.sh/device-allocate-hint: gpu: selector: has 10000 values, must be at most 256"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(tt.pod, RequestOptions{})
			if got, want := errorText(err), "pod ns/p: "+tt.want; got != want {
				t.Fatalf("error %s\nwant  %s", got, want)
			}
			if len(err.Error()) > 2048 {
				t.Errorf("the error has %d bytes", len(err.Error()))
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

// TestRecheckOfTheRequest has the errors of devices that still exist, but no longer satisfy the request.
func TestRecheckOfTheRequest(t *testing.T) {
	const unsatisfied = "the pod's devices do not satisfy its request: "
	two := list(nvidiaName, "2", rdmaName, "1")
	blue := map[string]string{"color": "blue"}
	tests := map[string]struct {
		annotations []string
		change      func(d *deviceObject)
		want        string
	}{
		"the NIC is on another PCIe root": {[]string{"device-joint-allocate", jointPCIe}, func(d *deviceObject) { d.Spec.Devices[8].Topology.PCIEID = "pcie3" },
			unsatisfied + "Device Joint-Allocate rules violation: 2 GPUs free, none with an RDMA NIC on the same PCIe switch"},
		"a GPU is on another PCIe root": {[]string{"device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`}, func(d *deviceObject) { d.Spec.Devices[1].Topology.PCIEID = "pcie3" },
			unsatisfied + "Insufficient Topology Scoped GPU Devices: 2 requested on one PCIe switch, 2 GPUs free, at most 1 on one"},
		"a label is another": {[]string{"device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"color":"blue"}}}}`}, func(d *deviceObject) { d.Spec.Devices[0].Labels = nil },
			"a device of type gpu is not selected by the request"},
		"a label of its virtual function is another": {[]string{"device-allocate-hint", `{"rdma":{"vfSelector":{"matchLabels":{"color":"blue"}}}}`},
			func(d *deviceObject) { d.Spec.Devices[8].VFGroups[0].Labels = nil }, "device rdma 1 has virtual function 0000:1f:00.2, which the request no longer selects"},
		"the partition is gone": {[]string{"gpu-partition-spec", "{}"}, func(d *deviceObject) { d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,2]}]}` },
			unsatisfied + "Insufficient Partitioned GPU Devices: 2 GPUs free, no partition of 2 fits"},
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
			if got := errorText(err); got != tt.want {
				t.Errorf("recheck: %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBadDeviceObjects(t *testing.T) {
	const partitions = "annotation scheduling.koordinator.sh/gpu-partitions: "
	tests := map[string]struct {
		build func(d *deviceObject)
		gpus  string
		want  string
	}{
		"a minor twice": {
			build: func(d *deviceObject) { d.gpu(0, -1, ""); d.gpu(1, -1, ""); d.gpu(1, -1, ""); d.gpu(1, 0, "") },
			gpus:  "0", want: "gpu 1: is listed 3 times, must be once",
		},
		"no minor": {
			build: func(d *deviceObject) { d.gpu(0, -1, "").Minor = nil; d.gpu(1, -1, "") },
			gpus:  "1", want: `gpu "gpu-0": has no minor number, must be 0 or more`,
		},
		"a minor below 0": {
			build: func(d *deviceObject) { d.gpu(math.MinInt32, -1, ""); d.gpu(math.MaxInt32, -1, "") },
			gpus:  "2147483647", want: `gpu "gpu--2147483648": has no minor number, must be 0 or more`,
		},
		"an unknown type": {
			build: func(d *deviceObject) { d.add("tpu", 0, -1, "", nil); d.gpu(1, -1, "") },
			gpus:  "1", want: `unknown type "tpu", must be gpu, rdma or fpga`,
		},
		"a negative amount": {
			build: func(d *deviceObject) {
				d.gpu(0, -1, "").Resources = list(coreName, "-5", ratioName, "100")
				d.gpu(1, -1, "")
			},
			gpus: "1", want: "gpu 0: resource koordinator.sh/gpu-core is -5, must be a whole number of at most 140737488355327",
		},
		"an amount that cannot be counted": {
			build: func(d *deviceObject) { d.gpu(0, -1, "").Resources = list(memoryName, "9Ei"); d.gpu(1, -1, "") },
			gpus:  "1", want: "gpu 0: resource koordinator.sh/gpu-memory is 9223372036854775807, must be a whole number of at most 140737488355327",
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
			gpus: "0", want: "rdma 0: has 10000 virtual functions, must be at most 4096",
		},
		"partitions that are no JSON": {
			build: func(d *deviceObject) { d.gpu(0, -1, ""); d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"1":` },
			gpus:  "0", want: partitions + `invalid value "{\"1\":", must be a JSON object of partitions by number of GPUs, such as {"2":[{"minors":[0,1]}]}: unexpected end of JSON input`,
		},
		"partitions of the wrong size": {
			build: func(d *deviceObject) {
				d.gpu(0, -1, "")
				d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,0]},{"minors":[0,1,2]}],"x":[],"-1":[]}`
			},
			gpus: "0", want: partitions + "a partition of 2 has 1 different minors, must be 2\n" + partitions + "a partition of 2 has 3 different minors, must be 2\n" +
				partitions + `key "-1" has 0 partitions; a key must be a number of GPUs, with at most 1024 partitions` + "\n" + partitions + `key "x" has 0 partitions; a key must be a number of GPUs, with at most 1024 partitions`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := makeDevice()
			tt.build(d)
			i, err := NewInventory(&d.Device, nil, InventoryOptions{})
			if got, want := errorText(err), "device n1: "+tt.want; got != want {
				t.Errorf("error %q, want %q", got, want)
			}
			// The valid devices can still be allocated, and no others.
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
		"[1]":                                 `shared-resource templates: invalid value "[1]", must be resources by template by vendor and model, such as {"huawei-Ascend-310P":{"vir01":{"huawei.com/npu-core":1}}}`,
		"a-b: {c: {huawei.com/npu-core: -1}}": "shared-resource templates: a-b: c: resource huawei.com/npu-core is -1, must be a whole number",
	} {
		_, err := ParseTemplates(text)
		if got := errorText(err); got != want {
			t.Errorf("templates %q: error %q, want %q", text, got, want)
		}
	}
}

// TestAllocationsBeyondTheRequest has the error that is logged for a pod whose annotation lists more than the pod
// requests.
func TestAllocationsBeyondTheRequest(t *testing.T) {
	const annotation = "annotation scheduling.koordinator.sh/device-allocated: lists more "
	const excess = " than the pod requests, the excess is ignored"
	gpus := whole(0, 1)
	both := &Allocation{GPU: gpus[GPU], RDMA: nics(100, 1)[RDMA]}
	for want, pod := range map[string]*v1.Pod{
		"":                          makePod(list(nvidiaName, "2"), "device-allocated", gpus.Annotation()),
		annotation + "gpu" + excess: makePod(list(nvidiaName, "1"), "device-allocated", gpus.Annotation()),
		annotation + "gpu" + excess + "\n" + annotation + "rdma" + excess: makePod(list(nvidiaName, "1"), "device-allocated", both.Annotation()),
	} {
		if _, err := AllocationOf(pod); errorText(err) != want {
			t.Errorf("error %q\nwant  %q", errorText(err), want)
		}
	}
}
