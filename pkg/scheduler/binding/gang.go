// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Including returns a function that reports whether a task counts for the minimum: it belongs to one of these members,
// or is already bound.
func Including(list []*Member) func(*api.TaskInfo) bool {
	of := Only(list)
	return func(task *api.TaskInfo) bool { return of(task) || CountsAsBound(task) }
}

// Only returns a function that reports whether a task belongs to one of these members. No other task counts for the
// minimum.
func Only(list []*Member) func(*api.TaskInfo) bool {
	set := make(map[api.TaskID]bool, len(list))
	for _, m := range list {
		set[m.Task.UID] = true
	}
	return func(task *api.TaskInfo) bool { return set[task.UID] }
}

// CountsAsBound reports whether a task counts for its gang's minimum without a transaction: it is known to be bound,
// runs, or has succeeded. A task in status Binding does not count.
func CountsAsBound(task *api.TaskInfo) bool {
	switch task.Status {
	case api.Bound, api.Running, api.Succeeded:
		return true
	default:
		return false
	}
}

// ShortOf returns nil if the tasks that the function counts accepts reach the gang's minimum, which spec contains.
// Otherwise it returns an error that says what is missing.
func ShortOf(job *api.JobInfo, spec *scheduling.PodGroupSpec, counts func(*api.TaskInfo) bool) error {
	var total int32
	roles := map[string]int32{}
	for _, task := range job.Tasks {
		if counts(task) {
			total++
			roles[task.TaskRole]++
		}
	}
	var short shortfall
	if members := shortOfMembers(total, spec); members != "" {
		short.parts = append(short.parts, members)
	}
	minima := RoleMinima(spec)
	short.addAll(lacking(minima, roles), func(role string) string {
		return fmt.Sprintf("%d of minTaskMember %d of %s", roles[role], minima[role], brief.Value(role))
	})
	subGroups, needed := subGroupsOf(job, spec)
	whole := WholeSubGroups(subGroups, counts)
	short.addAll(lacking(needed, whole), func(gid string) string {
		return fmt.Sprintf("%d of %d sub-groups of policy %s",
			whole[api.SubJobGID(gid)], needed[api.SubJobGID(gid)], brief.Value(gid))
	})
	return short.err()
}

// ShortOfBound returns an error that says which minimum the job's bound tasks do not reach; nil if they reach all
// minima. The bound tasks are the tasks that CountsAsBound accepts. The minima come from the job's PodGroup. For a gang
// without minima of roles and sub-groups, only the number of bound tasks is compared.
func ShortOfBound(job *api.JobInfo) error {
	spec := &job.PodGroup.Spec
	if len(RoleMinima(spec)) > 0 || len(job.MinSubJobs) > 0 {
		return ShortOf(job, spec, CountsAsBound)
	}
	if short := shortOfMembers(BoundMembers(job), spec); short != "" {
		return errors.New(short)
	}
	return nil
}

// MinimumBound reports whether the job's bound tasks reach all minima. It is ShortOfBound for callers that do not need
// the text.
func MinimumBound(job *api.JobInfo) bool {
	spec := &job.PodGroup.Spec
	if len(RoleMinima(spec)) > 0 || len(job.MinSubJobs) > 0 {
		return ShortOf(job, spec, CountsAsBound) == nil
	}
	return BoundMembers(job) >= spec.MinMember
}

// BoundMembers returns the number of the job's tasks that CountsAsBound accepts.
func BoundMembers(job *api.JobInfo) int32 {
	return int32(len(job.TaskStatusIndex[api.Bound]) + len(job.TaskStatusIndex[api.Running]) + len(job.TaskStatusIndex[api.Succeeded]))
}

// shortOfMembers returns how many of minMember a gang with total members has, such as "3 of minMember 5"; empty when it
// has enough.
func shortOfMembers(total int32, spec *scheduling.PodGroupSpec) string {
	if total >= spec.MinMember {
		return ""
	}
	return fmt.Sprintf("%d of minMember %d", total, spec.MinMember)
}

// WholeSubGroups counts, for each sub-group policy, the sub-groups that reach their size with the tasks that the
// function counts accepts.
func WholeSubGroups(subGroups map[api.SubJobID]*api.SubJobInfo, counts func(*api.TaskInfo) bool) map[api.SubJobGID]int32 {
	whole := map[api.SubJobGID]int32{}
	for _, sub := range subGroups {
		var n int32
		for _, task := range sub.Tasks {
			if counts(task) {
				n++
			}
		}
		if n >= sub.MinAvailable {
			whole[sub.GID]++
		}
	}
	return whole
}
