// SPDX-License-Identifier: Apache-2.0

package search

import (
	"encoding/binary"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// partSearch looks for a way to place a part of a job, such as a sub-job, in one scope.
type partSearch struct {
	part    *trial.Part
	attempt *state.Attempt
	run     *state.Run
	// places is the number of places where the job is still to be tried, including this one.
	places int
	// refused is how many trials of the attempt had been refused for reasons beyond numbers before this search.
	refused int
	// key names everything that decides on the part, once keyed is set; empty if that cannot be named.
	key   string
	keyed bool
}

// orderSearch identifies the search for an order of the tasks in which they find room.
func (s *partSearch) orderSearch() crosssession.Search {
	return s.run.SearchOf(s.attempt.Job, s.part.Scope.Set.Name, s.part.IdleOnly)
}

// hasFailed reports whether the search is known to fail for the sub-job, because it failed in an equal situation.
func (s *partSearch) hasFailed(in crosssession.Way) bool {
	key, known := s.failureKey()
	return known && s.run.CrossSession.HasFailed(in, key)
}

// recordFailed records that the search fails for the sub-job.
func (s *partSearch) recordFailed(in crosssession.Way) {
	if key, known := s.failureKey(); known {
		s.run.CrossSession.RecordFailed(in, key)
	}
}

// failureKey names everything that decides whether the tasks can be placed in the scope: the job, its needs, the numbers of the
// packing problem, which include all relevant room, and the inputs of verdicts on any node. It returns false where these cannot
// be named. It is used while no task of the sub-job is placed. Sub-groups have no key, because numbers cover only the whole job.
func (s *partSearch) failureKey() (string, bool) {
	if !s.keyed {
		s.keyed, s.key = true, s.makeFailureKey()
	}
	return s.key, s.key != "" && s.attempt.Found.Refused == s.refused
}

func (s *partSearch) makeFailureKey() string {
	needed := s.attempt.NeededBySubJob(s.part.SubJob)
	if !s.run.Progress.GangDecides || s.attempt.Job.ContainsSubJobPolicy() || needed < 1 || needed > len(s.part.Tasks) || len(s.attempt.Job.TaskStatusIndex[api.Pipelined]) > 0 || state.Sharded() || !s.attempt.QueueTakes(s.part.Tasks) {
		return ""
	}
	in := s.attempt.Packing
	if in == nil || in.Problem.Wanted != needed {
		in = s.attempt.NewPackingInput(s.part.Tasks, needed, s.part.NeededByRole())
	}
	session := s.run.Prints.OfSession()
	if in == nil || session == 0 || !in.DecidedByNumbers(s.part.Scope.ChosenBy) || in.FillCaches() != nil {
		return ""
	}
	problem, _ := in.ProblemOn(s.part.Scope.Set, s.part.IdleOnly, in.ByCachedFilterResults(s.part.Scope.Set))
	return fmt.Sprintf("%s %d %s", s.attempt.Job.UID, session, problem.Key())
}

// gangName names everything that decides whether a gang of different tasks fits into the scope: their classes in task order, the
// number needed, their roles, and the queue. Of equal gangs only the first is then tried in every way while nothing
// else is placed. The name is empty where that cannot be named: for gangs with placed members, a topology, nominated nodes, or
// verdicts of their own, and where a plugin reads more of a task than its class.
func (s *partSearch) gangName() string {
	if s.run.Finder.ReadsAnything() || len(s.attempt.Members.Nodes) > 0 || s.attempt.Job.ContainsSubJobPolicy() || s.part.SubJob.WithNetworkTopology() || s.run.SameClass(s.part.Tasks) == len(s.part.Tasks) {
		return "" // equal tasks are known from the first one; the last condition looks at all tasks
	}
	key := fmt.Appendf(nil, "%p %t %d %s %v %s", s.part.Scope.Set, s.part.IdleOnly, s.part.Needed, s.attempt.Job.Queue, s.part.NeededByRole(), s.part.Scope.ChosenBy)
	for rest := s.part.Tasks; len(rest) > 0; {
		class, n := s.run.Finder.Class(rest[0]), s.run.SameClass(rest)
		nominated := func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }
		if s.run.Finder.PerJobBut(rest[0], s.part.Scope.ChosenBy) || slices.ContainsFunc(rest[:n], nominated) {
			return ""
		}
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(class.Number())), uint64(n))
		rest = rest[n:]
	}
	return string(key)
}
