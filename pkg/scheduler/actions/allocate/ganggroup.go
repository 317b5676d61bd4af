// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/explain"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/search"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// A gang group is placed as a whole: one trial places the minimum of each of its gangs. After that, each gang is
// scheduled by itself for its remaining tasks.

// scheduleGangGroup places the job's gang group, if the group has several gangs and was not tried in this session yet.
// It returns false if the caller is to schedule the job by itself: the job is in no such group, or the minima of the
// group's gangs are placed.
func (s *scheduler) scheduleGangGroup(job *api.JobInfo) (taken bool) {
	gangGroup := s.run.Session.Placements.GangGroup(job)
	if gangGroup == nil || len(gangGroup.Gangs) < 2 {
		return false
	}
	if s.gangGroups[gangGroup] == groupNotTried {
		s.gangGroups[gangGroup] = s.placeGangGroup(gangGroup)
	}
	return s.gangGroups[gangGroup] != groupPlaced
}

// placeGangGroup places the gangs of the gang group that lack members, and hands their tasks over to be bound. If one
// of the gangs cannot be placed now, it places none of them.
func (s *scheduler) placeGangGroup(gangGroup *binding.GangGroup) groupResult {
	began := s.run.Now()
	group := explain.NewGangGroup(s.run, gangGroup, s.waiting.pending)
	for _, terms := range gangGroup.Gangs {
		job := s.run.Session.Jobs[terms.Gang]
		reason, lacks := s.groupBlockedBy(terms.Gang, job)
		if reason != "" {
			group.Blocked(terms.Gang, reason)
			return groupWaits
		}
		if lacks {
			group.Gangs = append(group.Gangs, job)
		}
	}
	if len(group.Gangs) == 0 {
		return groupPlaced
	}
	defer s.run.Pauses.KeepNominees(s.waiting.pending, group.Gangs)()
	defer s.run.Finder.ForgetJob()
	if group.Reuse() {
		return groupWaits
	}
	if !s.run.HasTurn(group.Gangs) {
		group.Repeat()
		return groupWaits
	}
	placed, unplaced := search.NewGroupSearch(s.run, group.Gangs, s.waiting.pending).Solve()
	switch {
	case placed == nil:
		group.Unplaced(unplaced)
		s.run.ChargeAttempt(group.Gangs, began)
		return groupWaits
	case placed.Outcome() == trial.Pipelined:
		s.run.ChargeAttempt(group.Gangs, began)
		s.run.NoteWaiting(group.Gangs)
		noteHolds(s.run, placed, false)
		return groupWaits
	}
	for _, p := range placed {
		finish(p.Attempt, p.Result)
	}
	s.waiting.reorder(group.Gangs)
	return groupPlaced
}

// groupBlockedBy returns the reason why the named gang keeps its gang group from being placed now; empty if the gang
// does not block the group. job is nil if the gang does not exist. lacks reports whether the gang is short of its
// minimum, so that the gang group's trial must place members of it.
//
// Volcano's gang plugin counts pending best-effort members as ready. If the minimum needs such a member and the member
// fits nowhere, the trial must place a pending member with requests in its stead.
func (s *scheduler) groupBlockedBy(name api.JobID, job *api.JobInfo) (reason string, lacks bool) {
	if job == nil {
		return "does not exist", false
	}
	if s.run.Progress.JobReady(job) {
		if reason = search.LacksBestEffort(s.run, job); reason == "" || s.waiting.pending[name] == nil {
			return reason, false
		}
	}
	switch {
	case s.waiting.pending[name] != nil:
		if queue := s.run.Session.Queues[job.Queue]; s.run.Session.Overused(queue) {
			return fmt.Sprintf("cannot be scheduled: queue %s is at its limit", queue.Name), false
		}
		return "", true
	case job.IsPending():
		return "is not admitted to its queue yet", false
	}
	if invalid := s.run.Session.JobValid(job); invalid != nil {
		return "cannot be scheduled: " + brief.Part(invalid.Message), false
	}
	return "has too few pending pods to reach its minimum", false
}
