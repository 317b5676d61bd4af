// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// CapMinResources sets the gang's minResources in this session to the resources that the gang currently holds. If a running gang
// has a larger minResources, upstream's plugins keep the difference free for it. If it holds more than its minResources, or has
// none, they treat the excess as available to others. With equal amounts they do neither. For an admitted gang that does not run
// yet, they reserve minResources in addition to the held resources, so the held resources count twice until it runs.
func CapMinResources(job *api.JobInfo) { SetMinResources(job, job.Allocated) }

// SetMinResources sets the gang's minResources as the plugins of this session read it.
func SetMinResources(job *api.JobInfo, amount *api.Resource) {
	list := listOf(amount)
	job.PodGroup.Spec.MinResources = &list
}

// listOf converts the resource to a list; upstream's NewResource converts it back.
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
