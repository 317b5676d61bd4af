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

// scheduler gives turns to the jobs of a session.
type scheduler struct {
	run *state.Run
	// waiting is what is to be placed.
	waiting *jobQueues
	// units are those of several gangs that had their turn.
	units map[*binding.Unit]unitTurn
}

// newScheduler lists what is to be placed in the run.
func newScheduler(run *state.Run) *scheduler {
	return &scheduler{run: run, waiting: newJobQueues(run), units: map[*binding.Unit]unitTurn{}}
}

// placeJobs gives turns to the jobs that are urgent, and then to the others, queue by queue.
func (s *scheduler) placeJobs() {
	q := s.waiting
	for _, job := range q.urgent {
		if s.run.Session.Overused(s.run.Session.Queues[job.Queue]) {
			q.jobs[job.Queue].push(job.JobInfo) // it is told so with the others
			continue
		}
		s.run.Session.Turn(job.UID)
		s.takeUrgentTurn(job)
	}
	q.pushQueues(s.run.Session)
	klog.V(3).InfoS("Allocating", "queues", q.queues.Len())
	for !q.queues.Empty() {
		s.serveQueue(q.queues.Pop().(*api.QueueInfo))
	}
}

// takeUrgentTurn places the job's urgent tasks. Its other tasks have the job's turn in its queue, where they get idle resources.
func (s *scheduler) takeUrgentTurn(job urgentJob) {
	pending := s.waiting.pending[job.UID]
	var others *state.Pending
	if gangs, all := framework.Companions(s.run.Session.Jobs, s.run.Session.Placement.Unit(job.JobInfo)); gangs == nil && all {
		others = pending.SetAside(job.Only)
	}
	if others == nil {
		s.takeTurn(job.JobInfo, false)
		return
	}
	if !pending.Empty() {
		s.placeJob(job.JobInfo, pending, false)
		s.run.Progress.Forget(job.JobInfo)
	}
	pending.PutBack(others)
	pending.IdleOnly = len(job.TaskStatusIndex[api.Pipelined]) > 0
	s.waiting.jobs[job.Queue].push(job.JobInfo)
}

// serveQueue gives the next job of the queue its turn, and puts the queue back while it has jobs.
func (s *scheduler) serveQueue(queue *api.QueueInfo) {
	if s.run.Session.Overused(queue) {
		klog.V(3).InfoS("Queue is overused, its jobs wait", "queue", queue.Name)
		s.explainOverused(queue)
		return
	}
	jobs := s.waiting.jobs[queue.UID]
	if jobs.empty() {
		return
	}
	job := jobs.pop()
	s.run.Session.Turn(job.UID)
	s.takeTurn(job, jobs.empty() && s.waiting.queues.Empty())
	s.waiting.queues.Push(queue)
}

// takeTurn places what it can of the job, and puts the job back into its queue while there is more of it to be placed. alone
// is true if no other job is left.
func (s *scheduler) takeTurn(job *api.JobInfo, alone bool) {
	pending := s.waiting.pending[job.UID]
	if pending.Empty() || s.takeUnitTurn(job) { // it has had its turn with its unit
		return
	}
	if s.placeJob(job, pending, alone) && !pending.Empty() {
		s.waiting.jobs[job.Queue].push(job)
		return
	}
	pending.RestoreFitErrors(job)
	s.run.Progress.Forget(job)
}

// explainOverused tells the jobs of a queue that has no turn in this session any more.
func (s *scheduler) explainOverused(queue *api.QueueInfo) {
	for jobs := s.waiting.jobs[queue.UID]; !jobs.empty(); {
		job := jobs.pop()
		pending := s.waiting.pending[job.UID]
		if pending.Empty() { // placed with its unit
			continue
		}
		pending.RestoreFitErrors(job)
		wait := s.run.Session.QueueWait(queue, pending.First().InitResreq, func() bool { return s.run.Session.Overused(queue) })
		if s.run.Progress.JobReady(job) {
			wait.Message = "the minimum is placed, further members wait: " + wait.Message
		}
		s.run.RecordWait(job, wait)
	}
}

// placeJob places what makes the job ready, or more of a job that is. It returns true if something was handed over to be
// bound: a job that is not ready, or waits for resources being released, is not looked at again in this session.
func (s *scheduler) placeJob(job *api.JobInfo, pending *state.Pending, alone bool) bool {
	r, err := state.NewAttempt(s.run, job, pending, alone)
	if err != nil {
		klog.V(3).InfoS("A job is not placed", "podGroup", klog.KRef(job.Namespace, job.Name), "err", err)
		s.run.RecordWait(job, framework.Wait{Reason: framework.NotEnoughResources, Message: err.Error()})
		return false
	}
	defer s.run.Finder.ForgetJob()
	if explain.Reuse(r) {
		return false
	}
	return finish(r, search.Solve(r))
}

// finish hands a result that makes the job ready over to be bound, keeps one that waits in the session, and explains why there
// is none. It returns true if something was handed over.
func finish(r *state.Attempt, result trial.Result) bool {
	switch {
	case result.Outcome == trial.Ready && r.Run.Progress.JobReady(r.Job):
		r.Run.Failed.NotePlaced()
		result.Commit(r.Job)
		r.Run.Progress.Advance(r.Job, result.Tasks())
		r.Pending.RememberFitErrors(r.Job)
		r.Pending.KeepOnly(result.Rest)
		result.RecordHyperNodes(r.Run.Session, r.Job)
		return true
	case result.Outcome != trial.NotPlaced:
		r.Run.Failed.NotePlaced()
	default:
		explain.RecordMisfit(r)
	}
	return false
}
