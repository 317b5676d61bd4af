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

// The NUMA policies of pods (annotation volcano.sh/numa-topology-policy), with the names of the kubelet's topology
// manager.
const (
	noNUMAPolicy   = "none"
	singleNUMANode = "single-numa-node"
)

// alignment is the set of NUMA nodes on which a task's devices may be, so that its CPUs can be there, too.
type alignment struct {
	// nodes are the numbers of the NUMA nodes, which are tried one after the other.
	nodes []int
	// must reports whether devices on several NUMA nodes are refused.
	must bool
}

// noNUMANode means that the devices are not on a NUMA node that was chosen for the CPUs.
const noNUMANode = -1

// alignmentOf returns the NUMA nodes for the task's devices on the node. For a task with a NUMA policy these are the NUMA
// nodes with enough free CPUs. Upstream's numa-aware plugin provides the free CPUs; CPUs of pods that the session has
// placed there are subtracted. The caller holds s.mu.
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

// freeCPUs counts the node's free CPUs by NUMA node; nil if devices of the node are not chosen by the NUMA node of CPUs.
// The caller holds s.mu.
func (s *session) freeCPUs(node *api.NodeInfo) map[int]int {
	numa := node.NumaSchedulerInfo
	if s.plugin.unaligned || numa == nil || numa.NumaResMap[string(v1.ResourceCPU)] == nil || numa.Policies[v1alpha1.TopologyManagerPolicy] == noNUMAPolicy {
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

// isAligned reports whether the task's devices are chosen together with its CPUs. Then they are not chosen together with
// the devices of other members.
func (on *strategy) isAligned() bool { return on.alignment.must || len(on.alignment.nodes) > 0 }

// exclusiveCPUs returns how many exclusive CPUs the kubelet's static policy gives the pod: whole CPUs for containers of
// guaranteed pods.
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

// allocate chooses devices for the request. It tries the NUMA nodes of the alignment, and returns the first one that has
// the devices. If none has them and the alignment is no must, the devices may be anywhere, and the returned NUMA node is
// noNUMANode.
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
