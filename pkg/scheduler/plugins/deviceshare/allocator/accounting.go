// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// CountedResources are the device resources that are counted in the capacity of nodes, the requests of pods and the usage
// of queues. NPUs are left out: upstream's Ascend sharing counts them by the nodes' allocatable resources.
var CountedResources = []Resource{Core, MemoryRatio, Memory, RDMAShare, FPGAShare}

// UncountedNames returns the resource names that pods may use for GPUs and that are not in CountedResources. CountPod
// counts a request by such a name as CountedResources.
func UncountedNames() []string { return []string{string(wholeGPU), string(gpuShared)} }

// CountPod replaces the device requests of the pod's containers by amounts of CountedResources. For a pod on a node,
// the amounts come from its annotation device-allocated. For other pods they are the requested amounts, as far as these
// do not depend on the node. CountPod leaves the limits unchanged, because they hold the original request.
func CountPod(pod *v1.Pod) {
	if len(pod.Spec.Containers) == 0 || !asksForDevices(pod) {
		return
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].Resources.Requests = withoutDevices(containers[i].Resources.Requests)
		}
	}
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			statuses[i].AllocatedResources = withoutDevices(statuses[i].AllocatedResources)
			if of := statuses[i].Resources; of != nil {
				of.Requests = withoutDevices(of.Requests)
			}
		}
	}
	first := &pod.Spec.Containers[0].Resources
	counted := taken(pod).Counted()
	requests := make(v1.ResourceList, len(first.Requests)+len(counted))
	maps.Copy(requests, first.Requests)
	for name, amount := range counted {
		requests[name] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	first.Requests = requests
}

func asksForDevices(pod *v1.Pod) bool {
	asks := func(c v1.Container) bool {
		return slices.ContainsFunc(names[:], func(name v1.ResourceName) bool { _, ok := c.Resources.Limits[name]; return ok })
	}
	return slices.ContainsFunc(pod.Spec.Containers, asks) || slices.ContainsFunc(pod.Spec.InitContainers, asks)
}

// withoutDevices returns the resource list without the device resources (deviceNames). It does not change the given
// list.
func withoutDevices(list v1.ResourceList) v1.ResourceList {
	own := false
	for _, name := range deviceNames {
		if _, ok := list[name]; !ok {
			continue
		}
		if !own {
			list, own = maps.Clone(list), true
		}
		delete(list, name)
	}
	return list
}

// deviceNames are the names of resources that only Device objects have.
var deviceNames = []v1.ResourceName{
	wholeGPU, gpuShared, resourceNames[Core], resourceNames[MemoryRatio], resourceNames[Memory], resourceNames[RDMAShare], resourceNames[FPGAShare],
}

// taken returns the amounts of device resources that CountPod counts for the pod.
func taken(pod *v1.Pod) (sum Amounts) {
	if pod.Spec.NodeName != "" {
		a, _ := AllocationOf(pod) // errors are ignored here: the plugin logs them when it reads the annotation in a session
		return a.Sum()
	}
	asked, err := readAsked(pod)
	if err != nil {
		return sum
	}
	if !slices.Contains(vendorForms, asked.form&gpuNames) { // a request by a vendor's name is not counted: a node without a Device object may serve it, too
		gpus, err := asked.normalizeGPUs()
		if err != nil {
			return sum
		}
		for r, amount := range gpus.amounts {
			sum[r] = times(amount, gpus.count)
		}
	}
	sum[RDMAShare], sum[FPGAShare] = asked.values[byRDMA], asked.values[byFPGA]
	return sum
}

// times returns amount times count, but at most maxAmount.
func times(amount int64, count int) int64 {
	if amount > 0 && int64(count) > maxAmount/amount {
		return maxAmount
	}
	return amount * int64(count)
}

// Sum returns the sum of the amounts of all devices in the allocation.
func (a *Allocation) Sum() (sum Amounts) {
	if a == nil {
		return sum
	}
	for t := range a {
		for i := range a[t] {
			sum = sum.Add(a[t][i].Amounts)
		}
	}
	return sum
}

// FreeSum returns the sum of the free amounts of all devices of the node.
func (s *State) FreeSum() (sum Amounts) {
	for t := range s.Devices {
		for i := range s.Devices[t] {
			sum = sum.Add(s.Free(Type(t), i))
		}
	}
	return sum
}

// Counted returns the amounts of CountedResources that are greater than zero, by resource name.
func (a Amounts) Counted() map[v1.ResourceName]int64 {
	counted := map[v1.ResourceName]int64{}
	for _, r := range CountedResources {
		if a[r] > 0 {
			counted[resourceNames[r]] = a[r]
		}
	}
	return counted
}
