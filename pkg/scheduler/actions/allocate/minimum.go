// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// neededAtOnce is how many of so many tasks must be placed at least before the sub-job can be ready: 1 when that is not known,
// all when nobody is kept waiting by that.
func (r *Attempt) neededAtOnce(subJob *api.SubJobInfo, tasks int) int {
	if !r.run.progress.gangDecides {
		return 1
	}
	needed := r.neededBySubJob(subJob)
	if needed < 1 && r.alone {
		return tasks
	}
	return max(needed, 1)
}

// neededBySubJob is how many more tasks the gang plugin needs to call the sub-job ready.
func (r *Attempt) neededBySubJob(subJob *api.SubJobInfo) int {
	if !r.job.ContainsSubJobPolicy() {
		return r.neededByJob()
	}
	if r.run.progress.subJobPlaced(r.job, subJob) {
		return 0
	}
	return int(subJob.MinAvailable - subJob.ReadyTaskNum() - subJob.PendingBestEffortTaskNum())
}

// neededByJob is the same of the job, for which it may ask for more.
func (r *Attempt) neededByJob() int {
	if !r.run.progress.gangDecides || r.run.progress.minimumPlaced(r.job) {
		return 0
	}
	return int(r.job.MinAvailable - r.job.ReadyTaskNum() - r.job.PendingBestEffortTaskNum())
}

// neededByRole returns how many more tasks of each role the job's minimum needs.
func (r *Attempt) neededByRole() map[string]int32 {
	job := r.job
	if !r.run.progress.gangDecides {
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

// leastNeeded is how many tasks the job's minimum needs at least: of each policy the smallest sub-jobs of those that may be made
// ready, and no fewer than the job needs as a whole. A job that is ready takes any sub-job further.
func (r *Attempt) leastNeeded() int {
	if !r.job.ContainsSubJobPolicy() {
		subJob := r.job.SubJobs[r.job.DefaultSubJobID()]
		return min(r.neededAtOnce(subJob, 1), len(r.pending.tasks[subJob.UID]))
	}
	jobReady := r.run.progress.jobReady(r.job)
	all, step := 0, 0
	byPolicy := map[api.SubJobGID][]int{}
	for _, subJob := range r.pending.subJobs {
		tasks := len(r.pending.tasks[subJob.UID])
		needed := min(r.neededAtOnce(subJob, 1), tasks)
		all += tasks
		if step == 0 || needed < step {
			step = needed
		}
		if !jobReady && !r.run.progress.subJobReady(r.job, subJob) {
			byPolicy[subJob.GID] = append(byPolicy[subJob.GID], needed)
		}
	}
	if jobReady {
		return step
	}
	ready := r.run.progress.readySubJobs(r.job)
	sum := 0
	for policy, needed := range byPolicy {
		slices.Sort(needed)
		for _, n := range needed[:min(len(needed), max(0, int(r.job.MinSubJobs[policy]-ready[policy])))] {
			sum += n
		}
	}
	return max(sum, step, min(r.neededByJob(), all))
}
