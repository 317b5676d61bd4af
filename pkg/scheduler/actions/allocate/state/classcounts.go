// SPDX-License-Identifier: Apache-2.0

package state

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// classCounts counts a sub-job's tasks by class, and is kept from one attempt to place the job to the next. Usually,
// tasks are only removed from the beginning of the list between attempts, and countOff subtracts these.
type classCounts struct {
	tasks  []*api.TaskInfo
	counts map[*feasible.TaskClass]int
	// samples has one task of each class.
	samples map[*feasible.TaskClass]*api.TaskInfo
}

// classOf is a function that returns a task's class.
type classOf func(*api.TaskInfo) *feasible.TaskClass

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

// countOff updates the counts after tasks were removed from the beginning of the counted list. tasks are the remaining
// tasks. countOff returns false if they are not the end of the counted list.
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
