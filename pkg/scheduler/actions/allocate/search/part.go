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
	// places is the number of node groups or HyperNodes in which the job is still to be tried, including the current
	// one.
	places int
	// refused is how many trials of the attempt failed before this search because a plugin or the queue refused tasks
	// that had room (state.Findings.Refused).
	refused int
	// key is a text of everything that decides whether the search's tasks (part.Tasks) can be placed in its scope. It
	// is empty if one of these inputs cannot be compared between sessions. keyed is set once key was computed.
	key   string
	keyed bool
}

// orderSearch returns the key of the search for an order of the tasks in which all of them find room.
func (s *partSearch) orderSearch() crosssession.Search {
	return s.run.SearchOf(s.attempt.Job, s.part.Scope.Set.Name, s.part.IdleOnly)
}

// hasFailed reports whether the given way to place the search's tasks (part.Tasks) has already failed, and everything
// that decides whether these tasks can be placed (failureKey) is unchanged since then.
func (s *partSearch) hasFailed(in crosssession.Way) bool {
	key, known := s.failureKey()
	return known && s.run.CrossSession.HasFailed(in, key)
}

// recordFailed records that the given way to place the search's tasks (part.Tasks) fails while everything that decides
// whether these tasks can be placed (failureKey) stays unchanged.
func (s *partSearch) recordFailed(in crosssession.Way) {
	if key, known := s.failureKey(); known {
		s.run.CrossSession.RecordFailed(in, key)
	}
}

// failureKey returns a text of everything that decides whether the tasks can be placed in the scope: the job and its
// needs, the numbers of the packing problem, which include the free resources of nodes, and the inputs of filter
// results on any node. It returns false if one of these cannot be compared between sessions, or if a plugin or the
// queue refused tasks that had room in this search. The key is valid while no task of the sub-job is placed. Jobs with
// sub-groups have no key, because the numbers cover only the whole job.
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

// gangName returns a text of everything that decides whether a gang of different tasks fits into the scope: the classes
// in task order, the number needed, the roles, and the queue. While nothing else is placed, only the first of several
// gangs with equal texts is tried in every way.
//
// The text is empty if such a text cannot decide: for gangs with placed members, a topology, nominated nodes or filter
// results that apply to them alone, and if a plugin reads more of a task than its class.
func (s *partSearch) gangName() string {
	if s.run.Finder.ReadsAnything() || len(s.attempt.Members.Nodes) > 0 || s.attempt.Job.ContainsSubJobPolicy() || s.part.SubJob.WithNetworkTopology() || s.run.SameClass(s.part.Tasks) == len(s.part.Tasks) {
		// A gang of one class needs no key: the result for its first task decides for the gang. SameClass is called last
		// because it reads all tasks.
		return ""
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
