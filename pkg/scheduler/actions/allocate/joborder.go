// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// jobQueue holds the jobs of a queue that wait for a turn. Comparing two jobs with the plugins is costly, so jobs are sorted once
// by the usual criteria, and plugins compare only neighbors: n calls where the orders agree, instead of the 2 n log n of a heap.
type jobQueue struct {
	// first reports whether the left job goes before the right one.
	first func(l, r any) bool
	// ask calls sort, which compares the jobs with the plugins. It may leave out plugins that treat all of them as equal.
	ask func(jobs []*api.JobInfo, sort func())
	// jobs are in order once sorted is set, which the first pop does.
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

// pop returns the first job.
func (q *jobQueue) pop() *api.JobInfo {
	if !q.sorted {
		slices.SortFunc(q.jobs, usualOrder)
		q.ask(q.jobs, func() { slices.SortFunc(q.jobs, q.compare) })
		q.sorted = true
	}
	job := q.jobs[0]
	q.jobs = q.jobs[1:]
	return job
}

// reorder moves jobs of the queue to their new place in the order, after they were placed with their gang group, without a turn of
// their own.
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

// compare calls first only once, because no two jobs are equal.
func (q *jobQueue) compare(l, r *api.JobInfo) int {
	if q.first(l, r) {
		return -1
	}
	return 1
}

// usualOrder is the order of the priority plugin and the session's fallback.
func usualOrder(l, r *api.JobInfo) int {
	return cmp.Or(cmp.Compare(r.Priority, l.Priority), l.CreationTimestamp.Compare(r.CreationTimestamp.Time), cmp.Compare(l.UID, r.UID))
}
