// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"fmt"
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// partSearch looks for a way to place a part.
type partSearch struct {
	part    *Part
	attempt *Attempt
	run     *Run
	// places is in how many places the job is still to be tried, with this one.
	places int
	// refused is how many trials of the attempt were refused beyond numbers before this search.
	refused int
	// key names what decides on the part, once it is keyed; empty when that is more than can be named.
	key   string
	keyed bool
}

// placeSubJob places tasks of the sub-job, which are in task order, in the scope until the sub-job is ready. When it is not
// placed nothing is, and the job's fit errors have why.
func placeSubJob(r *Attempt, subJob *api.SubJobInfo, tasks []*api.TaskInfo, scope placementScope, opts trialOptions) subJobResult {
	if len(scope.Set.Nodes) == 0 || len(tasks) == 0 {
		return subJobResult{rest: tasks}
	}
	note(&r.found.tried, scope.Set, true)
	r.found.subJobTasks += len(tasks)
	s := &partSearch{part: newPart(r, subJob, tasks, scope, opts.idleOnly), attempt: r, run: r.run, places: opts.places, refused: r.found.refused}
	return s.place()
}

func (s *partSearch) place() subJobResult {
	failed := subJobResult{rest: s.part.tasks}
	unfinished := s.attempt.found.unfinished
	if s.ruledOut() { // the explanation tells why
		return failed
	}
	known := s.gangName()
	if s.run.failed.has(known) && s.part.scope.ChosenBy != "" { // the explanation tells why
		return failed
	}
	if s.attempt.packing != nil && s.isVain(memory.FirstOrders) && !s.run.memory.Orders.Open(s.orderSearch()) {
		s.run.memory.Orders.Wait(s.orderSearch())
		s.attempt.found.unfinished++
		minimum := min(s.part.needed, len(s.part.tasks))
		return s.tryPacked(minimum, minimum)
	}
	result, blocked := s.tryFirstOrders()
	if result.outcome != notPlaced {
		return result
	}
	if s.run.failed.has(known) || !s.attempt.dividesItself() && s.refutedInNumbers() {
		return failed
	}
	errors := maps.Clone(s.attempt.job.NodesFitErrors)
	s.part.retrying = true
	if result = s.retryRearranged(blocked); result.outcome != notPlaced {
		return result
	}
	if s.attempt.found.unfinished == unfinished {
		s.noteVain(memory.AnyWay)
		s.run.failed.note(known)
	}
	s.attempt.job.NodesFitErrors = errors
	return failed
}

// tryFirstOrders tries the tasks by rank, where a plugin knows ranks, and the largest first. It also returns the classes that found no room.
func (s *partSearch) tryFirstOrders() (subJobResult, []*feasible.TaskClass) {
	if first := min(s.part.needed, len(s.part.tasks)); s.attempt.compare != nil && s.run.sameClass(s.part.tasks[:first]) < first {
		if result, _ := try(s.part, first, arrangement{byRank: true}); result.outcome != notPlaced {
			return result, nil
		}
	}
	return try(s.part, s.part.needed, arrangement{order: largestFirst})
}

// ruledOut is true if it is known before a trial that there is no room.
func (s *partSearch) ruledOut() bool {
	switch {
	case s.firstTaskFitsNowhere():
		return true
	case s.attempt.packing == nil:
		return false
	case s.attempt.dividesItself() && s.refutedInNumbers():
		return true
	case s.part.idleOnly && s.part.scope.ChosenBy != "" && s.attempt.packable(s.part.scope.Set, s.places) == packing.Impossible:
		return true
	default:
		return s.isVain(memory.AnyWay)
	}
}

// firstTaskFitsNowhere is true if the first task is known to fit nowhere and the sub-job cannot be ready without it. That is
// then noted.
func (s *partSearch) firstTaskFitsNowhere() bool {
	task := s.part.tasks[0]
	cache := s.run.finder.Class(task).Cache()
	if cache == nil || !s.run.ssn.Allocatable(s.run.ssn.Queues[s.attempt.job.Queue], task) {
		return false
	}
	s.attempt.job.ResetSubJobFitErr(s.part.subJob.UID)
	full, errs := s.run.finder.Candidates(task, cache, s.part.scope.Where).Full(s.part.idleOnly)
	if !full {
		return false
	}
	noteNotPlaced(s.attempt.job, task, errs)
	return !s.attempt.job.NeedContinueAllocating(s.part.subJob.UID)
}

// isVain is true if the way has led nowhere for the sub-job, and all that decides on it is as it was.
func (s *partSearch) isVain(in memory.Way) bool {
	key, known := s.vainKey()
	return known && s.run.memory.IsVain(in, key)
}

// noteVain notes that the way leads nowhere for the sub-job.
func (s *partSearch) noteVain(in memory.Way) {
	if key, known := s.vainKey(); known {
		s.run.memory.NoteVain(in, key)
	}
}

// vainKey names all that decides on whether there is a way to place the tasks in the scope: the job, what it needs, the numbers of a
// problem, which have the room that counts, and what verdicts on any node may depend on. It returns false where that is more than can be named. It is asked for where
// nothing of the sub-job is placed. Sub-groups have none: numbers tell of the whole job what stops it.
func (s *partSearch) vainKey() (string, bool) {
	if !s.keyed {
		s.keyed, s.key = true, s.makeVainKey()
	}
	return s.key, s.key != "" && s.attempt.found.refused == s.refused
}

func (s *partSearch) makeVainKey() string {
	needed := s.attempt.neededBySubJob(s.part.subJob)
	if !s.run.progress.gangDecides || s.attempt.job.ContainsSubJobPolicy() || needed < 1 || needed > len(s.part.tasks) || len(s.attempt.job.TaskStatusIndex[api.Pipelined]) > 0 || sharded() || !s.attempt.queueTakes(s.part.tasks) {
		return ""
	}
	in := s.attempt.packing
	if in == nil || in.problem.Wanted != needed {
		in = s.attempt.newPackingInput(s.part.tasks, needed, s.part.neededByRole())
	}
	session := s.run.prints.ofSession()
	if in == nil || session == 0 || !in.decidedByNumbers(s.part.scope.ChosenBy) || in.fillCaches() != nil {
		return ""
	}
	problem, _ := in.problemOn(s.part.scope.Set, s.part.idleOnly, in.byCachedVerdicts(s.part.scope.Set))
	return fmt.Sprintf("%s %d %s", s.attempt.job.UID, session, problem.Key())
}

// refutedInNumbers is true if numbers alone leave no room in the scope for what the sub-job needs, so that there is no way.
func (s *partSearch) refutedInNumbers() bool {
	needed := s.attempt.neededBySubJob(s.part.subJob)
	if !s.run.progress.gangDecides || needed < 1 || needed > len(s.part.tasks) {
		return false
	}
	return s.attempt.refutedAs(s.attempt.packingInputOf(maxRefutedClasses, s.part.tasks, needed, s.part.neededByRole()), s.part.scope.Set, s.part.idleOnly)
}
