// SPDX-License-Identifier: Apache-2.0

package search

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// placeSubJob places tasks of the sub-job, given in task order, in the scope until the sub-job is ready. If that fails, nothing
// is placed, and the job's fit errors contain the reason.
func placeSubJob(r *state.Attempt, subJob *api.SubJobInfo, tasks []*api.TaskInfo, scope state.Scope, opts state.Options) trial.PartResult {
	if len(scope.Set.Nodes) == 0 || len(tasks) == 0 {
		return trial.PartResult{Rest: tasks}
	}
	r.Found.NoteTried(scope.Set)
	r.Found.SubJobTasks += len(tasks)
	s := &partSearch{part: trial.NewPart(r, subJob, tasks, scope, opts.IdleOnly), attempt: r, run: r.Run, places: opts.Places, refused: r.Found.Refused}
	return s.place()
}

func (s *partSearch) place() trial.PartResult {
	failed := trial.PartResult{Rest: s.part.Tasks}
	unfinished := s.attempt.Found.Unfinished
	if s.ruledOut() { // no trial is needed: explain.RecordUnplaced finds the reason later
		return failed
	}
	known := s.gangName()
	if s.run.Failed.Has(known) && s.part.Scope.ChosenBy != "" { // explain.RecordUnplaced finds the reason later
		return failed
	}
	if s.attempt.Packing != nil && s.hasFailed(crosssession.FirstOrders) && !s.run.CrossSession.Orders.Open(s.orderSearch()) {
		s.run.CrossSession.Orders.Enqueue(s.orderSearch())
		s.attempt.Found.Unfinished++
		minimum := min(s.part.Needed, len(s.part.Tasks))
		return s.tryPacked(minimum, minimum)
	}
	result, blocked := s.tryFirstOrders()
	if result.Outcome != trial.NotPlaced {
		return result
	}
	if s.run.Failed.Has(known) || !s.refutedBeforeTrials() && s.refutedInNumbers() {
		return failed
	}
	errors := maps.Clone(s.attempt.Job.NodesFitErrors)
	s.part.Retrying = true
	if result = s.retryRearranged(blocked); result.Outcome != trial.NotPlaced {
		return result
	}
	if s.attempt.Found.Unfinished == unfinished {
		s.recordFailed(crosssession.AnyWay)
		s.run.Failed.Note(known)
	}
	s.attempt.Job.NodesFitErrors = errors
	return failed
}

// tryFirstOrders tries to place the tasks by rank, if a plugin knows their ranks, and then the largest tasks first. It
// also returns the task classes that found no room.
func (s *partSearch) tryFirstOrders() (trial.PartResult, []*feasible.TaskClass) {
	if first := min(s.part.Needed, len(s.part.Tasks)); s.attempt.Compare != nil && s.run.SameClass(s.part.Tasks[:first]) < first {
		if result, _ := trial.Try(s.part, first, trial.Arrangement{ByRank: true}); result.Outcome != trial.NotPlaced {
			return result, nil
		}
	}
	return trial.Try(s.part, s.part.Needed, trial.Arrangement{Order: trial.LargestFirst})
}

// ruledOut reports whether it is known without a trial that the search's tasks have no room in its scope.
func (s *partSearch) ruledOut() bool {
	switch {
	case s.firstTaskFitsNowhere():
		return true
	case s.refutedBeforeTrials() && s.refutedInNumbers():
		return true
	case s.attempt.Packing == nil:
		return false
	case s.part.IdleOnly && s.part.Scope.ChosenBy != "" && s.attempt.Packable(s.part.Scope.Set, s.places) == packing.Impossible:
		return true
	default:
		return s.hasFailed(crosssession.AnyWay)
	}
}

// firstTaskFitsNowhere reports whether the first task is known to fit nowhere and the sub-job cannot be ready without it. In
// that case it records the reason in the job's fit errors.
func (s *partSearch) firstTaskFitsNowhere() bool {
	task := s.part.Tasks[0]
	cache := s.run.Finder.Class(task).Cache()
	if cache == nil || !s.run.Session.Allocatable(s.run.Session.Queues[s.attempt.Job.Queue], task) {
		return false
	}
	s.attempt.Job.ResetSubJobFitErr(s.part.SubJob.UID)
	full, errs := s.run.Finder.Candidates(task, cache, s.part.Scope.Where).Full(s.part.IdleOnly)
	if !full {
		return false
	}
	trial.NoteNotPlaced(s.attempt.Job, task, errs)
	return !s.attempt.Job.NeedContinueAllocating(s.part.SubJob.UID)
}

// maxTriedKinds bounds the number of task classes of a part for which a trial is made although arithmetic may prove it
// useless. Each class of a trial costs filter results and scores of all nodes, and each change of the cluster leads to
// new trials. Parts of few classes are tried first because their trials are cheap: many gangs have equal members, and share
// the filter results of a class, but arithmetic is done for each gang and each node.
const maxTriedKinds = 8

// refutable returns how many of the tasks the sub-job needs, if arithmetic can prove that they have no room; otherwise 0.
func (s *partSearch) refutable() int {
	needed := s.attempt.NeededBySubJob(s.part.SubJob)
	if !s.run.Progress.GangDecides || needed > len(s.part.Tasks) {
		return 0
	}
	return max(needed, 0)
}

// refutedBeforeTrials reports whether arithmetic is done before the first trial, and not after it.
func (s *partSearch) refutedBeforeTrials() bool {
	switch {
	case s.refutable() == 0: // the tasks of a ready gang are not read for each task that is placed
		return false
	case s.attempt.DividesItself():
		return true
	}
	kinds := map[*feasible.TaskClass]bool{}
	for rest := s.part.Tasks; len(rest) > 0 && len(kinds) <= maxTriedKinds; rest = rest[s.run.SameClass(rest):] {
		kinds[s.run.Finder.Class(rest[0])] = true
	}
	return len(kinds) > maxTriedKinds
}

// refutedInNumbers reports whether arithmetic on resources proves that the scope has no room for the needed tasks of
// the sub-job.
func (s *partSearch) refutedInNumbers() bool {
	needed := s.refutable()
	if needed == 0 {
		return false
	}
	in := s.attempt.NewRefutableInput(s.part.Tasks, needed, s.part.NeededByRole())
	if !s.attempt.RefutedAs(in, s.part.Scope.Set, s.part.IdleOnly) {
		return false
	}
	if !s.attempt.DividesItself() {
		s.attempt.Found.NoteRefuted(s.part.Scope.Set, in)
	}
	return true
}
