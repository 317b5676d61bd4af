// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// npuMachines returns nodes with eight NPUs, each with 20 cores, 7 CPUs, 100 DVPP units and 80Gi.
func npuMachines(names ...string) (nodes []*v1.Node, devices []*schedulingv1alpha1.Device) {
	nodes, devices = machines(names...)
	for at, node := range nodes {
		for name, amount := range map[v1.ResourceName]int64{"huawei.com/npu-core": 20, "huawei.com/npu-cpu": 7, "huawei.com/npu-dvpp": 100} {
			for i := range 8 {
				devices[at].Spec.Devices[i].Resources[name] = *resource.NewQuantity(amount, resource.DecimalSI)
			}
			sum := *resource.NewQuantity(8*amount, resource.DecimalSI)
			node.Status.Allocatable[name], node.Status.Capacity[name] = sum, sum
		}
	}
	return nodes, devices
}

// twoNPUs has all ways to limit a queue to two NPUs.
var twoNPUs = map[string]schedtest.Resources{
	"npu-core": {"huawei.com/npu-core": "40"},
	"npu-cpu":  {"huawei.com/npu-cpu": "14"},
	"npu-dvpp": {"huawei.com/npu-dvpp": "200"},
	"gpu":      {"koordinator.sh/gpu": "200"},
	"core":     {"koordinator.sh/gpu-core": "200"},
	"ratio":    {"koordinator.sh/gpu-memory-ratio": "200"},
	"bytes":    {"koordinator.sh/gpu-memory": "160Gi"},
	"nvidia":   {"nvidia.com/gpu": "2"},
}

// oneNPU has all ways to request a whole NPU.
var oneNPU = map[string]schedtest.Resources{
	"npu-core":       {"huawei.com/npu-core": "20", "koordinator.sh/gpu-memory-ratio": "100"},
	"gpu":            {"koordinator.sh/gpu": "100"},
	"core and ratio": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
	"core and bytes": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"},
	"ratio":          {"koordinator.sh/gpu-memory-ratio": "100"},
	"bytes":          {"koordinator.sh/gpu-memory": "80Gi"},
	"shared by gpu":  {"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
}

// TestCapabilitiesOfNPUsHoldAcrossFormsOfAsking checks that a queue's limit of two NPUs holds, whichever resource the
// limit and the pods name. It holds in the session that places the pods, and in the next session, in which they run.
func TestCapabilitiesOfNPUsHoldAcrossFormsOfAsking(t *testing.T) {
	for limit, capability := range twoNPUs {
		for form, asks := range oneNPU {
			if !strings.HasPrefix(limit, "npu") && form != "npu-core" {
				continue // as for GPUs (TestCapabilitiesHoldAcrossFormsOfAsking)
			}
			t.Run(fmt.Sprintf("limit by %s, pods by %s", limit, form), func(t *testing.T) {
				nodes, devices := npuMachines("n1", "n2")
				podGroup, pods := gang("g", 8, asks)
				podGroup.Spec.Queue, podGroup.Spec.MinMember = "bounded", 1
				spec := sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, Queues: []*v1beta1.Queue{bounded(capability)}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods}
				placesTwoAtMost(t, spec, "capacity")
			})
		}
	}
}

// TestWhatCountsAsNPUs checks how pods count against limits of queues if they get a part of an NPU, or may get GPUs
// that are no NPUs.
func TestWhatCountsAsNPUs(t *testing.T) {
	noCores := func(devices []*schedulingv1alpha1.Device) {
		for i := range 8 {
			delete(devices[0].Spec.Devices[i].Resources, "koordinator.sh/gpu-core")
		}
	}
	tests := map[string]struct {
		capability, asks schedtest.Resources
		// devices changes the Device objects of n1, which has NPUs, and of n2, which has GPUs.
		devices func([]*schedulingv1alpha1.Device)
		want    int
	}{
		"half NPUs":                    {schedtest.Resources{"huawei.com/npu-core": "40"}, schedtest.Resources{"koordinator.sh/gpu": "50"}, nil, 4},
		"half NPUs, rounded up":        {schedtest.Resources{"huawei.com/npu-cpu": "15"}, schedtest.Resources{"koordinator.sh/gpu": "50"}, nil, 3},
		"a tenth of the cores":         {schedtest.Resources{"koordinator.sh/gpu-core": "30"}, schedtest.Resources{"huawei.com/npu-core": "2", "koordinator.sh/gpu-memory-ratio": "1"}, nil, 3},
		"no NPU":                       {schedtest.Resources{"huawei.com/npu-core": "0"}, schedtest.Resources{"koordinator.sh/gpu": "50"}, nil, 0},
		"fewer cores than the memory":  {schedtest.Resources{"huawei.com/npu-core": "40"}, schedtest.Resources{"huawei.com/npu-core": "10", "koordinator.sh/gpu-memory-ratio": "100"}, nil, 4},
		"another vendor's":             {schedtest.Resources{"huawei.com/npu-core": "0"}, schedtest.Resources{"nvidia.com/gpu": "1"}, nil, 8},
		"NPUs that cannot serve a pod": {schedtest.Resources{"huawei.com/npu-core": "0"}, schedtest.Resources{"koordinator.sh/gpu": "100"}, noCores, 8},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := npuMachines("n1")
			gpuNodes, gpus := machines("n2")
			nodes, devices = append(nodes, numbered(gpuNodes)...), append(devices, gpus...)
			if tc.devices != nil {
				tc.devices(devices)
			}
			podGroup, pods := gang("g", 8, tc.asks)
			podGroup.Spec.Queue, podGroup.Spec.MinMember = "bounded", 1
			if _, vendor := tc.asks["nvidia.com/gpu"]; !vendor && tc.devices == nil {
				for _, pod := range pods {
					pod.Spec.NodeSelector = map[string]string{"npu": "yes"}
				}
				nodes[0].Labels = map[string]string{"npu": "yes"}
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, Queues: []*v1beta1.Queue{bounded(tc.capability)}, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			w.conf += "  - name: capacity\n"
			if got := w.allocate(t).decided; len(got) != tc.want {
				t.Errorf("placed %v, want %d", got, tc.want)
			}
		})
	}
}
