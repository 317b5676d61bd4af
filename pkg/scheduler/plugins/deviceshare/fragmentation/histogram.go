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
	// halfLife is the number of later tasks after which a task has half its weight: some hours in a busy cluster, weeks
	// in a quiet one. It counts tasks, not time, so that equal histories have equal weights.
	halfLife = 4096
	// maxStored limits the kinds that are counted. maxKinds limits the kinds, the most frequent ones, that are used.
	// Rounding (Kind.rounded) leaves a few dozen kinds in a large cluster; the limits are for tenants who try to create
	// more.
	maxStored, maxKinds = 1024, 96
)

// Limits far above any real machine.
const (
	maxDevices  = 64
	maxMilliCPU = 1 << 30
	maxMemory   = 1 << 50
)

// Histogram counts kinds of tasks. Old tasks lose weight: a task counts half after 4,096 later ones, a quarter after
// 8,192.
type Histogram struct {
	mu sync.Mutex
	// fresh are the tasks since the last fold, by rounded kind. stored are the earlier ones.
	fresh, stored map[Kind]tally
	freshTasks    int
	supply        Supply
	// kinds are the kinds at the last call. stale reports whether they would differ now although nothing is fresh.
	kinds *Kinds
	stale bool
}

// tally is a number of tasks, with decay, and the sums of their requests.
type tally struct{ tasks, milliCPU, memory float64 }

func (t tally) times(f float64) tally { return tally{t.tasks * f, t.milliCPU * f, t.memory * f} }

func (t tally) plus(o tally) tally {
	return tally{t.tasks + o.tasks, t.milliCPU + o.milliCPU, t.memory + o.memory}
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{fresh: map[Kind]tally{}, stored: map[Kind]tally{}, kinds: &Kinds{}}
}

// Add counts a new task. Call it once for each task, when it is first seen, waiting or running. It ignores tasks without GPUs, and
// tasks that no machine could hold.
func (h *Histogram) Add(kind Kind) {
	if kind.GPUs <= 0 || kind.Core <= 0 && kind.GPUMemory <= 0 || !kind.isPossible() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	rounded := kind.rounded()
	h.fresh[rounded] = h.fresh[rounded].plus(tally{1, float64(kind.MilliCPU), float64(kind.Memory)})
	h.freshTasks++
	if len(h.fresh) > maxStored {
		h.fold()
		h.stale = true
	}
}

// SetSupply sets the cluster's GPUs. Until then only frequency decides the weight of a kind.
func (h *Histogram) SetSupply(supply Supply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !maps.Equal(supply, h.supply) {
		h.supply, h.stale = maps.Clone(supply), true
	}
}

// Kinds returns the kinds with their current weights. Call it once in each session: tasks added between two calls count
// equally, in any order, if they are of at most 1,024 kinds.
func (h *Histogram) Kinds() *Kinds {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freshTasks > 0 || h.stale {
		h.fold()
		h.kinds, h.stale = newKinds(h.mostFrequent(maxKinds), h.supply), false
	}
	return h.kinds
}

// fold adds the fresh tallies to the stored ones.
func (h *Histogram) fold() {
	faded := math.Exp2(-float64(h.freshTasks) / halfLife)
	for kind, t := range h.stored {
		h.stored[kind] = t.times(faded)
	}
	for kind, t := range h.fresh {
		h.stored[kind] = h.stored[kind].plus(t)
	}
	clear(h.fresh)
	h.freshTasks = 0
	if len(h.stored) > maxStored {
		for _, c := range h.byFrequency()[maxStored:] {
			delete(h.stored, c.Kind)
		}
	}
}

// counted is a kind and its frequency.
type counted struct {
	Kind
	tasks float64
}

// byFrequency lists the stored kinds, the most frequent first.
func (h *Histogram) byFrequency() []counted {
	list := make([]counted, 0, len(h.stored))
	for _, kind := range slices.Collect(maps.Keys(h.stored)) {
		list = append(list, counted{kind, h.stored[kind].tasks})
	}
	slices.SortFunc(list, func(l, r counted) int {
		return cmp.Or(cmp.Compare(r.tasks, l.tasks), l.compare(&r.Kind))
	})
	return list
}

// mostFrequent returns at most that many kinds. Each has the mean size of its tasks instead of the rounded one.
func (h *Histogram) mostFrequent(most int) []counted {
	list := h.byFrequency()
	list = list[:min(most, len(list))]
	for i := range list {
		t := h.stored[list[i].Kind]
		list[i].MilliCPU, list[i].Memory = int64(math.Round(t.milliCPU/t.tasks)), int64(math.Round(t.memory/t.tasks))
	}
	return list
}
