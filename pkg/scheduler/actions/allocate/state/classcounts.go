// SPDX-License-Identifier: Apache-2.0

package state

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// classCounts counts a sub-job's tasks by class, from one turn to the next: tasks are mostly taken from the beginning, so that
// only those need to be counted off.
type classCounts struct {
	tasks  []*api.TaskInfo
	counts map[*feasible.TaskClass]int
	// samples are a task of each class.
	samples map[*feasible.TaskClass]*api.TaskInfo
}

// classOf returns a task's class.
type classOf func(*api.TaskInfo) *feasible.TaskClass

// countBeyond counts, for the demand, the sub-job's tasks behind the first ones, if they are of few classes.
func (r *Attempt) countBeyond(subJob api.SubJobID, tasks []*api.TaskInfo, first int, d *Demand) {
	known := r.Run.Progress.Job(r.Job)
	c := known.counts[subJob]
	if c == nil || !c.countOff(r.Run.Finder.Class, tasks) {
		c = newClassCounts(r.Run.Finder.Class, tasks)
		if known.counts == nil {
			known.counts = map[api.SubJobID]*classCounts{}
		}
		known.counts[subJob] = c
	}
	if len(c.counts) > maxDemandClasses {
		d.Unknown = true
		return
	}
	for class, count := range c.counts {
		cache, err := r.cacheFor(c.samples[class], d)
		if err != nil {
			d.Unknown = true
			return
		}
		d.Beyond[cache] += count
	}
	for _, task := range tasks[:first] {
		d.Beyond[d.caches[r.Run.Finder.Class(task)]]--
	}
}

func newClassCounts(class classOf, tasks []*api.TaskInfo) *classCounts {
	c := &classCounts{tasks: tasks, counts: map[*feasible.TaskClass]int{}, samples: map[*feasible.TaskClass]*api.TaskInfo{}}
	for _, task := range tasks {
		of := class(task)
		if c.counts[of]++; c.counts[of] == 1 {
			c.samples[of] = task
		}
	}
	return c
}

// countOff brings the counts to the tasks, if they are the last of those that were counted.
func (c *classCounts) countOff(class classOf, tasks []*api.TaskInfo) bool {
	gone := len(c.tasks) - len(tasks)
	if gone < 0 || &c.tasks[gone] != &tasks[0] {
		return false
	}
	for _, task := range c.tasks[:gone] {
		of := class(task)
		if c.counts[of]--; c.counts[of] == 0 {
			delete(c.counts, of)
		}
	}
	c.tasks = tasks
	return true
}
