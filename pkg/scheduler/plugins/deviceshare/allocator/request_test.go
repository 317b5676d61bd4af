// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestNormalisedRequests(t *testing.T) {
	type want struct {
		Amounts Amounts
		Count   int
		Shared  bool
	}
	ratio := func(core, ratio int64) Amounts { return Amounts{Core: core, MemoryRatio: ratio} }
	tests := map[string]struct {
		resources v1.ResourceList
		want      want
	}{
		"D30a: shares of two GPUs":               {list(sharedName, "2", coreName, "100", ratioName, "100"), want{ratio(50, 50), 2, true}},
		"D30c: two GPUs by core and ratio":       {list(coreName, "200", ratioName, "200"), want{ratio(100, 100), 2, false}},
		"D30f: two GPUs by their vendor":         {list(nvidiaName, "2"), want{ratio(100, 100), 2, false}},
		"D30f: half a GPU":                       {list(koordGPU, "50"), want{ratio(50, 50), 1, true}},
		"two GPUs in hundredths":                 {list(koordGPU, "200"), want{ratio(100, 100), 2, false}},
		"AMD's":                                  {list("amd.com/gpu", "3"), want{ratio(100, 100), 3, false}},
		"Hygon's":                                {list("dcu.com/gpu", "1"), want{ratio(100, 100), 1, false}},
		"memory alone":                           {list(memoryName, "16Gi"), want{Amounts{Memory: 16 << 30}, 1, true}},
		"core and memory":                        {list(coreName, "200", memoryName, "32Gi"), want{Amounts{Core: 100, Memory: 16 << 30}, 2, true}},
		"ratio alone":                            {list(ratioName, "200"), want{ratio(0, 100), 2, false}},
		"ratio over shared GPUs":                 {list(ratioName, "100", sharedName, "2"), want{ratio(0, 50), 2, true}},
		"whole shared GPUs":                      {list(ratioName, "200", sharedName, "2"), want{ratio(0, 100), 2, false}},
		"memory over shared GPUs is rounded up":  {list(memoryName, "3", sharedName, "2"), want{Amounts{Memory: 2}, 2, true}},
		"NPUs":                                   {list(npuCoreName, "40", ratioName, "200"), want{Amounts{MemoryRatio: 100, NPUCore: 20}, 2, false}},
		"less cores than memory":                 {list(coreName, "30", ratioName, "100"), want{ratio(30, 100), 1, false}},
		"a template without its image processor": {list(sharedName, "1", npuCoreName, "1", npuCPUName, "1", memoryName, "3Gi"), want{Amounts{NPUCore: 1, NPUCPU: 1, Memory: 3 << 30}, 1, true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := parse(t, makePod(tt.resources))
			amounts, count, _ := r.Wants(GPU)
			if diff := cmp.Diff(tt.want, want{amounts, count, nodeA().state(t).Shares(r)}); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilledAmounts(t *testing.T) {
	d := &Device{Healthy: true, Total: Amounts{Core: 100, MemoryRatio: 100, Memory: 32 << 30}}
	tests := map[string]struct {
		asked, want Amounts
		refused     bool
	}{
		"D31a: bytes of a ratio":         {asked: Amounts{MemoryRatio: 50}, want: Amounts{MemoryRatio: 50, Memory: 16 << 30}},
		"ratio of bytes, rounded down":   {asked: Amounts{Memory: 16<<30 + 1}, want: Amounts{MemoryRatio: 50, Memory: 16<<30 + 1}},
		"D31c: both given":               {asked: Amounts{MemoryRatio: 60, Memory: 1 << 30}, want: Amounts{MemoryRatio: 60, Memory: 1 << 30}},
		"all bytes are the whole":        {asked: Amounts{Memory: 32 << 30}, want: Amounts{MemoryRatio: 100, Memory: 32 << 30}},
		"more bytes than the GPU has":    {asked: Amounts{Memory: 33 << 30}, refused: true},
		"the most that may be asked for": {asked: Amounts{Memory: maxAmount}, refused: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := fill(tt.asked, GPU, d)
			if ok == tt.refused {
				t.Fatalf("fill: %v, want %v", ok, !tt.refused)
			}
			if diff := cmp.Diff(tt.want, got); ok && diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := fill(Amounts{Memory: 1}, GPU, &Device{}); ok {
		t.Error("a GPU without memory has a byte")
	}
}

func TestRequestsThatAreAccepted(t *testing.T) {
	for name, resources := range map[string]v1.ResourceList{
		"nvidia 2":               list(nvidiaName, "2"),
		"gpu 200":                list(koordGPU, "200"),
		"gpu 50":                 list(koordGPU, "50"),
		"core 200, memory":       list(coreName, "200", memoryName, "8Gi"),
		"ratio 200":              list(ratioName, "200"),
		"ratio 200, shared 2":    list(ratioName, "200", sharedName, "2"),
		"ratio 100, shared 2":    list(ratioName, "100", sharedName, "2"),
		"npu-core 40, ratio 200": list(npuCoreName, "40", ratioName, "200"),
		"fpga 50":                list(fpgaName, "50"),
		"fpga 200":               list(fpgaName, "200"),
		"rdma 50":                list(rdmaName, "50"),
		"rdma 200":               list(rdmaName, "200"),
		"a billion GPUs":         list(nvidiaName, "1000000000"),
	} {
		t.Run(name, func(t *testing.T) { parse(t, makePod(resources)) })
	}
	if r, err := ParseRequest(makePod(list("cpu", "1", nvidiaName, "0")), RequestOptions{}); r != nil || err != nil {
		t.Errorf("a pod that asks for no device: %v, %v", r, err)
	}
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
		"core alone":                         {makePod(list(coreName, "100")), "cannot be asked for together"},
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
		"two GPUs on one device":             {hint(`{"gpu":{"requiredTopologyScope":"Device"}}`), "2 devices are asked for"},
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

// twice is the pod with a second container like the first.
func twice(pod *v1.Pod) *v1.Pod {
	pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
	return pod
}

func manyOf(format string, n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprintf(format, i))
	}
	return texts
}

func TestContainersAddUp(t *testing.T) {
	container := func(resources v1.ResourceList) v1.Container {
		return v1.Container{Name: "c", Resources: v1.ResourceRequirements{Limits: resources}}
	}
	always := v1.ContainerRestartPolicyAlways
	sidecar := container(list(koordGPU, "100"))
	sidecar.RestartPolicy = &always
	tests := map[string]struct {
		init, containers []v1.Container
		want             int
	}{
		"containers run together":                     {containers: []v1.Container{container(list(koordGPU, "100")), container(list(koordGPU, "200"))}, want: 3},
		"init containers run one after another":       {init: []v1.Container{container(list(koordGPU, "200")), container(list(koordGPU, "400"))}, containers: []v1.Container{container(list(koordGPU, "100"))}, want: 4},
		"sidecars run beside containers":              {init: []v1.Container{sidecar}, containers: []v1.Container{container(list(koordGPU, "100"))}, want: 2},
		"sidecars run beside init containers to come": {init: []v1.Container{sidecar, container(list(koordGPU, "300"))}, containers: []v1.Container{container(list(koordGPU, "100"))}, want: 4},
		"and not beside those before":                 {init: []v1.Container{container(list(koordGPU, "200")), sidecar}, containers: []v1.Container{container(list(koordGPU, "100"))}, want: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := makePod(nil)
			pod.Spec.InitContainers, pod.Spec.Containers = tt.init, tt.containers
			if _, count, _ := parse(t, pod).Wants(GPU); count != tt.want {
				t.Errorf("%d GPUs, want %d", count, tt.want)
			}
		})
	}
}

func TestVendorDevicesOnly(t *testing.T) {
	tests := map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"a vendor's":       {makePod(list(nvidiaName, "2", "cpu", "1")), true},
		"with a NIC":       {makePod(list(nvidiaName, "2", rdmaName, "1")), false},
		"Koordinator's":    {makePod(list(koordGPU, "200")), false},
		"with a hint":      {makePod(list(nvidiaName, "2"), "device-allocate-hint", `{"gpu":{}}`), false},
		"with a partition": {makePod(list(nvidiaName, "2"), "gpu-partition-spec", `{}`), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, tt.pod).OnlyVendorDevices(); got != tt.want {
				t.Errorf("OnlyVendorDevices: %v", got)
			}
		})
	}
}

func TestKeysOfRequests(t *testing.T) {
	base := func() *v1.Pod { return makePod(list(nvidiaName, "2", rdmaName, "1")) }
	other := base()
	other.Name = "other"
	if parse(t, base()).Key() != parse(t, other).Key() {
		t.Error("equal requests of two pods have different keys")
	}
	if parse(t, makePod(list(koordGPU, "200"))).Key() != parse(t, makePod(list(coreName, "200", ratioName, "200"))).Key() {
		t.Error("equal requests in two forms have different keys")
	}
	isolated := base()
	isolated.Labels = map[string]string{"koordinator.sh/gpu-isolation-provider": "x"}
	pods := map[string]*v1.Pod{"isolated": isolated, "plain": base(), "more": makePod(list(nvidiaName, "3", rdmaName, "1"))}
	for _, annotation := range [][2]string{
		{"device-joint-allocate", jointHint}, {"device-joint-allocate", jointPCIe}, {"gpu-partition-spec", `{}`}, {"gpu-partition-spec", `{"allocatePolicy":"Restricted"}`},
		{"gpu-partition-spec", `{"ringBusBandwidth":"1"}`}, {"device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"a":"b"}}}}`}, {"device-allocate-hint", vfHint},
		{"device-allocate-hint", `{"rdma":{"selector":{}}}`}, {"device-allocate-hint", `{"rdma":{"allocateStrategy":"ApplyForAll"}}`},
		{"device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`}, {"device-allocate-hint", `{"gpu":{"exclusivePolicy":"PCIeLevel"}}`},
	} {
		pods[annotation[1]] = makePod(list(nvidiaName, "2", rdmaName, "1"), annotation[0], annotation[1])
	}
	seen := map[string]string{}
	for name, pod := range pods {
		key := parse(t, pod).Key()
		if same, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key", name, same)
		}
		seen[key] = name
	}
}
