// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"math"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// Batch is tasks of one class, in the order of placement.
type Batch struct {
	Class *feasible.TaskClass
	tasks []*api.TaskInfo
	// size is the dominant share of the cluster's resources that one task requests.
	size float64
	// following is the total size of all tasks placed after the batch, as a number of tasks of this batch's size. It is
	// used to choose node groups that have room for the following tasks, too.
	following int
}

// Arrangement is the order in which a trial places batches.
type Arrangement struct {
	// Order is a comparison that sorts the batches; nil leaves them in task order.
	Order func(l, r Batch) int
	// AnyOrder allows Order to move tasks before tasks that precede them in task order.
	AnyOrder bool
	// ByRank places tasks that are equal in task order by rank, and not class by class.
	ByRank bool
}

// batches divides tasks into batches. Tasks that plugins order keep that order, unless AnyOrder is set. Among tasks
// that are equal in task order, the batches are sorted by arranged.Order. The tasks in a batch are in order of rank.
func (s *Part) batches(tasks []*api.TaskInfo, arranged Arrangement) []Batch {
	var out []Batch
	for start := 0; start < len(tasks); {
		end := start + 1
		for end < len(tasks) && (arranged.AnyOrder || s.attempt.Run.Session.TaskCompareFns(tasks[start], tasks[end]) == 0) {
			end++
		}
		equals := slices.Clone(tasks[start:end])
		if s.attempt.Compare != nil {
			slices.SortStableFunc(equals, s.attempt.Compare)
		}
		if arranged.ByRank {
			out = append(out, s.batchPerStretch(equals)...)
		} else {
			out = append(out, s.batchPerClass(equals, arranged.Order)...)
		}
		start = end
	}
	following := 0.0
	for i, b := range slices.Backward(out) {
		if b.size > 0 {
			out[i].following = int(math.Ceil(following / b.size))
		}
		following += b.size * float64(len(b.tasks))
	}
	return out
}

// batchPerClass makes one batch for each class, with all tasks of the class.
func (s *Part) batchPerClass(tasks []*api.TaskInfo, order func(l, r Batch) int) []Batch {
	var out []Batch
	at := map[*feasible.TaskClass]int{}
	for _, task := range tasks {
		c := s.attempt.Run.Finder.Class(task)
		i, ok := at[c]
		if !ok {
			i = len(out)
			at[c] = i
			out = append(out, Batch{Class: c, size: s.attempt.Run.DominantShare(task)})
		}
		out[i].tasks = append(out[i].tasks, task)
	}
	if order != nil {
		slices.SortStableFunc(out, order)
	}
	return out
}

// batchPerStretch makes a batch of each consecutive run of tasks of one class.
func (s *Part) batchPerStretch(tasks []*api.TaskInfo) []Batch {
	var out []Batch
	for len(tasks) > 0 {
		n := s.attempt.Run.SameClass(tasks)
		out = append(out, Batch{Class: s.attempt.Run.Finder.Class(tasks[0]), tasks: tasks[:n], size: s.attempt.Run.DominantShare(tasks[0])})
		tasks = tasks[n:]
	}
	return out
}

// LargestFirst orders batches by the share of the cluster that one task requests, largest first.
func LargestFirst(l, r Batch) int { return cmp.Compare(r.size, l.size) }

// SmallestFirst orders batches by the share of the cluster that one task requests, smallest first.
func SmallestFirst(l, r Batch) int { return cmp.Compare(l.size, r.size) }
