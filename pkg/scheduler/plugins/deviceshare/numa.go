// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// NUMA policies of pods, in the annotation volcano.sh/numa-topology-policy. They have the names of the kubelet's
// topology manager policies.
const (
	noNUMAPolicy   = "none"
	singleNUMANode = "single-numa-node"
)

// alignment is the set of NUMA nodes on which a task's devices may be, so that the task's CPUs can be on the same NUMA
// node.
type alignment struct {
	// nodes are the numbers of the NUMA nodes, in the order in which they are tried.
	nodes []int
	// must reports whether the task is refused if none of these NUMA nodes has all its devices.
	must bool
}

// noNUMANode means that the devices were chosen without regard to the NUMA nodes of the CPUs.
const noNUMANode = -1

// alignmentOf returns the NUMA nodes of the node on which the task's devices may be. For a task with a NUMA policy,
// these are the NUMA nodes with enough free CPUs. Upstream's numa-aware plugin provides the free CPUs; alignmentOf
// subtracts CPUs of pods that the session has placed on the node. The caller holds s.mu.
func (s *session) alignmentOf(task *api.TaskInfo, node *api.NodeInfo) alignment {
	if !hasNUMAPolicy(task) {
		return alignment{}
	}
	free := s.freeCPUs(node)
	if free == nil {
		return alignment{}
	}
	a := alignment{must: task.NumaInfo.Policy == singleNUMANode}
	for _, id := range slices.Sorted(maps.Keys(free)) {
		if free[id] >= int(math.Ceil(task.InitResreq.MilliCPU/1000)) {
			a.nodes = append(a.nodes, id)
		}
	}
	return a
}

// freeCPUs counts the node's free CPUs by NUMA node. It returns nil if devices of the node need not be on the same NUMA
// node as CPUs. The caller holds s.mu.
func (s *session) freeCPUs(node *api.NodeInfo) map[int]int {
	numa := node.NumaSchedulerInfo
	if s.common.unaligned || numa == nil || numa.NumaResMap[string(v1.ResourceCPU)] == nil || numa.Policies[v1alpha1.TopologyManagerPolicy] == noNUMAPolicy {
		return nil
	}
	free := map[int]int{}
	for _, cpu := range numa.NumaResMap[string(v1.ResourceCPU)].Allocatable.UnsortedList() {
		free[numa.CPUDetail[cpu].NUMANodeID]++
	}
	for _, own := range s.onNode[node.Name] {
		if own.cpus > 0 {
			free[own.numa] -= own.cpus
		}
	}
	return free
}

func hasNUMAPolicy(task *api.TaskInfo) bool {
	return task.NumaInfo != nil && task.NumaInfo.Policy != "" && task.NumaInfo.Policy != noNUMAPolicy
}

// isAligned reports whether the task's devices are chosen together with its CPUs. If so, they are not chosen together
// with the devices of other members.
func (on *strategy) isAligned() bool { return on.alignment.must || len(on.alignment.nodes) > 0 }

// exclusiveCPUs returns how many exclusive CPUs the kubelet's static CPU policy gives the pod. Only containers of
// guaranteed pods that request whole CPUs get exclusive CPUs.
func exclusiveCPUs(pod *v1.Pod) (cpus int) {
	if qos.GetPodQOS(pod) != v1.PodQOSGuaranteed {
		return 0
	}
	for i := range pod.Spec.Containers {
		if milli := pod.Spec.Containers[i].Resources.Requests.Cpu().MilliValue(); milli%1000 == 0 {
			cpus += int(milli / 1000)
		}
	}
	return cpus
}

// allocate chooses devices for the request. It tries one NUMA node of the alignment after another, and returns the
// first NUMA node that has the devices. If none has them and the alignment is not required, the devices may be
// anywhere, and allocate returns noNUMANode.
func (on *strategy) allocate(state *allocator.State, request *allocator.Request) (*allocator.Allocation, int, *allocator.Refusal) {
	for _, id := range on.alignment.nodes {
		aligned := on.options
		aligned.NUMANodes = []int{id}
		if allocation, refusal := allocator.Allocate(state, request, aligned); refusal == nil {
			return allocation, id, nil
		}
	}
	allocation, refusal := allocator.Allocate(state, request, on.options)
	if refusal == nil && on.alignment.must {
		return nil, noNUMANode, &allocator.Refusal{Reason: "Insufficient NUMA Scoped Devices: no NUMA node has both the CPUs and the devices free"}
	}
	return allocation, noNUMANode, refusal
}
