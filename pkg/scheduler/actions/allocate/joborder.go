// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// jobQueue holds the jobs of a queue that are still to be scheduled in this session. Comparing two jobs by the plugins'
// order functions is costly. So jobs are first sorted by the usual criteria (state.UsualJobOrder). Sorting n jobs by the plugins
// after that takes n comparisons where both orders agree, instead of the 2 n log n comparisons of a heap.
type jobQueue struct {
	// first is the plugins' job order: it reports whether the left job goes before the right one.
	first func(l, r any) bool
	// ask calls sort, which sorts the jobs in the order of the field first. While sort runs, ask may disable plugins
	// that treat all of the jobs as equal, because their comparisons are slow.
	ask func(jobs []*api.JobInfo, sort func())
	// jobs are the queue's jobs. The first call of pop sorts them and sets sorted.
	jobs   []*api.JobInfo
	sorted bool
}

func (q *jobQueue) empty() bool { return len(q.jobs) == 0 }

func (q *jobQueue) push(job *api.JobInfo) {
	at := len(q.jobs)
	if q.sorted {
		at, _ = slices.BinarySearchFunc(q.jobs, job, q.compare)
	}
	q.jobs = slices.Insert(q.jobs, at, job)
}

// pop removes the first job and returns it.
func (q *jobQueue) pop() *api.JobInfo {
	if !q.sorted {
		slices.SortFunc(q.jobs, state.UsualJobOrder)
		q.ask(q.jobs, func() { slices.SortFunc(q.jobs, q.compare) })
		q.sorted = true
	}
	job := q.jobs[0]
	q.jobs = q.jobs[1:]
	return job
}

// reorder moves the given jobs to their new position in the queue. A position changes when a job is placed with its gang group,
// because the job is then placed without a call of pop.
func (q *jobQueue) reorder(jobs []*api.JobInfo) {
	if !q.sorted {
		return
	}
	var moved []*api.JobInfo
	q.jobs = slices.DeleteFunc(q.jobs, func(job *api.JobInfo) bool {
		if !slices.Contains(jobs, job) {
			return false
		}
		moved = append(moved, job)
		return true
	})
	for _, job := range moved {
		q.push(job)
	}
}

// compare returns the order of two jobs. It never returns 0 and calls q.first only once, because the plugins' order
// treats no two jobs as equal.
func (q *jobQueue) compare(l, r *api.JobInfo) int {
	if q.first(l, r) {
		return -1
	}
	return 1
}
