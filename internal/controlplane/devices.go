// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
)

// The board that EightGPUs describes: each PCIe switch has two GPUs and a NIC, and each NUMA node has two switches.
const (
	gpusPerSwitch   = 2
	switchesPerNUMA = 2
	gpuMemory       = "83201216Ki"
	vfsPerNIC       = 30
)

// nicBuses are the PCI bus numbers of the NICs, by switch.
var nicBuses = []string{"1f", "90", "51", "b9"}

// EightGPUs returns the Device object of a node with 8 GPUs (minors 0 to 7) and 4 NICs (minors 1 to 4), as the agent of the
// node would write it.
func EightGPUs(node string) *v1alpha1.Device {
	device := &v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for pcie, bus := range nicBuses {
		topology := func(address string) *v1alpha1.DeviceTopology {
			numa := int32(pcie / switchesPerNUMA)
			return &v1alpha1.DeviceTopology{SocketID: numa, NodeID: numa, PCIEID: fmt.Sprintf("pcie-%d", pcie), BusID: address}
		}
		for i := range gpusPerSwitch {
			minor := int32(gpusPerSwitch*pcie + i)
			device.Spec.Devices = append(device.Spec.Devices, v1alpha1.DeviceInfo{
				Type: v1alpha1.GPU, Minor: &minor, UUID: fmt.Sprintf("GPU-%s-%d", node, minor), Health: true,
				Resources: corev1.ResourceList{
					"koordinator.sh/gpu-core":         resource.MustParse("100"),
					"koordinator.sh/gpu-memory-ratio": resource.MustParse("100"),
					"koordinator.sh/gpu-memory":       resource.MustParse(gpuMemory),
				},
				Topology: topology(fmt.Sprintf("0000:%d%d:00.0", pcie+1, i)),
			})
		}
		address := fmt.Sprintf("0000:%s:00.0", bus)
		device.Spec.Devices = append(device.Spec.Devices, v1alpha1.DeviceInfo{
			Type: v1alpha1.RDMA, Minor: new(int32(pcie + 1)), UUID: address, Health: true,
			Resources: corev1.ResourceList{"koordinator.sh/rdma": resource.MustParse("100")},
			Topology:  topology(address),
			VFGroups:  []v1alpha1.VirtualFunctionGroup{{Labels: map[string]string{"type": "general"}, VFs: virtualFunctions(bus)}},
		})
	}
	return device
}

// virtualFunctions returns the virtual functions of the NIC on the given PCI bus. The first one is 00.2, because 00.0
// and 00.1 are the NIC's own functions.
func virtualFunctions(bus string) []v1alpha1.VirtualFunction {
	const functions = 8 // the number of functions of each PCI device
	vfs := make([]v1alpha1.VirtualFunction, vfsPerNIC)
	for i := range vfs {
		at := i + 2
		vfs[i] = v1alpha1.VirtualFunction{Minor: int32(i), BusID: fmt.Sprintf("0000:%s:%02x.%d", bus, at/functions, at%functions)}
	}
	return vfs
}

// CreateDevices creates Device objects, as the agents of nodes do.
func (cp *ControlPlane) CreateDevices(ctx context.Context, devices ...*v1alpha1.Device) error {
	client, err := versioned.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	for _, device := range devices {
		if _, err := client.SchedulingV1alpha1().Devices().Create(ctx, device, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the Device object of node %s: %w", device.Name, err)
		}
	}
	return nil
}
