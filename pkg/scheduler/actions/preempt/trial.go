// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/search"
	allocatetrial "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// maxSingles limits how many units are put back one by one after they could not be put back together.
const maxSingles = 16

// trial evicts units in the session and places the gang's members on the released resources. It is committed or undone
// as a whole.
type trial struct {
	*planner
	evicted []eviction
	placed  allocatetrial.Result
}

// eviction is an evicted unit, with the statement that can undo it.
type eviction struct {
	*unit
	stmt *vcframework.Statement
}

// try evicts the plan's units and places the members. If it succeeds, it puts back the units that are not needed after
// all, and sends the evictions. Otherwise the session is as before. refused are then the nodes of the place that have
// room, but that plugins refuse.
func (s *planner) try(p *plan) (refused map[int32]bool, ok bool) {
	t := &trial{planner: s}
	for _, u := range p.units {
		t.evict(u)
	}
	if !t.place() {
		refused = s.refusing(p.place)
		t.undo()
		return refused, false
	}
	if !t.putBack() {
		t.undo()
		return nil, false
	}
	t.commit()
	return nil, true
}

func (t *trial) evict(u *unit) {
	e := eviction{u, vcframework.NewStatement(t.ssn.Session)}
	for _, task := range u.tasks {
		if err := e.stmt.Evict(task, t.reason()); err != nil {
			klog.ErrorS(err, "Evicting a pod in the session failed", "pod", klog.KObj(task.Pod))
		}
		t.run.Finder.TakenBack(task)
	}
	t.evicted = append(t.evicted, e)
}

func (t *trial) reason() string {
	job := t.attempt.Job
	return fmt.Sprintf("%s for gang %s/%s (priority %d)", Name, job.Namespace, job.Name, job.Priority)
}

// place places the members on resources that are idle or being released. It reports whether they suffice for the gang.
func (t *trial) place() bool {
	r, err := t.newAttempt(t.attempt.Job, t.attempt.Pending)
	if err != nil {
		return false
	}
	t.placed = search.Solve(r)
	t.run.Finder.ForgetJob()
	return t.placed.Outcome == allocatetrial.Pipelined
}

// undo takes back the placements, and then the evictions, the last one first.
func (t *trial) undo() {
	t.placed.Discard(t.attempt.Job)
	for _, e := range slices.Backward(t.evicted) {
		e.stmt.Discard()
	}
	t.evicted = nil
}

// putBack puts back units that are not needed, because the members were placed elsewhere. It reports false if the members
// can no longer be placed.
func (t *trial) putBack() bool {
	for {
		back := t.restoreSpare()
		if len(back) == 0 {
			return true
		}
		if t.placeAgain() {
			continue
		}
		// Resources are not the only reason to evict some of these units.
		for _, u := range back {
			t.evict(u)
		}
		if !t.placeAgain() {
			return false
		}
		return t.putBackSingly(back)
	}
}

// putBackSingly puts back the given units one by one.
func (t *trial) putBackSingly(units []*unit) bool {
	for _, u := range units[:min(len(units), maxSingles)] {
		if !t.hasRoomFor(u) {
			continue
		}
		t.restore(slices.IndexFunc(t.evicted, func(e eviction) bool { return e.unit == u }))
		if t.placeAgain() {
			continue
		}
		t.evict(u)
		if !t.placeAgain() {
			return false
		}
	}
	return true
}

func (t *trial) placeAgain() bool {
	t.placed.Discard(t.attempt.Job)
	return t.place()
}

// restoreSpare undoes the evictions of units that fit on their nodes beside the placed members, the dearest first. It
// returns these units.
func (t *trial) restoreSpare() (back []*unit) {
	for i := len(t.evicted) - 1; i >= 0; i-- {
		if u := t.evicted[i].unit; t.hasRoomFor(u) {
			t.restore(i)
			back = append(back, u)
		}
	}
	return back
}

func (t *trial) restore(i int) {
	t.evicted[i].stmt.Discard()
	t.evicted = slices.Delete(t.evicted, i, i+1)
}

// hasRoomFor reports whether the evicted pods of the unit may be put back: they fit on their nodes beside the placed
// members, and their gang has its minimum.
func (t *trial) hasRoomFor(u *unit) bool {
	if u.core != nil && slices.ContainsFunc(t.evicted, func(e eviction) bool { return e.unit == u.core }) {
		return false
	}
	free := map[string]*api.Resource{}
	for _, task := range u.tasks {
		room := free[task.NodeName]
		if room == nil {
			room = t.ssn.Nodes[task.NodeName].FutureIdle()
			free[task.NodeName] = room
		}
		if !task.Resreq.LessEqual(room, api.Zero) {
			return false
		}
		room.Sub(task.Resreq)
	}
	return true
}

// commit sends the evictions. The members stay pipelined until the session ends, and are placed first in later sessions
// (plugin evictionbackoff).
func (t *trial) commit() {
	nodes, victims := map[string]bool{}, 0
	for _, e := range t.evicted {
		for _, task := range e.tasks {
			nodes[task.NodeName] = true
			victims++
		}
		t.sent = append(t.sent, e.tasks...)
	}
	for _, task := range t.placed.Tasks() {
		task.EvictionOccurred = nodes[task.NodeName]
	}
	job := t.attempt.Job
	klog.InfoS("Evicting pods for a gang", "podGroup", klog.KRef(job.Namespace, job.Name), "pods", victims)
	for _, e := range t.evicted {
		e.stmt.Commit()
	}
	vcmetrics.UpdatePreemptionVictimsCount(victims)
	vcmetrics.RegisterPreemptionAttempts()
}

// refusing returns the nodes of the place that have room for a member of some class, but are refused for all such
// classes.
func (s *planner) refusing(where place) map[int32]bool {
	refusing := map[int32]bool{}
	for _, node := range where.set.Nodes {
		room, fits := false, false
		free := s.run.Index.Nodes[node].FutureIdle()
		for _, class := range s.demand.Classes {
			if !class.NeverTakes(node) && copies(class.Task().InitResreq, free) > 0 {
				room = true
				fits = fits || class.FilterResult(node).Fits
			}
		}
		if room && !fits {
			refusing[node] = true
		}
	}
	return refusing
}
