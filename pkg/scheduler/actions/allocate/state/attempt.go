// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Attempt is one attempt to place a job: what it asks for, and where it may lie.
type Attempt struct {
	Run     *Run
	Job     *api.JobInfo
	Pending *Pending
	// Groups are where the job may lie; nil for anywhere.
	Groups *framework.NodeGroups
	// Gathering is how its tasks are divided over nodes; nil where no plugin says.
	Gathering *framework.Gathering
	// Compare is the rank order of the job's tasks; nil when it has none.
	Compare func(l, r *api.TaskInfo) int
	// alone is true if no other job is left, so that no other job waits while all of the job's tasks are placed at once.
	alone   bool
	Members *MemberNodes
	// Packing is what the job asks for in numbers; nil when these say nothing of it.
	Packing *PackingInput
	// Phases are whether only idle resources count, in the order in which that is tried.
	Phases []bool
	// IdleOnlyUntil is the end of the pause in which only idle resources count, because gangs held such for too long; zero for none.
	IdleOnlyUntil time.Time
	Found         Findings
}

// Findings are what an attempt found out, for its explanation.
type Findings struct {
	// Fingerprint is of all that decides on the job, 0 when that is more than can be named.
	Fingerprint uint64
	// Unfinished is how many searches go on in another session, or failed by what no fingerprint names.
	Unfinished int
	// Refused counts the trials in which tasks enough had room, and something that numbers do not know refused them.
	Refused int
	// SubJobTasks counts the tasks of sub-jobs that were tried, again in each place.
	SubJobTasks int
	// Tried are the sets of nodes in which the job was tried, and shortfalls how far trials came there; nil before the first.
	Tried      map[*nodeset.Set]bool
	Shortfalls map[*nodeset.Set]Shortfall
	// GatherText is why there is no plan to gather the job.
	GatherText string
	// BestEffortReason is why the job cannot be completed by backfill; empty elsewhere.
	BestEffortReason string
}

// NoteRefused notes that tasks enough had room, and something that numbers do not know refused them: that is more than can be named.
func (f *Findings) NoteRefused() {
	f.Refused++
	f.Unfinished++
}

// NoteTried notes that the job was tried in the set.
func (f *Findings) NoteTried(set *nodeset.Set) { note(&f.Tried, set, true) }

// NoteShortfall keeps how far a trial came in the set.
func (f *Findings) NoteShortfall(set *nodeset.Set, found Shortfall) { note(&f.Shortfalls, set, found) }

// RefusedBeyondNumbers reports whether a trial failed by what a plugin or the queue says now.
func (f *Findings) RefusedBeyondNumbers() bool {
	for _, found := range f.Shortfalls {
		if found.BeyondNumbers {
			return true
		}
	}
	return false
}

// NewAttempt asks the plugins where the job may lie now. An error is why it may lie nowhere.
func NewAttempt(s *Run, job *api.JobInfo, pending *Pending, alone bool) (*Attempt, error) {
	groups, err := s.Session.Placement.NodeGroups(job)
	if err != nil {
		return nil, err
	}
	gathering, err := s.Session.Placement.Gathering(job)
	if err != nil {
		return nil, err
	}
	r := &Attempt{
		Run: s, Job: job, Pending: pending, Groups: groups, Gathering: gathering, alone: alone,
		Members: s.Progress.Job(job).Members, Phases: []bool{true, false},
	}
	r.IdleOnlyUntil = s.PausedUntil(job)
	if pending.IdleOnly || !r.IdleOnlyUntil.IsZero() {
		r.Phases = []bool{true}
	}
	if groups != nil || r.DividesItself() {
		r.Packing = r.jobInput()
	}
	if groups != nil {
		r.Compare = groups.Compare
		r.alone = false // all at once would be all in one group: what it has no room for may go to another
	}
	return r, nil
}

// Shortfall is how far a trial came in a set of nodes, and what stopped it: nodes, or else a text, which is the queue's or a
// pre-predicate's.
type Shortfall struct {
	Placed   int
	Refusals *feasible.Refusals
	Reason   string
	// Queue is the kind of reason when it is the queue's text.
	Queue string
	// BeyondNumbers is true if a task was refused that had room: by a plugin that cannot reserve for it, or by its queue.
	BeyondNumbers bool
}

// RefusalsOf counts the nodes by what stops the task there, with members of the job on the nodes of placed.
func (r *Attempt) RefusalsOf(task *api.TaskInfo, where feasible.Where, placed map[int32]bool) *feasible.Refusals {
	return r.Run.Finder.RefusalsOf(task, where, func(node int32) bool { return placed[node] || r.Members.Known[node] })
}

// DividesItself is true of a job that goes through HyperNodes, sub-job by sub-job.
func (r *Attempt) DividesItself() bool {
	return r.Job.ContainsHardTopology() || r.Job.ContainsSubJobPolicy()
}
