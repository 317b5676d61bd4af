// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// The trace's nodes and tasks as objects that a cluster's administrator and users write.

// The resources of GPUs.
const (
	gpuResource  = "koordinator.sh/gpu"
	coreResource = "koordinator.sh/gpu-core"
	// ratioResource is a share of a GPU's memory.
	ratioResource = "koordinator.sh/gpu-memory-ratio"
)

// podsPerNode is more than a node of any trace has room for.
const podsPerNode = "1000"

func nodeName(i int) string { return fmt.Sprintf("n%05d", i) }

// nodeObjects returns the trace's nodes and their Device objects.
func (t *trace) nodeObjects() ([]*v1.Node, []*schedulingv1alpha1.Device) {
	nodes, devices := make([]*v1.Node, len(t.nodes)), make([]*schedulingv1alpha1.Device, len(t.nodes))
	for i, n := range t.nodes {
		nodes[i] = schedulertesting.MakeNode().Name(nodeName(i)).Label(schedulingv1alpha1.GPUModelLabel, n.model).
			Capacity(schedulertesting.Resources{"cpu": fmt.Sprintf("%dm", n.milliCPU), "memory": fmt.Sprintf("%dMi", n.memoryMiB), "pods": podsPerNode}).Obj()
		devices[i] = &schedulingv1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{schedulingv1alpha1.GPUModelLabel: n.model}}}
		for minor := range int32(n.gpus) {
			devices[i].Spec.Devices = append(devices[i].Spec.Devices, schedulingv1alpha1.DeviceInfo{
				Type: schedulingv1alpha1.GPU, UUID: fmt.Sprintf("GPU-%s-%d", nodeName(i), minor), Minor: &minor, Health: true,
				Resources: v1.ResourceList{coreResource: resource.MustParse("100"), ratioResource: resource.MustParse("100")},
			})
		}
	}
	return nodes, devices
}

// share returns a pod's request for a GPU in hundredths, the unit of Device objects, rounded up.
func (t task) share() int { return (t.milliGPU + 9) / 10 }

// pod returns the task as a pod of the group.
func (t task) pod(name, group string) *v1.Pod {
	requests := schedulertesting.Resources{"cpu": fmt.Sprintf("%dm", t.milliCPU), "memory": fmt.Sprintf("%dMi", t.memoryMiB)}
	if t.gpus > 0 {
		requests[gpuResource] = strconv.Itoa(t.gpus * t.share())
	}
	pod := schedulertesting.MakePod().Name(name).UID(name).Group(group).Req(requests).Limit(requests)
	if t.models != "" {
		pod.Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: schedulingv1alpha1.GPUModelLabel, Operator: v1.NodeSelectorOpIn, Values: strings.Split(t.models, "|")}},
		}}}}})
	}
	return pod.Obj()
}

// podGroup returns the PodGroup of the i-th job, all of whose members are needed. Sessions place jobs in the order of
// their creation.
func podGroup(name string, i, members int) *v1beta1.PodGroup {
	group := schedulertesting.MakePodGroup().Name(name).MinMember(int32(members)).Phase(v1beta1.PodGroupInqueue).Obj()
	group.CreationTimestamp = metav1.NewTime(schedulertesting.Created.Add(time.Duration(i) * time.Second))
	return group
}
