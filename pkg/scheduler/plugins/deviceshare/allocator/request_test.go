// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestNormalizedRequests(t *testing.T) {
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
		t.Error("a share of a GPU without memory has memory")
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
		t.Errorf("a pod that requests no device has request %v, error %v", r, err)
	}
}

// twice returns the pod with a second container that equals the first.
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
