// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"math"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
)

// batch is tasks of one class, in the order in which they are placed.
type batch struct {
	class *feasible.TaskClass
	tasks []*api.TaskInfo
	// size is the dominant share of one task in the cluster's resources.
	size float64
	// following is how many such tasks would be as much as all that is placed after the batch.
	following int
}

// arrangement is the order in which a trial places batches.
type arrangement struct {
	// order orders batches; nil leaves them in task order.
	order func(l, r batch) int
	// anyOrder lets order put tasks before others that come first in task order.
	anyOrder bool
	// byRank places equals in task order by rank, instead of class by class.
	byRank bool
}

// batches divides tasks into batches. Tasks that plugins tell apart in task order stay in that order, unless any will do;
// among equals batches come as arranged. Tasks of a batch come by rank.
func (p *Part) batches(tasks []*api.TaskInfo, arranged arrangement) []batch {
	var out []batch
	for start := 0; start < len(tasks); {
		end := start + 1
		for end < len(tasks) && (arranged.anyOrder || p.attempt.Run.Session.TaskCompareFns(tasks[start], tasks[end]) == 0) {
			end++
		}
		equals := slices.Clone(tasks[start:end])
		if p.attempt.Compare != nil {
			slices.SortStableFunc(equals, p.attempt.Compare)
		}
		if arranged.byRank {
			out = append(out, p.batchPerStretch(equals)...)
		} else {
			out = append(out, p.batchPerClass(equals, arranged.order)...)
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

// batchPerClass makes a batch of the tasks of each class.
func (p *Part) batchPerClass(tasks []*api.TaskInfo, order func(l, r batch) int) []batch {
	var out []batch
	at := map[*feasible.TaskClass]int{}
	for _, task := range tasks {
		c := p.attempt.Run.Finder.Class(task)
		i, ok := at[c]
		if !ok {
			i = len(out)
			at[c] = i
			out = append(out, batch{class: c, size: p.attempt.Run.DominantShare(task)})
		}
		out[i].tasks = append(out[i].tasks, task)
	}
	if order != nil {
		slices.SortStableFunc(out, order)
	}
	return out
}

// batchPerStretch makes a batch of each stretch of tasks of one class.
func (p *Part) batchPerStretch(tasks []*api.TaskInfo) []batch {
	var out []batch
	for len(tasks) > 0 {
		n := p.attempt.Run.SameClass(tasks)
		out = append(out, batch{class: p.attempt.Run.Finder.Class(tasks[0]), tasks: tasks[:n], size: p.attempt.Run.DominantShare(tasks[0])})
		tasks = tasks[n:]
	}
	return out
}

func largestFirst(l, r batch) int  { return cmp.Compare(r.size, l.size) }
func smallestFirst(l, r batch) int { return cmp.Compare(l.size, r.size) }
