// SPDX-License-Identifier: Apache-2.0

package fragmentation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
)

const (
	// halfLife is the number of later tasks after which a task counts half as much. That takes some hours in a busy cluster, weeks
	// in a quiet one. halfLife counts tasks, not time, so that equal sequences of tasks give equal weights.
	halfLife = 4096
	// maxStored limits how many classes are counted. maxClasses limits how many of the most frequent classes are used in
	// scores. Rounding (TaskClass.rounded) leaves a few dozen classes in a large cluster. The limits protect against
	// tenants that try to create many more.
	maxStored, maxClasses = 1024, 96
)

// Limits on the requests of a task, far above any real machine. The histogram does not count tasks that exceed them.
const (
	maxDevices  = 64
	maxMilliCPU = 1 << 30
	maxMemory   = 1 << 50
)

// Histogram counts classes of tasks. Old tasks lose weight: a task counts half as much after 4,096 later tasks, and a
// quarter after 8,192.
type Histogram struct {
	mu sync.Mutex
	// fresh counts, by rounded class, the tasks since the last call of fold, which adds them to stored. stored counts
	// the tasks before that call.
	fresh, stored map[TaskClass]tally
	freshTasks    int
	supply        Supply
	// classes is the last result of the method TaskClasses. stale reports whether it must be computed again
	// even if fresh is empty, because the supply changed or tasks were added to stored.
	classes *TaskClasses
	stale   bool
}

// tally is a weighted number of tasks, in which old tasks count less, and the weighted sums of the tasks' requests.
type tally struct{ tasks, milliCPU, memory float64 }

func (t tally) times(f float64) tally { return tally{t.tasks * f, t.milliCPU * f, t.memory * f} }

func (t tally) plus(o tally) tally {
	return tally{t.tasks + o.tasks, t.milliCPU + o.milliCPU, t.memory + o.memory}
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{fresh: map[TaskClass]tally{}, stored: map[TaskClass]tally{}, classes: &TaskClasses{}}
}

// Add counts a new task of the class. The caller calls it once for each task, when the task is first seen, whether it
// waits or runs. Add ignores tasks without GPUs, and tasks that no machine could hold.
func (h *Histogram) Add(class TaskClass) {
	if class.GPUs <= 0 || class.Core <= 0 && class.GPUMemory <= 0 || !class.isPossible() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	rounded := class.rounded()
	h.fresh[rounded] = h.fresh[rounded].plus(tally{1, float64(class.MilliCPU), float64(class.Memory)})
	h.freshTasks++
	if len(h.fresh) > maxStored {
		h.fold()
		h.stale = true
	}
}

// SetSupply sets how many GPUs of each model the cluster has. Before the first call, the weight of a class depends only
// on the frequency of the class.
func (h *Histogram) SetSupply(supply Supply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !maps.Equal(supply, h.supply) {
		h.supply, h.stale = maps.Clone(supply), true
	}
}

// TaskClasses returns the classes with their current weights. The caller calls it once in each session. Tasks that were
// added between two calls have equal weights, in whatever order they were added, if they are of at most 1,024 classes.
func (h *Histogram) TaskClasses() *TaskClasses {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freshTasks > 0 || h.stale {
		h.fold()
		h.classes, h.stale = newTaskClasses(h.mostFrequent(maxClasses), h.supply), false
	}
	return h.classes
}

// fold adds the counts in fresh to the counts in stored. First it reduces the counts in stored, according to the number
// of fresh tasks and halfLife.
func (h *Histogram) fold() {
	faded := math.Exp2(-float64(h.freshTasks) / halfLife)
	for class, t := range h.stored {
		h.stored[class] = t.times(faded)
	}
	for class, t := range h.fresh {
		h.stored[class] = h.stored[class].plus(t)
	}
	clear(h.fresh)
	h.freshTasks = 0
	if len(h.stored) > maxStored {
		for _, c := range h.byFrequency()[maxStored:] {
			delete(h.stored, c.TaskClass)
		}
	}
}

// counted is a class of tasks and the weighted number of its tasks.
type counted struct {
	TaskClass
	tasks float64
}

// byFrequency returns the stored classes, the most frequent first.
func (h *Histogram) byFrequency() []counted {
	list := make([]counted, 0, len(h.stored))
	for _, class := range slices.Collect(maps.Keys(h.stored)) {
		list = append(list, counted{class, h.stored[class].tasks})
	}
	slices.SortFunc(list, func(l, r counted) int {
		return cmp.Or(cmp.Compare(r.tasks, l.tasks), l.compare(&r.TaskClass))
	})
	return list
}

// mostFrequent returns the most frequent stored classes, at most as many as the argument says. Each class has the mean
// CPU and memory of its tasks instead of the rounded values.
func (h *Histogram) mostFrequent(most int) []counted {
	list := h.byFrequency()
	list = list[:min(most, len(list))]
	for i := range list {
		t := h.stored[list[i].TaskClass]
		list[i].MilliCPU, list[i].Memory = int64(math.Round(t.milliCPU/t.tasks)), int64(math.Round(t.memory/t.tasks))
	}
	return list
}
