// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Attempt is one attempt to place a job: the job's tasks, and the node groups where they may be placed.
type Attempt struct {
	Run     *Run
	Job     *api.JobInfo
	Pending *Pending
	// Groups are the node groups where the job may be placed; nil if it may be placed on any node.
	Groups *framework.NodeGroups
	// Planner divides the job's tasks over the domains of a network; nil if no plugin divides them.
	Planner *framework.TopologyPlanner
	// Avoid are nodes on which the job is placed only if it fits nowhere without them.
	Avoid []string
	// Compare is the order of the job's tasks by rank; nil if they have no ranks.
	Compare func(l, r *api.TaskInfo) int
	// alone reports whether no other job is left, so that no other job waits while all of the job's tasks are placed at once.
	alone   bool
	Members *MemberNodes
	// Packing is the job's demand as the input of packing problems; nil if the attempt makes no packing plans, or if
	// the demand cannot be described as a packing problem.
	Packing *PackingInput
	// Refutable is like Packing, but only for proofs that a set has no room, so it may have more classes.
	Refutable *PackingInput
	// Phases are the values of Options.IdleOnly to try, in order: with true, the job is tried on idle resources only,
	// with false also on resources being released.
	Phases []bool
	// IdleOnlyUntil is the end of the pause in which only idle resources count, because gangs held idle resources for too long;
	// zero for none.
	IdleOnlyUntil time.Time
	Found         Findings
}

// Findings are the results of an attempt, for its explanation.
type Findings struct {
	// fingerprint is the attempt's Fingerprint, if fingerprinted is set.
	fingerprint   uint64
	fingerprinted bool
	// Unfinished counts the searches that continue in another session, or failed for a reason that the attempt's
	// Fingerprint does not cover.
	Unfinished int
	// Refused counts the trials in which enough tasks had room, but a plugin or the queue refused them.
	Refused int
	// SubJobTasks counts the tasks of all sub-jobs that were tried, once for each set of nodes where they were tried.
	SubJobTasks int
	// Tried are the sets of nodes in which the job was tried. Shortfalls are how far trials came in each set. Refuted is, for each
	// set that arithmetic excluded without a trial, the demand that has no room there. All are nil before the first entry.
	Tried      map[*nodeset.Set]bool
	Shortfalls map[*nodeset.Set]Shortfall
	Refuted    map[*nodeset.Set]*PackingInput
	// NoPlanText is why the Planner has no plan for the job.
	NoPlanText string
	// BestEffortReason is why action backfill cannot place members without requests that the job's minimum needs; empty
	// if that does not stop the job.
	BestEffortReason string
}

// NoteRefused records a trial in which enough tasks had room, but a plugin or the queue refused them. The refusal also
// counts as Unfinished, because the attempt's Fingerprint does not cover its reason.
func (f *Findings) NoteRefused() {
	f.Refused++
	f.Unfinished++
}

// NoteTried records that the job was tried in the set.
func (f *Findings) NoteTried(set *nodeset.Set) { setIn(&f.Tried, set, true) }

// NoteRefuted records that arithmetic excluded the set without a trial.
func (f *Findings) NoteRefuted(set *nodeset.Set, demand *PackingInput) {
	setIn(&f.Refuted, set, demand)
}

// NoteShortfall records how far a trial came in the set.
func (f *Findings) NoteShortfall(set *nodeset.Set, found Shortfall) { setIn(&f.Shortfalls, set, found) }

// RefusedBeyondNumbers reports whether a trial failed because a plugin or the queue refused a task for which a node had
// enough resources.
func (f *Findings) RefusedBeyondNumbers() bool {
	for _, found := range f.Shortfalls {
		if found.BeyondNumbers {
			return true
		}
	}
	return false
}

// NewAttempt returns an attempt to place the job in the places where the plugins allow it now. An error says why the
// job may not be placed in this session. pending are the tasks to place. alone reports whether no other job is left to
// be placed.
func NewAttempt(s *Run, job *api.JobInfo, pending *Pending, alone bool) (*Attempt, error) {
	placement, err := s.Session.Placements.Of(job)
	if err != nil {
		return nil, err
	}
	groups := placement.NodeGroups
	r := &Attempt{
		Run: s, Job: job, Pending: pending, Groups: groups, Planner: placement.Planner, Avoid: placement.Avoid, alone: alone,
		Members: s.Progress.Job(job).Members, Phases: []bool{true, false},
	}
	r.IdleOnlyUntil = s.Pauses.Until(map[api.JobID]*Pending{job.UID: pending}, job)
	if pending.IdleOnly || !r.IdleOnlyUntil.IsZero() {
		r.Phases = []bool{true}
	}
	if groups != nil || r.DividesItself() {
		r.Refutable = r.jobInput()
		if r.Refutable != nil && len(r.Refutable.Classes) <= r.maxPackingClasses() {
			r.Packing = r.Refutable
		}
	}
	if groups != nil {
		r.Compare = groups.Compare
		// Placing all tasks at once would put them into one node group. If tasks are placed one by one, a task without
		// room in that node group may go to another one of the job's node groups.
		r.alone = false
	}
	return r, nil
}

// Shortfall is how far a trial came in a set of nodes, and why it stopped. The cause is given as counts of nodes that
// refuse a task (Refusals), or as a text (Reason): why the task's queue, a pre-predicate or a node refuses the task.
type Shortfall struct {
	Placed   int
	Refusals *feasible.Refusals
	Reason   string
	// Queue is the pending reason, such as QueueFull, if Reason says why the task's queue refuses the task.
	Queue string
	// BeyondNumbers reports whether a task that had room was refused by its queue, or by a plugin on a node that had
	// passed the filters, for example because the plugin could not reserve the task's devices there.
	BeyondNumbers bool
}

// RefusalsOf counts the nodes in where by the reason that stops the task on the node. placed are the nodes of members
// that are placed in the current trial.
func (r *Attempt) RefusalsOf(task *api.TaskInfo, where feasible.Where, placed map[int32]bool) *feasible.Refusals {
	return r.Run.Finder.RefusalsOf(task, where, func(node int32) bool { return placed[node] || r.Members.Known[node] })
}

// DividesItself reports whether the job is placed in HyperNodes, sub-job by sub-job.
func (r *Attempt) DividesItself() bool {
	return r.Job.ContainsHardTopology() || r.Job.ContainsSubJobPolicy()
}
