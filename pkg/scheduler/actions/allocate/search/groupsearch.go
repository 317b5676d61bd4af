// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// GroupSearch is one search for room for the gangs of a gang group.
type GroupSearch struct {
	run *state.Run
	// gangs are the gangs to be placed. pending are their tasks to be placed, by gang.
	gangs   []*api.JobInfo
	pending map[api.JobID]*state.Pending
	// idleOnly reports whether only idle resources count, and not resources being released.
	idleOnly bool
	// idleOnlyUntil is the end of the pause in which the gangs are placed on idle resources only
	// (state.Attempt.IdleOnlyUntil); zero for none.
	idleOnlyUntil time.Time
	// incomplete and lacking are the fields Incomplete and Lacking of the result (explain.UnplacedGroup).
	incomplete bool
	lacking    string
	// needs has the gangs that need pods of another gang; nil until it is computed.
	needs map[needs]bool
}

// NewGroupSearch returns a search for the gangs, which are the gangs of a gang group that are to be placed. pending are
// the tasks to be placed, by gang.
func NewGroupSearch(run *state.Run, gangs []*api.JobInfo, pending map[api.JobID]*state.Pending) *GroupSearch {
	return &GroupSearch{run: run, gangs: gangs, pending: pending}
}

// largestFirst sorts the gangs by the estimated request of the tasks that their minima lack, the largest first. Gangs whose
// pods another gang needs come before that gang. The estimate is the dominant share of the gang's first pending task,
// times the number of tasks that its minimum lacks.
func (u *GroupSearch) largestFirst() []*api.JobInfo {
	order := slices.Clone(u.gangs)
	shares := map[api.JobID]float64{}
	for _, job := range order {
		if task := u.pending[job.UID].First(); task != nil {
			shares[job.UID] = u.run.DominantShare(task) * float64(job.MinAvailable-job.ReadyTaskNum())
		}
	}
	slices.SortStableFunc(order, func(l, r *api.JobInfo) int { return cmp.Compare(shares[r.UID], shares[l.UID]) })
	return u.neededFirst(order)
}

// PlacedGang is a gang with its trial.
type PlacedGang struct {
	Attempt *state.Attempt
	Result  trial.Result
}

// PlacedGangs are gangs of a gang group in the order in which they were placed.
type PlacedGangs []PlacedGang

// discard takes the placements of all gangs back, the last gang first.
func (p PlacedGangs) discard() {
	for _, gang := range slices.Backward(p) {
		gang.takeBack()
	}
}

func (p *PlacedGang) takeBack() {
	p.Result.Discard(p.Attempt.Job)
	p.Attempt.Run.Finder.ForgetJob()
	p.Attempt.Run.Failed.NotePlaced() // a gang that did not fit beside this gang may fit now
}

// Outcome returns trial.Ready if all of the gangs are ready, and else trial.Pipelined.
func (p PlacedGangs) Outcome() trial.Outcome {
	for _, gang := range p {
		if gang.Result.Outcome != trial.Ready || !gang.Attempt.Run.Progress.JobReady(gang.Attempt.Job) {
			return trial.Pipelined
		}
	}
	return trial.Ready
}
