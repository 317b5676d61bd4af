// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"time"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// solver is one run of the action on a session: what all of its jobs share.
type solver struct {
	ssn     *framework.Session
	index   *nodeset.Index
	finder  *feasible.Finder
	memory  *memory.Memory
	observe func(result string)
	now     func() time.Time

	// gangDecides is true if the gang plugin decides on readiness, and notGang are the session's tiers without it.
	gangDecides bool
	notGang     []conf.Tier
	// progress is of the jobs that get another turn.
	progress map[api.JobID]*progress
	// failedGangs are the gangs that fit nowhere, by when: jobsPlaced counts the jobs of which something was placed for good.
	failedGangs map[failedGang]int
	jobsPlaced  int
	// units are those of several gangs that had their turn.
	units map[*binding.Unit]unitTurn
	// probed counts the tasks placed for explanations alone.
	probed int
	// devicesOn is a node with devices of each make, and fingerprinter makes fingerprints; both are nil before they are asked
	// for.
	devicesOn     map[string]*api.NodeInfo
	fingerprinter *fingerprinter
}

func newSolver(ssn *framework.Session, act *Action) *solver {
	s := &solver{
		ssn:         ssn,
		index:       nodeset.New(ssn),
		memory:      act.memory,
		observe:     act.observe,
		now:         time.Now,
		notGang:     ssn.TiersWithout(gang.PluginName),
		progress:    map[api.JobID]*progress{},
		failedGangs: map[failedGang]int{},
		units:       map[*binding.Unit]unitTurn{},
	}
	s.finder = feasible.New(ssn, s.index, act.defaults, act.memory.Tasks)
	option, found := ssn.PluginOption(gang.PluginName)
	s.gangDecides = found && option.EnabledJobReady != nil && *option.EnabledJobReady
	return s
}

// placeJobs gives turns to the jobs that are urgent, and then to the others, queue by queue.
func (s *solver) placeJobs() {
	q := s.newJobQueues()
	for _, job := range q.urgent {
		if s.ssn.Overused(s.ssn.Queues[job.Queue]) {
			q.jobs[job.Queue].push(job.JobInfo) // it is told so with the others
			continue
		}
		s.ssn.Turn(job.UID)
		s.takeUrgentTurn(q, job)
	}
	q.pushQueues(s.ssn)
	klog.V(3).InfoS("Allocating", "queues", q.queues.Len())
	for !q.queues.Empty() {
		s.serveQueue(q, q.queues.Pop().(*api.QueueInfo))
	}
}

// takeUrgentTurn places the job's urgent tasks. Its other tasks have the job's turn in its queue, where they get idle resources.
func (s *solver) takeUrgentTurn(q *jobQueues, job urgentJob) {
	pending := q.pending[job.UID]
	var others *pendingTasks
	if gangs, all := s.ssn.Companions(job.JobInfo); gangs == nil && all {
		others = pending.setAside(job.Only)
	}
	if others == nil {
		s.takeTurn(q, job.JobInfo, false)
		return
	}
	if !pending.empty() {
		s.placeJob(job.JobInfo, pending, false)
		delete(s.progress, job.UID)
	}
	pending.putBack(others)
	pending.idleOnly = len(job.TaskStatusIndex[api.Pipelined]) > 0
	q.jobs[job.Queue].push(job.JobInfo)
}

// serveQueue gives the next job of the queue its turn, and puts the queue back while it has jobs.
func (s *solver) serveQueue(q *jobQueues, queue *api.QueueInfo) {
	if s.ssn.Overused(queue) {
		klog.V(3).InfoS("Queue is overused, its jobs wait", "queue", queue.Name)
		s.explainOverused(q, queue)
		return
	}
	jobs := q.jobs[queue.UID]
	if jobs.empty() {
		return
	}
	job := jobs.pop()
	s.ssn.Turn(job.UID)
	s.takeTurn(q, job, jobs.empty() && q.queues.Empty())
	q.queues.Push(queue)
}

// takeTurn places what it can of the job, and puts the job back into its queue while there is more of it to be placed. alone
// is true if no other job is left.
func (s *solver) takeTurn(q *jobQueues, job *api.JobInfo, alone bool) {
	pending := q.pending[job.UID]
	if pending.empty() || s.takeUnitTurn(q, job) { // it has had its turn with its unit
		return
	}
	if s.placeJob(job, pending, alone) && !pending.empty() {
		q.jobs[job.Queue].push(job)
		return
	}
	pending.restoreFitErrors(job)
	delete(s.progress, job.UID)
}

// explainOverused tells the jobs of a queue that has no turn in this session any more.
func (s *solver) explainOverused(q *jobQueues, queue *api.QueueInfo) {
	for jobs := q.jobs[queue.UID]; !jobs.empty(); {
		job := jobs.pop()
		pending := q.pending[job.UID]
		if pending.empty() { // placed with its unit
			continue
		}
		pending.restoreFitErrors(job)
		wait := s.ssn.QueueWait(queue, pending.first().InitResreq, func() bool { return s.ssn.Overused(queue) })
		if s.jobReady(job) {
			wait.Message = "the minimum is placed, further members wait: " + wait.Message
		}
		s.recordWait(job, wait)
	}
}

// recordWait keeps why the job is not placed.
func (s *solver) recordWait(job *api.JobInfo, wait framework.Wait) {
	job.JobFitErrors = wait.Message
	s.ssn.ExplainWait(job.UID, wait)
}

// searchOf is the search for room for tasks of the job in the named set.
func (s *solver) searchOf(job *api.JobInfo, set string, idleOnly bool) memory.Search {
	of := memory.Search{Unit: string(job.UID), Job: job.UID, Set: set, IdleOnly: idleOnly}
	if unit := s.ssn.Unit(job); unit != nil && len(unit.Gangs) > 1 {
		of.Unit = unit.ID
	}
	return of
}
