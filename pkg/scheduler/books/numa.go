// SPDX-License-Identifier: Apache-2.0

package books

import (
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// ShowNUMA is called with each version of the NUMA topology of a node. The topology may come before its node.
func (n *Nodes) ShowNUMA(shown *nodeinfov1alpha1.Numatopology) {
	n.lock.Lock()
	defer n.lock.Unlock()
	info := n.of(shown.Name).info
	n.numa[shown.Name] = true
	numa := numaInfo(shown)
	info.NumaChgFlag = api.NumaInfoMoreFlag
	if info.NumaInfo != nil && lostCPUs(info.NumaInfo, numa) {
		info.NumaChgFlag = api.NumaInfoLessFlag
	}
	info.NumaInfo = numa
}

// HideNUMA is called when the watch shows that the NUMA topology was deleted.
func (n *Nodes) HideNUMA(name string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if n.entries[name] == nil {
		return
	}
	info := n.of(name).info
	info.NumaInfo, info.NumaChgFlag = nil, api.NumaInfoResetFlag
	n.tidy(name)
}

// TakeCPUs records the CPUs that a session has assigned to tasks. taken is indexed by node name.
func (n *Nodes) TakeCPUs(taken map[string]api.ResNumaSets) {
	n.lock.Lock()
	defer n.lock.Unlock()
	for name, sets := range taken {
		e := n.entries[name]
		if e == nil || e.info.NumaSchedulerInfo == nil {
			continue
		}
		known := api.ResNumaSets{}
		for resource, cpus := range sets {
			if e.info.NumaSchedulerInfo.NumaResMap[resource] != nil {
				known[resource] = cpus
			}
		}
		e.info.NumaSchedulerInfo.Allocate(known)
		n.recent.note(e)
	}
}

// refreshNUMA resets the NUMA topologies that sessions see to the last reports of agents. The entries of these nodes
// get a new generation, so every snapshot copies them, because sessions allocate CPUs in them.
func (n *Nodes) refreshNUMA() {
	for name := range n.numa {
		e := n.entries[name]
		if e == nil || e.info.NumaInfo == nil && e.info.NumaSchedulerInfo == nil {
			delete(n.numa, name)
			continue
		}
		e.info.RefreshNumaSchedulerInfoByCrd()
		n.recent.note(e)
	}
}

// lostCPUs reports whether the node now has fewer CPUs than before for every resource that both NUMA topologies list.
// It returns true if they list no common resource. Upstream has the same rule.
func lostCPUs(before, after *api.NumatopoInfo) bool {
	for name, was := range before.NumaResMap {
		if is := after.NumaResMap[name]; is != nil && was.Allocatable.Size() <= is.Allocatable.Size() {
			return false
		}
	}
	return true
}

// numaInfo converts the Numatopology to upstream's type. Parts that cannot be parsed are left out.
func numaInfo(shown *nodeinfov1alpha1.Numatopology) *api.NumatopoInfo {
	info := &api.NumatopoInfo{
		Namespace: shown.Namespace, Name: shown.Name,
		Policies:   map[nodeinfov1alpha1.PolicyName]string{},
		NumaResMap: map[string]*api.ResourceInfo{},
		CPUDetail:  topology.CPUDetails{}, ResReserved: v1.ResourceList{},
	}
	maps.Copy(info.Policies, shown.Spec.Policies)
	for name, resource := range shown.Spec.NumaResMap {
		cpus, err := cpuset.Parse(resource.Allocatable)
		if err != nil {
			logger().Error(err, "Reading the CPUs of a node failed", "numatopology", shown.Name, "resource", name)
		}
		info.NumaResMap[name] = &api.ResourceInfo{Capacity: resource.Capacity, Allocatable: cpus}
	}
	for id, detail := range shown.Spec.CPUDetail {
		if cpu, err := strconv.Atoi(id); err == nil {
			info.CPUDetail[cpu] = topology.CPUInfo{NUMANodeID: detail.NUMANodeID, SocketID: detail.SocketID, CoreID: detail.CoreID}
		}
	}
	reserved, err := api.ParseResourceList(shown.Spec.ResReserved)
	if err != nil {
		logger().Error(err, "Reading the reserved resources of a node failed", "numatopology", shown.Name)
		return info
	}
	info.ResReserved = reserved
	return info
}
