// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// CapMinResources sets the gang's minResources in this session to the resources that the gang currently holds. If a
// running gang has a larger minResources, upstream's plugins keep the difference free for it. If it holds more than its
// minResources, or has no minResources, upstream's plugins treat the excess as available to other gangs. If both
// amounts are equal, upstream's plugins do neither. The PodGroup in the API server is unchanged.
func CapMinResources(job *api.JobInfo) {
	list := listOf(job.Allocated)
	job.PodGroup.Spec.MinResources = &list
}

// listOf converts the resource to a ResourceList. Upstream's NewResource converts the list back to the same resource.
func listOf(r *api.Resource) v1.ResourceList {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(int64(r.MilliCPU), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(r.Memory), resource.BinarySI),
	}
	for name, amount := range r.ScalarResources {
		if name == v1.ResourcePods {
			list[name] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
		} else {
			list[name] = *resource.NewMilliQuantity(int64(amount), resource.DecimalSI)
		}
	}
	return list
}
