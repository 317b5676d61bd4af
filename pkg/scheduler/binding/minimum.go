// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// The minimum of a gang is minMember of its members in all, minTaskMember of every role, and the minima of its
// sub-groups, whichever of these asks for most. It is the same for every part of the scheduler: ShortOf holds members
// against it, and sessions see MinAvailable, by which upstream's functions come to the same.

// LeastMembers is how many members reach the gang's minimum at the least: minMember, or what its roles or its sub-groups
// need together when that is more.
func LeastMembers(pg *api.PodGroup) int32 {
	var roles, subGroups int64
	for _, n := range RoleMinima(pg, &pg.Spec) {
		roles += max(0, int64(n))
	}
	for _, policy := range pg.Spec.SubGroupPolicy {
		if policy.MinSubGroups != nil && policy.SubGroupSize != nil {
			subGroups += max(0, int64(*policy.MinSubGroups)) * max(0, int64(*policy.SubGroupSize))
		}
	}
	return int32(min(max(int64(pg.Spec.MinMember), roles, subGroups), math.MaxInt32))
}

// RoleMinima returns the minima of the gang's task roles as the spec has them, live or not. The controller of a Volcano Job fills in the replicas of every
// task that names no minimum of its own; when such a Job's minMember is less than their sum, these are no minima, as
// upstream has it: the Job is meant to run with fewer.
func RoleMinima(pg *api.PodGroup, spec *scheduling.PodGroupSpec) map[string]int32 {
	var sum int64
	for _, n := range spec.MinTaskMember {
		sum += int64(n)
	}
	if int64(spec.MinMember) < sum && OfVolcanoJob(pg) {
		return nil
	}
	return spec.MinTaskMember
}

// OfVolcanoJob is true of the PodGroup of a Volcano Job, whose controller makes its pods, task after task if need be.
func OfVolcanoJob(pg *api.PodGroup) bool {
	if pg == nil {
		return false
	}
	owner := metav1.GetControllerOf(pg)
	return owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/")
}

// subGroupsOf are the gang's sub-groups as the spec's policies divide it, and how many whole ones of each policy it needs.
func subGroupsOf(job *api.JobInfo, spec *scheduling.PodGroupSpec) (map[api.SubJobID]*api.SubJobInfo, map[api.SubJobGID]int32) {
	if job.PodGroup == nil || spec == &job.PodGroup.Spec || equality.Semantic.DeepEqual(job.PodGroup.Spec.SubGroupPolicy, spec.SubGroupPolicy) {
		return job.SubJobs, job.MinSubJobs
	}
	pg := job.PodGroup.Clone()
	pg.Spec = *spec
	divided := api.NewJobInfo(job.UID)
	divided.SetPodGroup(pg)
	for _, task := range job.Tasks {
		divided.AddTaskInfo(task)
	}
	return divided.SubJobs, divided.MinSubJobs
}

// MinimumAnnotation is on the pods of a gang and says for how many members at the least its minimum was when the pod was
// bound. It travels in the Binding, so that the next leader knows it, too. A gang of one has none. The chart's admission policy
// keeps everybody else from writing it to pods that have a node.
const MinimumAnnotation = "binding.volcano-prebind.io/minimum"

// RecordMinimum stages the annotation for a member that is about to be bound, in place of what somebody else wrote there.
func (m *Member) RecordMinimum(least int32) {
	pod := m.Task.Pod
	if _, written := pod.Annotations[MinimumAnnotation]; !written && least <= 1 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[MinimumAnnotation] = strconv.Itoa(int(least))
}

// BoundFor is the largest minimum that was in force when a member was bound that is placed now; 0 when none says, as when
// another scheduler bound them.
func BoundFor(job *api.JobInfo) (least int32) {
	for _, task := range job.Tasks {
		if text, ok := task.Pod.Annotations[MinimumAnnotation]; ok && Placed(task) {
			if n, err := strconv.ParseInt(text, 10, 32); err == nil {
				least = max(least, int32(n))
			}
		}
	}
	return least
}
