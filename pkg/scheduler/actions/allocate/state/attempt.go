// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Attempt is one attempt to place a job: its tasks, and the places where it may be placed.
type Attempt struct {
	Run     *Run
	Job     *api.JobInfo
	Pending *Pending
	// Groups are the node groups where the job may be placed; nil for anywhere.
	Groups *framework.NodeGroups
	// Planner divides its tasks over domains; nil when no plugin gathers it.
	Planner *framework.TopologyPlanner
	// Avoid are nodes on which it is placed only if it fits nowhere without them.
	Avoid []string
	// Compare is the rank order of the job's tasks; nil when it has none.
	Compare func(l, r *api.TaskInfo) int
	// alone reports whether no other job is left, so that no other job waits while all of the job's tasks are placed at once.
	alone   bool
	Members *MemberNodes
	// Packing is the job's demand in numbers; nil when numbers cannot describe it.
	Packing *PackingInput
	// Phases are the values of IdleOnly to try, in order.
	Phases []bool
	// IdleOnlyUntil is the end of the pause in which only idle resources count, because gangs held idle resources for too long;
	// zero for none.
	IdleOnlyUntil time.Time
	Found         Findings
}

// Findings are the results of an attempt, for its explanation.
type Findings struct {
	// Fingerprint is the fingerprint of everything that decides on the job, 0 when that cannot be named.
	Fingerprint uint64
	// Unfinished counts the searches that continue in another session, or failed for a reason that no fingerprint
	// covers.
	Unfinished int
	// Refused counts the trials in which enough tasks had room, but were refused for reasons beyond numbers.
	Refused int
	// SubJobTasks counts the tasks of sub-jobs that were tried, once for each place.
	SubJobTasks int
	// Tried are the sets of nodes in which the job was tried, and Shortfalls how far trials came there; nil before the first.
	Tried      map[*nodeset.Set]bool
	Shortfalls map[*nodeset.Set]Shortfall
	// NoPlanText is why there is no plan to gather the job.
	NoPlanText string
	// BestEffortReason is why backfill cannot complete the job; empty otherwise.
	BestEffortReason string
}

// NoteRefused records that enough tasks had room, but were refused for reasons beyond numbers, which no fingerprint covers.
func (f *Findings) NoteRefused() {
	f.Refused++
	f.Unfinished++
}

// NoteTried records that the job was tried in the set.
func (f *Findings) NoteTried(set *nodeset.Set) { setIn(&f.Tried, set, true) }

// NoteShortfall records how far a trial came in the set.
func (f *Findings) NoteShortfall(set *nodeset.Set, found Shortfall) { setIn(&f.Shortfalls, set, found) }

// RefusedBeyondNumbers reports whether a trial failed for a reason of a plugin or the queue beyond numbers.
func (f *Findings) RefusedBeyondNumbers() bool {
	for _, found := range f.Shortfalls {
		if found.BeyondNumbers {
			return true
		}
	}
	return false
}

// NewAttempt asks the plugins where the job may be placed now. An error says why it may be placed nowhere.
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
	r.IdleOnlyUntil = s.Pauses.Until(job)
	if pending.IdleOnly || !r.IdleOnlyUntil.IsZero() {
		r.Phases = []bool{true}
	}
	if groups != nil || r.DividesItself() {
		r.Packing = r.jobInput()
	}
	if groups != nil {
		r.Compare = groups.Compare
		r.alone = false // placing all tasks at once would put them into one group; those without room there may go to another
	}
	return r, nil
}

// Shortfall is how far a trial came in a set of nodes, and why it stopped: refusals of nodes, or a text of the queue or
// of a pre-predicate.
type Shortfall struct {
	Placed   int
	Refusals *feasible.Refusals
	Reason   string
	// Queue is the kind of reason if the text comes from the queue.
	Queue string
	// BeyondNumbers reports whether a task that had room was refused, by its queue or by a plugin that cannot reserve
	// for it.
	BeyondNumbers bool
}

// RefusalsOf counts the nodes by the reason that stops the task there. placed are nodes that also have members of the
// job.
func (r *Attempt) RefusalsOf(task *api.TaskInfo, where feasible.Where, placed map[int32]bool) *feasible.Refusals {
	return r.Run.Finder.RefusalsOf(task, where, func(node int32) bool { return placed[node] || r.Members.Known[node] })
}

// DividesItself reports whether the job is placed in HyperNodes, sub-job by sub-job.
func (r *Attempt) DividesItself() bool {
	return r.Job.ContainsHardTopology() || r.Job.ContainsSubJobPolicy()
}
