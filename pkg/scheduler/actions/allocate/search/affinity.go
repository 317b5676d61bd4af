// SPDX-License-Identifier: Apache-2.0

package search

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// maxAffinityLooks bounds how often a task is compared with the required pod affinity of another task, to find out
// which gangs of a gang group need each other's pods. So many comparisons take a few milliseconds. Beyond the bound,
// the search assumes that no gang needs another gang's pods.
const maxAffinityLooks = 10_000

// needs is a pair of gangs. The first fits nowhere before a pod of the second is placed.
type needs struct{ one, other api.JobID }

// neededFirst moves gangs whose pods another gang needs by required pod affinity to the front of that gang. Otherwise it
// keeps the order.
func (u *GroupSearch) neededFirst(order []*api.JobInfo) []*api.JobInfo {
	if u.needs == nil {
		u.needs = u.findNeeds()
	}
	if len(u.needs) == 0 {
		return order
	}
	sorted, seen := make([]*api.JobInfo, 0, len(order)), map[api.JobID]bool{}
	var add func(job *api.JobInfo)
	add = func(job *api.JobInfo) {
		if seen[job.UID] {
			return
		}
		seen[job.UID] = true
		for _, other := range order {
			if u.needs[needs{job.UID, other.UID}] {
				add(other)
			}
		}
		sorted = append(sorted, job)
	}
	for _, job := range order {
		add(job)
	}
	return sorted
}

// findNeeds returns the pairs of gangs of the gang group in which the first gang needs pods of the second.
func (u *GroupSearch) findNeeds() map[needs]bool {
	found, looks := map[needs]bool{}, 0
	if !slices.ContainsFunc(u.gangs, hasAffinity) {
		return found
	}
	all, tasks := 0, map[api.JobID][]*api.TaskInfo{}
	for _, job := range u.gangs {
		tasks[job.UID] = u.different(job)
		all += len(tasks[job.UID])
	}
	for _, job := range u.gangs {
		for _, task := range tasks[job.UID] {
			if task.Pod.Spec.Affinity == nil {
				continue
			}
			if looks += all; looks > maxAffinityLooks {
				return map[needs]bool{}
			}
			needed := feasible.NeededBy(u.run.Finder, task)
			for _, other := range u.gangs {
				if needed != nil && other != job && slices.ContainsFunc(tasks[other.UID], needed) {
					found[needs{job.UID, other.UID}] = true
				}
			}
		}
	}
	return found
}

// hasAffinity reports whether a pending task of the job has affinity of any kind.
func hasAffinity(job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if task.Pod.Spec.Affinity != nil {
			return true
		}
	}
	return false
}

// different returns one pending task of each task class of the job.
func (u *GroupSearch) different(job *api.JobInfo) (tasks []*api.TaskInfo) {
	seen := map[*feasible.TaskClass]bool{}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if class := u.run.Finder.Class(task); !seen[class] {
			seen[class] = true
			tasks = append(tasks, task)
		}
	}
	return tasks
}
