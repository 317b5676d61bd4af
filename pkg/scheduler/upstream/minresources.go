// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// CapMinResources sets the gang's minResources in this session to the resources that the gang currently holds. If a
// running gang has a larger minResources, upstream's plugins keep the difference free for it. If it holds more than its
// minResources, or has no minResources, upstream's plugins treat the excess as available to other gangs. If both
// amounts are equal, upstream's plugins do neither. The PodGroup in the API server is unchanged.
func CapMinResources(job *api.JobInfo) {
	held := util.ConvertRes2ResList(job.Allocated)
	job.PodGroup.Spec.MinResources = &held
}
