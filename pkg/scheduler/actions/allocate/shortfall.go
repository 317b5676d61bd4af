// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// maxProbed bounds how many tasks are placed for explanations alone, in one run of the action: two gangs of 1,000. Beyond it
// explanations are of upper bounds, which cost no placement.
const maxProbed = 2_000

// maxProbedOfJob bounds it for one job where numbers suffice to tell that it fits nowhere: eight members in 32 node groups.
const maxProbedOfJob = 256

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

// probe places as many of the job's tasks in the group as it can, the smallest first, and takes them back, to note what stops
// the next. There is a bound to that, and jobs whose sub-jobs choose among HyperNodes are not probed.
func (r *jobRun) probe(group *topology.Group) {
	uid := r.job.DefaultSubJobID()
	tasks := r.pending.tasks[uid]
	if r.probed+len(tasks) > maxProbed || r.job.ContainsHardTopology() || r.job.ContainsSubJobPolicy() {
		return
	}
	r.probed += len(tasks)
	scope := r.groupScope(group, nil, r.groups.Plugin)
	p := r.subJobRun(r.job.SubJobs[uid], tasks, scope, trialOptions{idleOnly: true}).newTaskPlacer()
	p.patient = true
	p.placeBatches(p.batches(tasks, arrangement{order: smallestFirst, anyOrder: true}))
	if result := p.end(nil); result.outcome != notPlaced {
		result.discard()
	}
}

// noteShortfall keeps, for the explanation, the trial that came furthest in the set, of the first ones there.
func (p *taskPlacer) noteShortfall() {
	if p.retrying {
		return
	}
	set := p.scope.Set
	if former, ok := p.shortfalls[set]; ok && (len(p.placed) <= former.placed || former.beyondNumbers) {
		return
	}
	found := shortfall{placed: len(p.placed), reason: p.reason}
	if found.reason == "" {
		p.findShortfall(&found)
	}
	note(&p.shortfalls, set, found)
}

// noteRefusal keeps, for the explanation, what refused the task although it had room by a plan: the first such refusal in the set. It is
// more than numbers tell of a trial in which members filled the nodes.
func (p *taskPlacer) noteRefusal(task *api.TaskInfo) {
	if p.shortfalls[p.scope.Set].beyondNumbers {
		return
	}
	found := shortfall{placed: len(p.placed)}
	if p.refused[task.UID] {
		p.findQueueShortfall(&found, task)
	} else {
		p.findNodeShortfall(&found, task)
	}
	if found.beyondNumbers {
		note(&p.shortfalls, p.scope.Set, found)
	}
}

// findShortfall finds what stops the next task: nodes, when none takes it, or its queue.
func (p *taskPlacer) findShortfall(found *shortfall) {
	if task := p.firstOf(func(uid api.TaskID) bool { return p.job.NodesFitErrors[uid] != nil }); task != nil {
		p.findNodeShortfall(found, task)
		if found.refusals == nil || len(found.refusals.Reasons) == 0 && found.refusals.Filled == 0 {
			found.reason = p.job.NodesFitErrors[task.UID].Error()
		}
	} else if task := p.firstOf(func(uid api.TaskID) bool { return p.refused[uid] }); task != nil {
		p.findQueueShortfall(found, task)
	}
}

// findNodeShortfall counts the nodes by what stops the task there.
func (p *taskPlacer) findNodeShortfall(found *shortfall, task *api.TaskInfo) {
	found.refusals = p.refusalsOf(task, p.scope.Where, p.nodes())
	if found.refusals == nil {
		return
	}
	for reason, nodes := range p.unreserved[task.UID] {
		found.refusals.Reasons[reason] += nodes
		found.beyondNumbers = true
	}
}

// findQueueShortfall finds what stops a task that its queue refused: the nodes where none takes it, else the queue.
func (p *taskPlacer) findQueueShortfall(found *shortfall, task *api.TaskInfo) {
	if p.exceedsNodes(task) != nil { // nobody has looked at nodes for it
		_, _ = p.finder.Cache(task) // of one that has none its queue is told
	}
	if found.refusals = p.refusalsOf(task, p.scope.Where, p.nodes()); found.refusals != nil && found.refusals.Takes == 0 {
		return
	}
	wait := p.ssn.QueueWait(p.queue, task.InitResreq, func() bool { return !p.ssn.Allocatable(p.queue, task) })
	found.reason, found.queue, found.refusals, found.beyondNumbers = wait.Message, wait.Reason, nil, true
}

// refusalsOf counts the nodes by what stops the task there, with members of the job on the nodes of placed.
func (r *jobRun) refusalsOf(task *api.TaskInfo, where feasible.Where, placed map[int32]bool) *feasible.Refusals {
	return r.finder.RefusalsOf(task, where, func(node int32) bool { return placed[node] || r.members.known[node] })
}

// firstOf is the first by name of the job's tasks that are such; nil when none is.
func (p *taskPlacer) firstOf(such func(api.TaskID) bool) *api.TaskInfo {
	var first *api.TaskInfo
	for uid, task := range p.job.Tasks {
		if (first == nil || task.Name < first.Name) && such(uid) {
			first = task
		}
	}
	return first
}
