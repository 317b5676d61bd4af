// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vgpu "volcano.sh/volcano/pkg/scheduler/api/devices/config"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// A node has two GPUs and a NIC on each PCIe switch, and two switches on each NUMA node.
const (
	gpusPerNode   = 8
	nicsPerNode   = 4
	gpusPerSwitch = gpusPerNode / nicsPerNode
	nodeCPU       = "192"
	nodeMemory    = "2Ti"
)

// nodeList returns the nodes, in this number of InfiniBand clusters. Zero means none.
func nodeList(count, clusters int) []*v1.Node {
	nodes, err := controlplane.NodeShape{Count: count, CPU: nodeCPU, Memory: nodeMemory, IBClusters: clusters}.Nodes()
	if err != nil {
		panic(err)
	}
	return nodes
}

// board returns the Device object of the node, with this number of its NICs.
func board(node string, nics int) *v1alpha1.Device {
	device := &v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: node}}
	add := func(kind string, minor, pcie int, resources v1.ResourceList) {
		at, numa := int32(minor), int32(pcie*2/nicsPerNode)
		device.Spec.Devices = append(device.Spec.Devices, v1alpha1.DeviceInfo{
			Type: v1alpha1.DeviceType(kind), UUID: fmt.Sprintf("%s-%s-%d", node, kind, minor), Minor: &at, Health: true, Resources: resources,
			Topology: &v1alpha1.DeviceTopology{SocketID: numa, NodeID: numa, PCIEID: fmt.Sprint(pcie)},
		})
	}
	for minor := range gpusPerNode {
		add("gpu", minor, minor/gpusPerSwitch, v1.ResourceList{
			gpuCore: resource.MustParse("100"), gpuRatio: resource.MustParse("100"), "koordinator.sh/gpu-memory": resource.MustParse("80Gi"),
		})
	}
	for minor := range nics {
		add("rdma", minor, minor, v1.ResourceList{rdma: resource.MustParse("100")})
	}
	return device
}

// Device resources in the requests of pods, in hundredths, and in annotations.
const (
	gpuWhole = "koordinator.sh/gpu"
	gpuCore  = "koordinator.sh/gpu-core"
	gpuRatio = "koordinator.sh/gpu-memory-ratio"
	rdma     = "koordinator.sh/rdma"
)

// shareOut registers the node's GPUs as upstream's device plugin does, which divides each into at most ten.
func shareOut(node *v1.Node) {
	var gpus strings.Builder
	for i := range gpusPerNode {
		fmt.Fprintf(&gpus, "%s-gpu-%d,10,81920,NVIDIA-H100,true,hami-core:", node.Name, i)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, vgpu.VolcanoVGPURegister, gpus.String())
	// Upstream's scheduler ignores the GPUs of a node if the device plugin does not answer its request within a minute.
	// The time of this request is in the future, so no answer is needed for an hour.
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, vgpu.VolcanoVGPUHandshake, "Requesting_"+time.Now().Add(time.Hour).Format("2006.01.02 15:04:05"))
	has := resource.NewQuantity(gpusPerNode*10, resource.DecimalSI)
	node.Status.Capacity[vgpu.VolcanoVGPUNumber], node.Status.Allocatable[vgpu.VolcanoVGPUNumber] = *has, *has
}

// ask is a pod's request, in hundredths. More than one GPU means whole GPUs. The share of a NIC is requested on each
// PCIe switch with GPUs of the pod.
type ask struct{ gpu, nic int }

// limits returns the pod's limits.
func (a ask) limits() schedulertesting.Resources {
	limits := schedulertesting.Resources{"cpu": "1", "memory": "1Gi"}
	if a.gpu < 100 {
		limits[gpuCore], limits[gpuRatio] = fmt.Sprint(a.gpu), fmt.Sprint(a.gpu)
	} else {
		limits[gpuWhole] = fmt.Sprint(a.gpu)
	}
	if a.nic > 0 {
		limits[rdma] = fmt.Sprint(a.nic)
	}
	return limits
}

// pod returns the builder of a pod of the gang with this request.
func (a ask) pod(name, gang string) *schedulertesting.PodBuilder {
	pod := schedulertesting.MakePod().Name(name).Group(gang).Limit(a.limits())
	if a.nic > 0 {
		pod.Annotation(v1alpha1.DeviceJointAllocateAnnotation, `{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`)
	}
	return pod
}

func gangName(gang int) string { return fmt.Sprintf("gang-%05d", gang) }

func podName(gang, i int) string { return fmt.Sprintf("%s-%04d", gangName(gang), i) }
