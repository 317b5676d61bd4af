// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// ReckonWithHoldings has the session reckon with minResources that are what the gang holds now. Upstream's plugins keep room for
// what a running gang's minResources are beyond that, and let others into the room of what it holds beyond its minResources, which is
// all of it when it has none: so there is neither. For a gang that was let in and does not run yet they keep its minResources
// whatever it holds, so what it holds counts twice until it runs.
func ReckonWithHoldings(job *api.JobInfo) { ReckonWith(job, job.Allocated) }

// ReckonWith has the session count the amount as the gang's minResources.
func ReckonWith(job *api.JobInfo, amount *api.Resource) {
	list := listOf(amount)
	job.PodGroup.Spec.MinResources = &list
}

// listOf is the list that upstream's NewResource makes the resource of.
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
