// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Attempt is one attempt to place a job: what it asks for, and where it may lie.
type Attempt struct {
	run     *Run
	job     *api.JobInfo
	pending *pendingTasks
	// groups are where the job may lie; nil for anywhere.
	groups *framework.NodeGroups
	// gathering is how its tasks are divided over nodes; nil where no plugin says.
	gathering *framework.Gathering
	// compare is the rank order of the job's tasks; nil when it has none.
	compare func(l, r *api.TaskInfo) int
	// alone is true if no other job is left, so that no other job waits while all of the job's tasks are placed at once.
	alone   bool
	members *memberNodes
	// packing is what the job asks for in numbers; nil when these say nothing of it.
	packing *packingInput
	// phases are whether only idle resources count, in the order in which that is tried.
	phases []bool
	found  *findings
}

// findings are what an attempt found out, for its explanation.
type findings struct {
	// fingerprint is of all that decides on the job, 0 when that is more than can be named.
	fingerprint uint64
	// unfinished is how many searches go on in another session, or failed by what no fingerprint names.
	unfinished int
	// refused counts the trials in which tasks enough had room, and something that numbers do not know refused them.
	refused int
	// subJobTasks counts the tasks of sub-jobs that were tried, again in each place.
	subJobTasks int
	// tried are the sets of nodes in which the job was tried, and shortfalls how far trials came there; nil before the first.
	tried      map[*nodeset.Set]bool
	shortfalls map[*nodeset.Set]shortfall
	// gatherText is why there is no plan to gather the job.
	gatherText string
	// bestEffortReason is why the job cannot be completed by backfill; empty elsewhere.
	bestEffortReason string
}

// noteRefused notes that tasks enough had room, and something that numbers do not know refused them: that is more than can be named.
func (f *findings) noteRefused() {
	f.refused++
	f.unfinished++
}

// refusedBeyondNumbers reports whether a trial failed by what a plugin or the queue says now.
func (f *findings) refusedBeyondNumbers() bool {
	for _, found := range f.shortfalls {
		if found.beyondNumbers {
			return true
		}
	}
	return false
}

// newAttempt asks the plugins where the job may lie now. An error is why it may lie nowhere.
func newAttempt(s *Run, job *api.JobInfo, pending *pendingTasks, alone bool) (*Attempt, error) {
	groups, err := s.ssn.NodeGroups(job)
	if err != nil {
		return nil, err
	}
	gathering, err := s.ssn.Gathering(job)
	if err != nil {
		return nil, err
	}
	r := &Attempt{
		run: s, job: job, pending: pending, groups: groups, gathering: gathering, alone: alone,
		members: s.progress.job(job).members, phases: []bool{true, false}, found: &findings{},
	}
	if pending.idleOnly {
		r.phases = []bool{true}
	}
	if groups != nil || r.dividesItself() {
		r.packing = r.jobInput()
	}
	if groups != nil {
		r.compare = groups.Compare
		r.alone = false // all at once would be all in one group: what it has no room for may go to another
	}
	return r, nil
}

// note enters the value in the map, which is made for its first.
func note[K comparable, V any](values *map[K]V, key K, value V) {
	if *values == nil {
		*values = map[K]V{}
	}
	(*values)[key] = value
}

// shortfall is how far a trial came in a set of nodes, and what stopped it: nodes, or else a text, which is the queue's or a
// pre-predicate's.
type shortfall struct {
	placed   int
	refusals *feasible.Refusals
	reason   string
	// queue is the kind of reason when it is the queue's text.
	queue string
	// beyondNumbers is true if a task was refused that had room: by a plugin that cannot reserve for it, or by its queue.
	beyondNumbers bool
}

// refusalsOf counts the nodes by what stops the task there, with members of the job on the nodes of placed.
func (r *Attempt) refusalsOf(task *api.TaskInfo, where feasible.Where, placed map[int32]bool) *feasible.Refusals {
	return r.run.finder.RefusalsOf(task, where, func(node int32) bool { return placed[node] || r.members.known[node] })
}

// dividesItself is true of a job that goes through HyperNodes, sub-job by sub-job.
func (r *Attempt) dividesItself() bool {
	return r.job.ContainsHardTopology() || r.job.ContainsSubJobPolicy()
}
