// SPDX-License-Identifier: Apache-2.0

package allocate

import "volcano.sh/volcano/pkg/scheduler/api"

// tally counts a sub-job's tasks by kind, from one time they are looked at to the next: tasks are mostly taken from the
// beginning, so that only those need to be counted off.
type tally struct {
	tasks  []*api.TaskInfo
	counts map[*kind]int
	// samples are a task of each kind.
	samples map[*kind]*api.TaskInfo
}

// countBeyond counts, for the need, the sub-job's tasks behind the first ones, if they are of few kinds.
func (a *allocation) countBeyond(job *api.JobInfo, subJob api.SubJobID, tasks []*api.TaskInfo, first int, n *need) {
	tallies := a.standingOf(job).tallies
	t := tallies[subJob]
	if t == nil || !t.countOff(a, tasks) {
		t = a.tallyOf(tasks)
		tallies[subJob] = t
	}
	if len(t.counts) > maxNeedShapes {
		n.unknown = true
		return
	}
	for k, count := range t.counts {
		s, err := a.shapeOf(t.samples[k])
		if err != nil {
			n.unknown = true
			return
		}
		n.beyond[s] += count
	}
	for _, task := range tasks[:first] {
		if s := a.kindOf(task).shape; s != nil {
			n.beyond[s]--
		}
	}
}

func (a *allocation) tallyOf(tasks []*api.TaskInfo) *tally {
	t := &tally{tasks: tasks, counts: map[*kind]int{}, samples: map[*kind]*api.TaskInfo{}}
	for _, task := range tasks {
		k := a.kindOf(task)
		if t.counts[k]++; t.counts[k] == 1 {
			t.samples[k] = task
		}
	}
	return t
}

// countOff brings the tally to the tasks, if they are the last of those it is of.
func (t *tally) countOff(a *allocation, tasks []*api.TaskInfo) bool {
	gone := len(t.tasks) - len(tasks)
	if gone < 0 || &t.tasks[gone] != &tasks[0] {
		return false
	}
	for _, task := range t.tasks[:gone] {
		k := a.kindOf(task)
		if t.counts[k]--; t.counts[k] == 0 {
			delete(t.counts, k)
		}
	}
	t.tasks = tasks
	return true
}
