// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strconv"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Upstream adds up the requests of all tasks of all jobs at several places of each session, one task after the other. A job knows the sum of what its
// placed tasks request (api.JobInfo.Allocated). So at these places upstream is shown summaries of jobs: one placed task that requests the sum, and, where
// upstream also counts placed tasks, others that request nothing.

// fewTasks is up to how many placed tasks a job is shown as it is.
const fewTasks = 3

// Summaries are jobs that are shown as summaries until Undo. The zero value is ready for use.
type Summaries struct {
	whole []wholeJob
	// placeholders are tasks that request nothing, by how many there are.
	placeholders map[int]api.TasksMap
}

// wholeJob is what a job has that is shown as a summary.
type wholeJob struct {
	job   *api.JobInfo
	tasks map[api.TaskID]*api.TaskInfo
	index map[api.TaskStatus]api.TasksMap
}

// Show shows the job as a summary, unless it has few placed tasks; with as many placed tasks as it has if they are counted. Its Tasks are only those that are
// pending, because upstream looks for gated tasks there.
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
	s.whole = append(s.whole, wholeJob{job, job.Tasks, job.TaskStatusIndex})
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
	job.Tasks, job.TaskStatusIndex = shown[api.Pending], shown
}

// Undo shows all jobs as they are.
func (s *Summaries) Undo() {
	for _, whole := range s.whole {
		whole.job.Tasks, whole.job.TaskStatusIndex = whole.tasks, whole.index
	}
	s.whole = nil
}

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

// hasZeros reports whether the sum has scalars of 0, which may be of tasks that are no longer in it.
func hasZeros(sum *api.Resource) bool {
	for _, amount := range sum.ScalarResources {
		if amount == 0 {
			return true
		}
	}
	return false
}
