// SPDX-License-Identifier: Apache-2.0

package main

import (
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/dynamicresources"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"
)

const groupsAnnotation = gangs.GroupsAnnotation

// bindAnnotations and bindGroupAnnotations are part of Bindings, and the scheduler reads them back.
var (
	bindAnnotations      = []string{binding.MinimumAnnotation, gangs.BindMembersAnnotation, gangs.OldBindMembersAnnotation}
	bindGroupAnnotations = []string{gangs.BindGroupAnnotation, gangs.OldBindGroupAnnotation}
)

// jsonAnnotations are the annotations that are parsed as JSON.
var jsonAnnotations = []string{
	gangs.GroupsAnnotation, gangs.TopologyAnnotation, gangs.TopologySelectorAnnotation,
	v1alpha1.DeviceAllocatedAnnotation, v1alpha1.DeviceAllocateHintAnnotation, v1alpha1.DeviceJointAllocateAnnotation, v1alpha1.GPUPartitionSpecAnnotation,
	v1beta1.VolcanoGroupMinResourcesAnnotationKey, v1beta1.TopologyDecisionAnnotation,
}

// readAnnotations returns the other annotations of pods and PodGroups that the scheduler, upstream's plugins and the
// controllers read.
func readAnnotations() []string {
	read := []string{
		gangs.NameAnnotation, gangs.MinAvailableAnnotation, gangs.TotalNumberAnnotation, gangs.ModeAnnotation, gangs.WaitingTimeAnnotation,
		gangs.MatchPolicyAnnotation, gangs.MatchPolicyAlias, gangs.TopologyIndexAnnotation, gangs.SourceAnnotation,
		ibcluster.ModeAnnotation, ibcluster.LevelAnnotation, ibcluster.ClustersAnnotation, ibcluster.AffinityGroupAnnotation,
		volumebinding.SchedulerAnnotation, volumebinding.ClaimAnnotation, dynamicresources.SchedulerAnnotation,
		v1beta1.KubeGroupNameAnnotationKey, v1beta1.VolcanoGroupNameAnnotationKey, v1beta1.VolcanoGroupMinMemberAnnotationKey, v1beta1.QueueNameAnnotationKey,
		v1beta1.JobWaitingTime, v1beta1.PodPreemptable, v1beta1.CooldownTime, v1beta1.RevocableZone, v1beta1.JDBMinAvailable, v1beta1.JDBMaxUnavailable,
		v1beta1.NumaPolicyKey, v1beta1.PodQosLevel, v1beta1.KubeHierarchyAnnotationKey, v1beta1.KubeHierarchyWeightAnnotationKey,
		"volcano.sh/task-spec", "volcano.sh/task-index", "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity",
		"volcano.sh/task-topology-task-order", "batch.kubernetes.io/job-completion-index", "volcano.sh/gpu-index", "volcano.sh/vgpu-ids-new",
	}
	return append(append(read, bindAnnotations...), bindGroupAnnotations...)
}
