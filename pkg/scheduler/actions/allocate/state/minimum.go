// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// NeededAtOnce returns how many of the given number of tasks must be placed before the sub-job can be ready. It returns
// 1 if that is unknown. If the sub-job needs no tasks, and no other job is left to be placed, it returns the given
// number.
func (r *Attempt) NeededAtOnce(subJob *api.SubJobInfo, tasks int) int {
	if !r.Run.Progress.GangDecides {
		return 1
	}
	needed := r.NeededBySubJob(subJob)
	if needed < 1 && r.alone {
		return tasks
	}
	return max(needed, 1)
}

// NeededBySubJob returns how many more tasks must be placed until the gang plugin counts the sub-job as ready.
func (r *Attempt) NeededBySubJob(subJob *api.SubJobInfo) int {
	if !r.Job.ContainsSubJobPolicy() {
		return r.NeededByJob()
	}
	if r.Run.Progress.subJobPlaced(r.Job, subJob) {
		return 0
	}
	return int(subJob.MinAvailable - subJob.ReadyTaskNum() - subJob.PendingBestEffortTaskNum())
}

// NeededByJob returns how many more tasks must be placed until the gang plugin counts the job as ready.
func (r *Attempt) NeededByJob() int {
	if !r.Run.Progress.GangDecides || r.Run.Progress.MinimumPlaced(r.Job) {
		return 0
	}
	return int(r.Job.MinAvailable - r.Job.ReadyTaskNum() - r.Job.PendingBestEffortTaskNum())
}

// NeededByRole returns how many more tasks of each role the job's minimum needs.
func (r *Attempt) NeededByRole() map[string]int32 {
	job := r.Job
	if !r.Run.Progress.GangDecides {
		return nil
	}
	needed := maps.Clone(job.TaskMinAvailable)
	for status, tasks := range job.TaskStatusIndex {
		for _, task := range tasks {
			if api.AllocatedStatus(status) || status == api.Succeeded || status == api.Pending && task.InitResreq.IsEmpty() {
				needed[task.TaskRole]--
			}
		}
	}
	return needed
}

// leastNeeded returns the smallest number of tasks that the job's minimum needs. For each sub-group policy, it counts
// the sub-jobs with the smallest needs, as many as must become ready. The result is never below the need of the whole
// job. A ready job may continue with any sub-job.
func (r *Attempt) leastNeeded() int {
	if !r.Job.ContainsSubJobPolicy() {
		subJob := r.Job.SubJobs[r.Job.DefaultSubJobID()]
		return min(r.NeededAtOnce(subJob, 1), len(r.Pending.Tasks[subJob.UID]))
	}
	jobReady := r.Run.Progress.JobReady(r.Job)
	all, step := 0, 0
	byPolicy := map[api.SubJobGID][]int{}
	for _, subJob := range r.Pending.SubJobs {
		tasks := len(r.Pending.Tasks[subJob.UID])
		needed := min(r.NeededAtOnce(subJob, 1), tasks)
		all += tasks
		if step == 0 || needed < step {
			step = needed
		}
		if !jobReady && !r.Run.Progress.SubJobReady(r.Job, subJob) {
			byPolicy[subJob.GID] = append(byPolicy[subJob.GID], needed)
		}
	}
	if jobReady {
		return step
	}
	ready := r.Run.Progress.readySubJobs(r.Job)
	sum := 0
	for policy, needed := range byPolicy {
		slices.Sort(needed)
		for _, n := range needed[:min(len(needed), max(0, int(r.Job.MinSubJobs[policy]-ready[policy])))] {
			sum += n
		}
	}
	return max(sum, step, min(r.NeededByJob(), all))
}
