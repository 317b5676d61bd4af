// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// resolveTierNames replaces the names of HyperNode tiers by their numbers, in a copy of the job's PodGroup that only
// the session uses. It also rebuilds the job's sub-jobs, because each sub-job has its own copy of the network topology.
func resolveTierNames(ssn *framework.Session, job *api.JobInfo) {
	podGroup := job.PodGroup.Clone()
	topologies := []*scheduling.NetworkTopologySpec{podGroup.Spec.NetworkTopology}
	for _, policy := range podGroup.Spec.SubGroupPolicy {
		topologies = append(topologies, policy.NetworkTopology)
	}
	for _, topology := range topologies {
		if topology == nil || topology.HighestTierName == "" || topology.HighestTierAllowed != nil {
			continue
		}
		tier, ok := ssn.HyperNodeTierNameMap[topology.HighestTierName]
		if !ok {
			klog.V(2).InfoS("The PodGroup names a HyperNode tier that does not exist", "podGroup", klog.KRef(job.Namespace, job.Name),
				"highestTierName", topology.HighestTierName)
			continue
		}
		topology.HighestTierAllowed, topology.HighestTierName = &tier, ""
	}
	allocated := map[api.SubJobID]string{}
	for uid, subJob := range job.SubJobs {
		allocated[uid] = subJob.AllocatedHyperNode
	}
	// SetPodGroup resets the job's queue and minima to the values of the PodGroup. The job's own values are saved and
	// restored, because plugins may have set other minima, and running pods may keep the job in another queue.
	queue, least, ofRoles, ofAllRoles, subJobs := job.Queue, job.MinAvailable, maps.Clone(job.TaskMinAvailable), job.TaskMinAvailableTotal, maps.Clone(job.MinSubJobs)
	job.SetPodGroup(podGroup)
	job.Queue, job.MinAvailable, job.TaskMinAvailable, job.TaskMinAvailableTotal, job.MinSubJobs = queue, least, ofRoles, ofAllRoles, subJobs
	for uid, subJob := range job.SubJobs {
		subJob.AllocatedHyperNode = allocated[uid]
	}
}

// namesTiers reports whether the job's PodGroup names a HyperNode tier instead of giving its number.
func namesTiers(job *api.JobInfo) bool {
	names := func(t *scheduling.NetworkTopologySpec) bool {
		return t != nil && t.HighestTierName != "" && t.HighestTierAllowed == nil
	}
	return names(job.PodGroup.Spec.NetworkTopology) || slices.ContainsFunc(job.PodGroup.Spec.SubGroupPolicy,
		func(policy scheduling.SubGroupPolicySpec) bool { return names(policy.NetworkTopology) })
}

// lowestHyperNode returns the HyperNode of the lowest tier that holds all placed members of the job; empty if no
// HyperNode holds all of them, or if no member is placed. Upstream sets this HyperNode only for jobs whose sub-jobs
// have a topology of their own. But in any job, a new member that replaces a lost member must be placed near the
// running members (https://github.com/volcano-sh/volcano/pull/3971).
func lowestHyperNode(ssn *framework.Session, job *api.JobInfo) string {
	nodes := sets.New[string]()
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) {
			for _, task := range tasks {
				nodes.Insert(task.NodeName)
			}
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	for _, tier := range ssn.HyperNodesTiers {
		for _, name := range sets.List(ssn.HyperNodesSetByTier[tier]) {
			if name != vcframework.ClusterTopHyperNode && ssn.RealNodesSet[name].IsSuperset(nodes) {
				return name
			}
		}
	}
	return ""
}
