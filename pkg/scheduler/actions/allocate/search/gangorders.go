// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/explain"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

const (
	// maxGangOrders bounds how many orders of a gang group's gangs are tried. Each new order begins with the gang that
	// found no room in the last order, or with the gangs whose pods that gang needs.
	maxGangOrders = 6
	// maxGangTrials bounds how many trials of single gangs are made to find node groups in which all gangs of a gang group
	// have room.
	maxGangTrials = 512
)

// Solve places all gangs of the group, or none. If it places none, it returns why.
func (u *GroupSearch) Solve() (PlacedGangs, explain.UnplacedGroup) {
	var first *explain.UnplacedGang
	u.idleOnlyUntil = u.run.Pauses.Until(u.pending, u.gangs...)
	for _, u.idleOnly = range []bool{true, false} {
		if !u.idleOnly && (!u.idleOnlyUntil.IsZero() || !u.run.Index.Releases(u.run.Index.All)) {
			break
		}
		if u.refuted() {
			continue
		}
		placed, failed := u.solveNow(first == nil)
		if placed != nil {
			return placed, explain.UnplacedGroup{}
		}
		first = cmp.Or(first, failed)
	}
	return nil, explain.UnplacedGroup{Failed: first, Lacking: u.lacking, Incomplete: u.incomplete}
}

// solveNow tries to place the gangs in a few orders, then in other node groups, then by one packing plan for all gangs.
// If explained is set, the explanation of the first unplaced gang is recorded.
func (u *GroupSearch) solveNow(explained bool) (PlacedGangs, *explain.UnplacedGang) {
	order := u.largestFirst()
	var first *explain.UnplacedGang
	tried := map[string]bool{}
	for range min(maxGangOrders, len(order)+1) {
		placed, failed := u.placeInOrder(order, explained && first == nil)
		if failed == nil {
			return placed, nil
		}
		first = cmp.Or(first, failed)
		if failed.Beside == 0 {
			return nil, first // the gang has no room even without the other gangs
		}
		if len(tried) == 0 && !u.acquireOrders() {
			return nil, first
		}
		tried[orderKey(order)] = true
		i := slices.Index(order, failed.Job)
		order = u.neededFirst(slices.Concat(order[i:i+1], order[:i], order[i+1:]))
		if tried[orderKey(order)] {
			break
		}
	}
	if placed := (&groupBacktrack{search: u}).place(nil, u.largestFirst()); placed != nil {
		return placed, nil
	}
	return u.placeByPlan(), first
}

// acquireOrders reports whether the session's search budget (crosssession.Budget) allows more than one order of the
// gangs. If the budget is used up, the searches of gang groups and gangs take turns, one in each session.
func (u *GroupSearch) acquireOrders() bool {
	tasks := 0
	for _, job := range u.gangs {
		tasks += len(job.TaskStatusIndex[api.Pending])
	}
	if u.run.CrossSession.Orders.AcquireAll(u.run.SearchOf(u.gangs[0], "orders", u.idleOnly), min(tasks*maxGangOrders, crosssession.MaxFurtherLooks)) {
		return true
	}
	u.incomplete = true
	return false
}

func orderKey(order []*api.JobInfo) string {
	key := ""
	for _, job := range order {
		key = fmt.Sprintf("%s %s", key, job.UID)
	}
	return key
}

// placeInOrder places the gangs one after the other. If a gang finds no room, all gangs are taken back. If explained is
// set, the explanation of the gang without room is recorded.
func (u *GroupSearch) placeInOrder(order []*api.JobInfo, explained bool) (PlacedGangs, *explain.UnplacedGang) {
	var placed PlacedGangs
	for _, job := range order {
		gang, reason := u.place(job, nil, explained)
		if gang == nil {
			failed := &explain.UnplacedGang{Job: job, Reason: reason, Explanation: u.run.Session.Explanation(job.UID), Beside: len(placed)}
			placed.discard()
			return nil, failed
		}
		placed = append(placed, *gang)
	}
	return placed, nil
}

// place places the gang beside the gangs that are already placed, but in none of the node groups in leftOut. If the
// gang has no room, place returns nil and the reason. With explained, it also records the gang's explanation.
func (u *GroupSearch) place(job *api.JobInfo, leftOut map[*topology.Group]bool, explained bool) (*PlacedGang, framework.PendingReason) {
	u.run.Session.SetCurrentJob(job.UID)
	r, err := state.NewAttempt(u.run, job, u.pending[job.UID], false)
	if err != nil {
		return nil, framework.PendingReason{Reason: framework.NotEnoughResources, Message: err.Error()}
	}
	r.Phases, r.IdleOnlyUntil = []bool{u.idleOnly}, u.idleOnlyUntil
	if r.Groups != nil && len(leftOut) > 0 {
		groups := *r.Groups
		groups.Candidates = slices.DeleteFunc(slices.Clone(groups.Candidates), func(g *topology.Group) bool { return leftOut[g] })
		r.Groups = &groups
	}
	result := Solve(r)
	if result.Outcome != trial.NotPlaced {
		u.run.Failed.NotePlaced()
		return &PlacedGang{r, result}, framework.PendingReason{}
	}
	if explained {
		explain.RecordUnplaced(r)
	}
	u.incomplete = u.incomplete || r.Found.Unfinished > 0 || r.Found.RefusedBeyondNumbers()
	reason, _ := u.run.Session.PendingReason(job.UID)
	return nil, reason
}

// groupBacktrack is a search for node groups in which all gangs have room. It is made if no order of the gangs
// succeeds. It counts its trials and the tasks in them, for the bounds maxGangTrials and MaxFurtherLooks.
type groupBacktrack struct {
	search        *GroupSearch
	trials, tasks int
}

// place places the remaining gangs (left) beside the gangs that are already placed. It tries the node groups of the
// next gang one after the other, until the gangs after it have room, too. It returns nil if no such placement exists,
// or if none was found within the bounds.
func (u *groupBacktrack) place(placed PlacedGangs, left []*api.JobInfo) PlacedGangs {
	if len(left) == 0 {
		return placed
	}
	leftOut := map[*topology.Group]bool{}
	for u.affords(left[0]) {
		gang, _ := u.search.place(left[0], leftOut, false)
		if gang == nil {
			return nil
		}
		if all := u.place(append(slices.Clip(placed), *gang), left[1:]); all != nil {
			return all
		}
		used := gang.candidateOf()
		gang.takeBack()
		if used == nil {
			return nil // the gang cannot be placed elsewhere
		}
		leftOut[used] = true
	}
	return nil
}

// affords counts a trial of the job, and reports whether the search is still within its bounds.
func (u *groupBacktrack) affords(job *api.JobInfo) bool {
	u.trials++
	u.tasks += len(job.TaskStatusIndex[api.Pending])
	return u.trials <= maxGangTrials && u.tasks <= crosssession.MaxFurtherLooks
}

// candidateOf returns the first of the gang's candidate node groups (NodeGroups.Candidates) that contains all placed
// tasks of the gang; nil if none contains all of them.
func (p *PlacedGang) candidateOf() *topology.Group {
	if p.Attempt.Groups == nil {
		return nil
	}
	nodes := p.Result.Nodes()
	for _, group := range p.Attempt.Groups.Candidates {
		if containsAll(p.Attempt.Run.Index.Group(group), nodes) {
			return group
		}
	}
	return nil
}

func containsAll(set *nodeset.Set, nodes map[int32]bool) bool {
	for node := range nodes {
		if !set.Has(node) {
			return false
		}
	}
	return true
}
