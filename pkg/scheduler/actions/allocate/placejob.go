// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/explain"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/search"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// scheduler places the jobs of a session, one after the other.
type scheduler struct {
	run *state.Run
	// waiting are the jobs of the session that are still to be placed, and their tasks.
	waiting *jobQueues
	// gangGroups is the result of each gang group that was tried in the session.
	gangGroups map[*binding.GangGroup]groupResult
}

// newScheduler returns a scheduler for the jobs that are to be placed in the run.
func newScheduler(run *state.Run) *scheduler {
	s := &scheduler{run: run, waiting: newJobQueues(run), gangGroups: map[*binding.GangGroup]groupResult{}}
	run.CrossSession.Turns.BeginSession(run.Now(), s.waiting.inOneNamespace(), run.GangNames)
	return s
}

// placeJob places enough of the pending tasks to make the job ready, or further tasks of a ready job. alone reports
// whether no other job is left to be placed. placeJob reports whether tasks were handed over to be bound; if not, the
// caller does not try the job again in this session.
func (s *scheduler) placeJob(job *api.JobInfo, pending *state.Pending, alone bool) bool {
	began := s.run.Now()
	r, err := state.NewAttempt(s.run, job, pending, alone)
	if err != nil {
		klog.V(3).InfoS("Job could not be placed", "podGroup", klog.KRef(job.Namespace, job.Name), "err", err)
		s.run.SetPendingReason(job, framework.PendingReason{Reason: framework.NotEnoughResources, Message: err.Error()})
		return false
	}
	defer s.run.Finder.ForgetJob()
	if explain.Reuse(r) {
		return false
	}
	if !s.run.HasTurn([]*api.JobInfo{job}) {
		explain.Repeat(r)
		return false
	}
	result := search.Solve(r)
	handed := finish(r, result)
	if !handed {
		s.run.ChargeAttempt([]*api.JobInfo{job}, began)
	}
	if result.Outcome == trial.Pipelined {
		s.run.NoteWaiting([]*api.JobInfo{job})
	}
	return handed
}

// finish handles the result of an attempt to place a job. Tasks of a ready job are handed over to be bound. A job that
// waits for resources being released keeps its placement until the session ends. If the job was not placed, the reason is
// recorded. finish reports whether tasks were handed over.
func finish(r *state.Attempt, result trial.Result) bool {
	switch {
	case result.Outcome == trial.Ready && r.Run.Progress.JobReady(r.Job):
		r.Run.Failed.NotePlaced()
		result.Commit(r.Job)
		r.Run.Progress.Advance(r.Job, result.Tasks())
		r.Pending.RememberFitErrors(r.Job)
		r.Pending.KeepOnly(result.Rest)
		result.RecordHyperNodes(r.Run.Session, r.Job)
		noteHolds(r.Run, search.PlacedGangs{{Attempt: r, Result: result}}, true)
		return true
	case result.Outcome != trial.NotPlaced:
		r.Run.Failed.NotePlaced()
		noteHolds(r.Run, search.PlacedGangs{{Attempt: r, Result: result}}, false)
	default:
		explain.RecordUnplaced(r)
	}
	return false
}

// groupResult is the result of the only attempt in a session to place a gang group.
type groupResult int

const (
	groupNotTried groupResult = iota
	groupWaits
	groupPlaced
)
