// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A unit of several gangs is placed whole: the minimum of each of its gangs, in one trial. Once that is so its gangs take turns of
// their own for what is left of them.

// unitTurn is how a unit's one turn in the session ended.
type unitTurn int

const (
	unitNotTried unitTurn = iota
	unitWaits
	unitPlaced
)

// takeUnitTurn gives the turn of the job to its unit, where it has one of several gangs that is not placed yet. It returns false
// when the job is to have its turn by itself.
func (s *scheduler) takeUnitTurn(job *api.JobInfo) (taken bool) {
	unit := s.run.Session.Unit(job)
	if unit == nil || len(unit.Gangs) < 2 {
		return false
	}
	if s.units[unit] == unitNotTried {
		s.units[unit] = s.placeUnit(unit)
	}
	return s.units[unit] != unitPlaced
}

// placeUnit places those of the unit's gangs that lack members, and hands them over to be bound.
func (s *scheduler) placeUnit(unit *binding.Unit) unitTurn {
	u := &unitRun{run: s.run, id: unit.ID, pending: s.waiting.pending}
	for _, terms := range unit.Gangs {
		job := s.run.Session.Jobs[terms.Gang]
		reason, lacks := s.keepsUnit(terms.Gang, job)
		if reason != "" {
			u.explain(unit, nil, fmt.Sprintf("gang %s %s", terms.Gang, reason))
			return unitWaits
		}
		if lacks {
			u.gangs = append(u.gangs, job)
		}
	}
	if len(u.gangs) == 0 {
		return unitPlaced
	}
	defer s.run.Finder.ForgetJob()
	if u.reuse() {
		return unitWaits
	}
	placed, failed := u.solve()
	switch {
	case placed == nil:
		u.explain(unit, failed, "")
		return unitWaits
	case placed.outcome() == trial.Pipelined:
		return unitWaits
	}
	for _, p := range placed {
		finish(p.attempt, p.result)
	}
	s.waiting.reorder(u.gangs)
	return unitPlaced
}

// keepsUnit returns why the gang keeps its unit from being placed now; empty when it does not. lacks reports whether it lacks members, which
// are placed with the unit. A gang that counts as ready with a best-effort member that fits nowhere lacks another one.
func (s *scheduler) keepsUnit(name api.JobID, job *api.JobInfo) (reason string, lacks bool) {
	if job == nil {
		return "is not there", false
	}
	if s.run.Progress.JobReady(job) {
		if reason = s.lacksBestEffort(job); reason == "" || s.waiting.pending[name] == nil {
			return reason, false
		}
	}
	switch {
	case s.waiting.pending[name] != nil:
		if queue := s.run.Session.Queues[job.Queue]; s.run.Session.Overused(queue) {
			return fmt.Sprintf("waits for its queue %s, which has all that it may have", queue.Name), false
		}
		return "", true
	case job.IsPending():
		return "is not let in by its queue yet", false
	}
	if verdict := s.run.Session.JobValid(job); verdict != nil && !verdict.Pass {
		return "waits: " + brief.Part(verdict.Message), false
	}
	return "has no members left to place, and is short of its minimum", false
}

// lacksBestEffort is why backfill cannot complete a gang that counts as ready; empty when it can.
func (s *scheduler) lacksBestEffort(job *api.JobInfo) string {
	if len(pendingBestEffort(job)) == 0 {
		return ""
	}
	s.run.Session.Turn(job.UID)
	defer s.run.Finder.ForgetJob()
	r := &state.Attempt{Run: s.run, Job: job, Members: s.run.Progress.Job(job).Members, Found: &state.Findings{}}
	if unfit := neededBestEffort(r, &trial.Result{Outcome: trial.Ready}, state.Options{IdleOnly: true}); len(unfit) == 0 {
		return ""
	}
	return "cannot have its minimum: " + r.Found.BestEffortReason
}

// explain says on each of the unit's gangs why they wait: on the one that found no room by its own explanation, on the others by its
// name.
func (u *unitRun) explain(unit *binding.Unit, failed *misfit, why string) {
	if failed != nil {
		why = fmt.Sprintf("gang %s does not fit with it: %s", failed.job.UID, brief.Part(failed.wait.Message))
	}
	waits := map[api.JobID]framework.Wait{}
	for _, terms := range unit.Gangs {
		job, pending := u.run.Session.Jobs[terms.Gang], u.pending[terms.Gang]
		if job == nil || pending == nil && len(pendingBestEffort(job)) == 0 {
			continue
		}
		wait := framework.Wait{Reason: framework.NotEnoughResources, Message: fmt.Sprintf("its group %s is placed together, and %s", brief.Part(u.id), why)}
		if failed != nil && failed.job == job {
			wait = failed.wait
			if failed.beside > 0 {
				wait.Message = fmt.Sprintf("with %d other gangs of its group placed: %s", failed.beside, wait.Message)
			}
		}
		waits[job.UID] = wait
		u.run.RecordWait(job, wait)
	}
	u.remember(waits, failed)
}
