// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"maps"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// A gang reaches its minimum with minMember members in all, minTaskMember members of every role (unless their sum
// exceeds minMember), and the required number of complete sub-groups of every sub-group policy (subGroupPolicy). Every
// part of the scheduler applies the same rule. ShortOf checks members against this rule. ApplyMinimum copies the
// minimum to a job of a snapshot, where upstream's functions read it.

// LeastMembers returns the smallest number of members that can reach the gang's minimum. It is minMember, or the total
// that the roles or the sub-groups need when that is larger.
func LeastMembers(pg *api.PodGroup) int32 {
	var roles, subGroups int64
	for _, n := range RoleMinima(&pg.Spec) {
		roles += max(0, int64(n))
	}
	for _, policy := range pg.Spec.SubGroupPolicy {
		if policy.MinSubGroups != nil && policy.SubGroupSize != nil {
			subGroups += max(0, int64(*policy.MinSubGroups)) * max(0, int64(*policy.SubGroupSize))
		}
	}
	return int32(min(max(int64(pg.Spec.MinMember), roles, subGroups), math.MaxInt32))
}

// RoleMinima returns the minima of the gang's roles. As in upstream, the roles have no minima when minMember is less
// than the sum of minTaskMember. The gang may then run with fewer members than its roles list, of any role
// (https://github.com/volcano-sh/volcano/issues/1755).
func RoleMinima(spec *scheduling.PodGroupSpec) map[string]int32 {
	if int64(spec.MinMember) < sumOf(spec.MinTaskMember) {
		return nil
	}
	return spec.MinTaskMember
}

func sumOf(minima map[string]int32) (sum int64) {
	for _, n := range minima {
		sum += int64(n)
	}
	return sum
}

// ApplyMinimum sets the job's minima, which a session reads, to the minima of its PodGroup. The job must be the
// session's own copy.
func ApplyMinimum(job *api.JobInfo) {
	job.MinAvailable = LeastMembers(job.PodGroup)
	if len(RoleMinima(&job.PodGroup.Spec)) == 0 {
		clear(job.TaskMinAvailable)
		job.TaskMinAvailableTotal = 0
	}
}

// MinimumApplied reports whether the job has the minima of the PodGroup, as ApplyMinimum sets them.
func MinimumApplied(job *api.JobInfo, pg *api.PodGroup) bool {
	minima := RoleMinima(&pg.Spec)
	return job.MinAvailable == LeastMembers(pg) && int64(job.TaskMinAvailableTotal) == sumOf(minima) &&
		job.TaskMinAvailable != nil && maps.Equal(job.TaskMinAvailable, minima)
}

// OfVolcanoJob reports whether a Volcano Job owns the PodGroup. The pods of such a PodGroup may not all exist yet: the
// Job's controller creates them, task by task if tasks depend on each other.
func OfVolcanoJob(pg *api.PodGroup) bool {
	if pg == nil {
		return false
	}
	owner := metav1.GetControllerOf(pg)
	return owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch.volcano.sh/")
}

// subGroupsOf returns the gang's sub-groups according to the sub-group policies in spec (subGroupPolicy), and how many
// complete sub-groups each of these policies needs.
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

// MinimumAnnotation is on the pods of a gang and holds the gang's minimum at the time the pod was bound. It is written
// with the Binding, so that the next leader can read it. It is not added if the minimum is 1 or less. The
// chart's admission policy allows only the scheduler to write the annotation to pods that have a node.
const MinimumAnnotation = "binding.volcano-prebind.io/minimum"

// QueueAnnotation names the queue in which the pod was bound, unless that is DefaultQueue. A scheduler that starts
// counts the pod's gang against this queue, even if its PodGroup has since moved to another queue. The chart's
// admission policy protects this annotation like MinimumAnnotation.
const QueueAnnotation = "binding.volcano-prebind.io/queue"

// DefaultQueue is the queue of pods without a QueueAnnotation.
const DefaultQueue = "default"

// RecordMinimum stages MinimumAnnotation for a member that is about to be bound. It replaces a value that another client set.
func (m *Member) RecordMinimum(least int32) {
	m.record(MinimumAnnotation, strconv.Itoa(int(least)), least > 1)
}

// RecordQueue stages QueueAnnotation for a member that is about to be bound. It replaces a value that another client set.
func (m *Member) RecordQueue(queue string) { m.record(QueueAnnotation, queue, queue != DefaultQueue) }

func (m *Member) record(annotation, value string, needed bool) {
	pod := m.Task.Pod
	if _, written := pod.Annotations[annotation]; !written && !needed {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = value
}

// BoundFor returns the largest minimum that is recorded on a member that is now bound. It returns 0 if no member records
// one, for example because another scheduler bound the members.
func BoundFor(job *api.JobInfo) (least int32) {
	for _, task := range job.Tasks {
		if text, ok := task.Pod.Annotations[MinimumAnnotation]; ok && CountsAsBound(task) {
			if n, err := strconv.ParseInt(text, 10, 32); err == nil {
				least = max(least, int32(n))
			}
		}
	}
	return least
}
