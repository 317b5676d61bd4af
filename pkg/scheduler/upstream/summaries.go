// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strconv"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Upstream adds up the requests of all tasks of all jobs several times in a session, task by task. But a job already
// has the sum of the requests of its placed tasks (api.JobInfo.Allocated). So in these places upstream sees summaries
// of jobs. A summary has one placed task that requests the sum. Where upstream also counts placed tasks, the summary
// has further placed tasks that request nothing.

// fewTasks is the largest number of placed tasks with which Show leaves a job unchanged.
const fewTasks = 3

// Summaries are jobs in which, until Undo, one task with the sum of their requests replaces the placed tasks (a
// summary). The zero value is ready for use.
type Summaries struct {
	whole []wholeJob
	// placeholders caches sets of tasks that request nothing, by the number of tasks in a set.
	placeholders map[int]api.TasksMap
}

// wholeJob holds the original fields of a job whose placed tasks are replaced by a summary.
type wholeJob struct {
	job   *api.JobInfo
	tasks map[api.TaskID]*api.TaskInfo
	index map[api.TaskStatus]api.TasksMap
	// shown is the index of the summary.
	shown map[api.TaskStatus]api.TasksMap
}

// Show replaces the job's placed tasks by a summary: one task with the sum of their requests. It does nothing if the
// job has few placed tasks or a sum with scalars of 0. If counted is set, tasks without requests are added, so that the
// number of placed tasks stays the same. Until Undo, the job's Tasks are only the pending tasks, because upstream
// searches them for gated tasks.
func (s *Summaries) Show(job *api.JobInfo, counted bool) {
	placed := 0
	for status, tasks := range job.TaskStatusIndex {
		if api.AllocatedStatus(status) {
			placed += len(tasks)
		}
	}
	if placed <= fewTasks || hasZeros(job.Allocated) {
		return
	}
	shown := make(map[api.TaskStatus]api.TasksMap, len(job.TaskStatusIndex)+1)
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			shown[status] = tasks
		}
	}
	if counted {
		shown[api.Running] = s.placeholdersOf(placed - 1)
	}
	shown[api.Bound] = api.TasksMap{"": {Job: job.UID, Resreq: job.Allocated.Clone()}}
	s.whole = append(s.whole, wholeJob{job, job.Tasks, job.TaskStatusIndex, shown})
	job.Tasks, job.TaskStatusIndex = shown[api.Pending], shown
}

// Undo restores the placed tasks of all jobs that Show has changed.
func (s *Summaries) Undo() {
	for i := range s.whole {
		whole := &s.whole[i]
		whole.job.Tasks, whole.job.TaskStatusIndex = whole.tasks, whole.index
	}
}

// Again shows the summaries that Show has made before Undo. The tasks of their jobs must not have changed since.
func (s *Summaries) Again() {
	for i := range s.whole {
		whole := &s.whole[i]
		whole.job.Tasks, whole.job.TaskStatusIndex = whole.shown[api.Pending], whole.shown
	}
}

// Forget drops all summaries. It is called after Undo.
func (s *Summaries) Forget() { s.whole = nil }

func (s *Summaries) placeholdersOf(count int) api.TasksMap {
	if known, ok := s.placeholders[count]; ok {
		return known
	}
	nothing := &api.TaskInfo{Resreq: api.EmptyResource()}
	tasks := make(api.TasksMap, count)
	for i := range count {
		tasks[api.TaskID(strconv.Itoa(i))] = nothing
	}
	if s.placeholders == nil {
		s.placeholders = map[int]api.TasksMap{}
	}
	s.placeholders[count] = tasks
	return tasks
}

// hasZeros reports whether the sum of a job's requests has scalars of 0. These may remain from tasks that are no longer
// part of the sum.
func hasZeros(sum *api.Resource) bool {
	for _, amount := range sum.ScalarResources {
		if amount == 0 {
			return true
		}
	}
	return false
}
