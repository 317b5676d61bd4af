// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
			Refusal{"Insufficient gpu devices: 65 asked for, 64 of 64 GPUs free, 8 more in the Device object than the 64 that are used", true}},
		"others have the GPUs": {node.With(whole(0, 1, 2, 3, 4)), gpus("4", ""), Options{},
			Refusal{"Insufficient gpu devices: 4 asked for, 3 of 8 GPUs free, 5 without room", false}},
		"the node has fewer": {node.With(whole(0)), gpus("9", ""), Options{},
			Refusal{"Insufficient gpu devices: 9 asked for, 7 of 8 GPUs free, 1 without room", true}},
		"one is unhealthy": {unhealthy.state(t), gpus("8", ""), Options{},
			Refusal{"Insufficient gpu devices: 8 asked for, 7 of 8 GPUs free, 1 unhealthy", true}},
		"no NIC beside free GPUs": {inUse(node, whole(0, 1, 2, 3, 4), nics(100, 3, 4)), joint("2", "1"), Options{},
			Refusal{"Device Joint-Allocate rules violation: 3 GPUs free, none with an RDMA NIC on the same PCIe switch", false}},
		"too few GPUs have a NIC beside them": {inUse(node, whole(0, 1, 2), nics(100, 3, 4)), joint("2", "1"), Options{},
			Refusal{"Device Joint-Allocate rules violation: 5 GPUs free, only 1 with an RDMA NIC on the same PCIe switch, 2 asked for", false}},
		"too few NICs beside any GPUs": {node, joint("2", "300"), Options{},
			Refusal{"Device Joint-Allocate rules violation: 8 GPUs free, no 2 with all that is asked for on the same PCIe switches and in one Node", true}},
		"no NUMA node has as many": {node.With(whole(1, 5)), gpus("4", `{"gpu":{"requiredTopologyScope":"NUMANode"}}`), Options{},
			Refusal{"Insufficient Topology Scoped GPU Devices: 4 asked for in one NUMANode, 6 GPUs free, at most 3 in one", false}},
		"no PCIe root is as large": {node, gpus("4", `{"gpu":{"requiredTopologyScope":"PCIe"}}`), Options{},
			Refusal{"Insufficient Topology Scoped GPU Devices: 4 asked for in one PCIe, 8 GPUs free, at most 2 in one", true}},
		"nobody knows the topology": {bare.state(t), gpus("2", `{"gpu":{"requiredTopologyScope":"PCIe"}}`), Options{},
			Refusal{"node(s) missing GPU Device Topology Tree: 2 GPUs free, asked for in one PCIe, which the Device object does not tell", true}},
		"other NUMA nodes have some": {node, gpus("8", ""), Options{NUMANodes: []int{1}},
			Refusal{"Insufficient NUMA Scoped Devices: 8 asked for, 4 of 8 GPUs free, 4 on other NUMA nodes", true}},
		"no GPU beside a NIC": {node.With(whole(2, 3, 4, 5, 6, 7)), parse(t, makePod(list(nvidiaName, "2", rdmaName, "300"), "device-joint-allocate",
			`{"deviceTypes":["rdma","gpu"],"requiredScope":"SamePCIe"}`)), Options{},
			Refusal{"Device Joint-Allocate rules violation: 4 RDMA NICs free, only 1 with a GPU on the same PCIe switch, 3 asked for", false}},
		"no NUMA node has all": {node, parse(t, makePod(list(rdmaName, "1"), "device-allocate-hint", `{"rdma":{"allocateStrategy":"ApplyForAll","requiredTopologyScope":"NUMANode"}}`)), Options{},
			Refusal{"Insufficient Topology Scoped rdma devices: all that match asked for in one NUMANode, 4 RDMA NICs free, at most 2 in one", true}},
		"shares that are not kept apart": {isolated.state(t), half, Options{},
			Refusal{`GPU isolation provider is "HAMi-core", the pod asks for ""`, true}},
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
