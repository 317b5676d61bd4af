// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// noteMembers records the members that wait for the nodes.
func (r *reservation) noteMembers(job *api.JobInfo) {
	if r.members == nil {
		r.members = map[api.TaskID]bool{}
	}
	for uid := range job.TaskStatusIndex[api.Pending] {
		r.members[uid] = true
	}
}

// shortOf returns the shortfall of the gang's minimum; nil if members that have waited for the nodes reach it. A pod
// that was created with a node does not count, because a tenant could create one to end the reservation without a
// pause.
func (r *reservation) shortOf(job *api.JobInfo) error {
	return binding.ShortOf(job, &job.PodGroup.Spec, func(task *api.TaskInfo) bool { return r.members[task.UID] && binding.Placed(task) })
}

// hasHardTopology reports whether the gang, or one of its sub-groups, must be in a HyperNode of a given tier.
func hasHardTopology(job *api.JobInfo) bool {
	hard := func(topology *scheduling.NetworkTopologySpec) bool {
		return topology != nil && topology.Mode == scheduling.HardNetworkTopologyMode &&
			(topology.HighestTierAllowed != nil || topology.HighestTierName != "")
	}
	return hard(job.PodGroup.Spec.NetworkTopology) || slices.ContainsFunc(job.PodGroup.Spec.SubGroupPolicy,
		func(policy scheduling.SubGroupPolicySpec) bool { return hard(policy.NetworkTopology) })
}
