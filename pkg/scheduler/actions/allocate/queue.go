// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// placeJobs schedules the jobs that plugins put before all queues (jobQueues.first), and then the other jobs, queue by
// queue.
func (s *scheduler) placeJobs() {
	q := s.waiting
	for _, job := range q.first {
		if s.run.Session.Overused(s.run.Session.Queues[job.Queue]) {
			q.jobs[job.Queue].push(job.JobInfo) // the job stays in its queue, where explainOverused records why it waits
			continue
		}
		s.run.Session.SetCurrentJob(job.UID)
		s.scheduleFirstJob(job)
	}
	q.pushQueues(s.run.Session)
	klog.V(3).InfoS("Allocating", "queues", q.queues.Len())
	for !q.queues.Empty() {
		s.scheduleQueue(q.queues.Pop().(*api.QueueInfo))
	}
}

// scheduleFirstJob places a job that a plugin put before all queues. If the plugin named only some of the job's tasks,
// only these are placed now. The other tasks are placed when the job's queue is scheduled. They are placed on idle
// resources only, if tasks of the job then wait for resources being released.
func (s *scheduler) scheduleFirstJob(job firstJob) {
	pending := s.waiting.pending[job.UID]
	var others *state.Pending
	if gangs, all := framework.Companions(s.run.Session.Jobs, s.run.Session.Placements.GangGroup(job.JobInfo)); gangs == nil && all {
		others = pending.Restrict(job.Only)
	}
	if others == nil {
		s.scheduleJob(job.JobInfo, false)
		return
	}
	if !pending.Empty() {
		s.placeJob(job.JobInfo, pending, false)
		s.run.Progress.Forget(job.JobInfo)
	}
	pending.Restore(others)
	pending.IdleOnly = len(job.TaskStatusIndex[api.Pipelined]) > 0
	s.waiting.jobs[job.Queue].push(job.JobInfo)
}

// scheduleQueue schedules the next job of the queue, and puts the queue back into the priority queue. It drops a queue
// that is overused or has no more jobs.
func (s *scheduler) scheduleQueue(queue *api.QueueInfo) {
	if s.run.Session.Overused(queue) {
		klog.V(3).InfoS("Skipped the jobs of an overused queue", "queue", queue.Name)
		s.explainOverused(queue)
		return
	}
	jobs := s.waiting.jobs[queue.UID]
	if jobs.empty() {
		return
	}
	job := jobs.pop()
	s.run.Session.SetCurrentJob(job.UID)
	s.scheduleJob(job, jobs.empty() && s.waiting.queues.Empty())
	s.waiting.queues.Push(queue)
}

// scheduleJob places as many of the job's tasks as possible in one attempt. If it placed tasks and others are left, it
// puts the job back into its queue. alone reports whether no other job is left to be placed.
func (s *scheduler) scheduleJob(job *api.JobInfo, alone bool) {
	pending := s.waiting.pending[job.UID]
	if pending.Empty() || s.scheduleGangGroup(job) { // the job's gang group was scheduled instead
		return
	}
	if s.placeJob(job, pending, alone) && !pending.Empty() {
		s.waiting.jobs[job.Queue].push(job)
		return
	}
	pending.RestoreFitErrors(job)
	s.run.Progress.Forget(job)
}

// explainOverused records, for each remaining job of an overused queue, why the job is not scheduled further in this
// session.
func (s *scheduler) explainOverused(queue *api.QueueInfo) {
	for jobs := s.waiting.jobs[queue.UID]; !jobs.empty(); {
		job := jobs.pop()
		pending := s.waiting.pending[job.UID]
		if pending.Empty() { // all of the job's tasks are already placed
			continue
		}
		pending.RestoreFitErrors(job)
		reason := s.run.Session.QueueUse.PendingReason(queue, pending.First().InitResreq, func() bool { return s.run.Session.Overused(queue) })
		if s.run.Progress.JobReady(job) {
			reason.Message = "the minimum is placed, further members wait: " + reason.Message
		}
		s.run.SetPendingReason(job, reason)
	}
}
