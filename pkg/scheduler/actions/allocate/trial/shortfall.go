// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// noteShortfall records, for the explanation, how far this trial came in its set of nodes. It does not replace an
// earlier trial there that placed at least as many tasks, or that failed because a plugin or the queue refused a task
// that had room.
func (p *placer) noteShortfall() {
	if p.part.Retrying {
		return
	}
	set := p.part.Scope.Set
	if former, ok := p.part.attempt.Found.Shortfalls[set]; ok && (len(p.changes.Placed) <= former.Placed || former.BeyondNumbers) {
		return
	}
	found := state.Shortfall{Placed: len(p.changes.Placed), Reason: p.reason}
	if found.Reason == "" {
		p.findShortfall(&found)
	}
	p.part.attempt.Found.NoteShortfall(set, found)
}

// noteRefusal records, for the explanation, why the task was refused although a plan had room for it. Only the first
// such refusal in the trial's set of nodes is recorded. It replaces what another trial in the set recorded, because a
// refusal explains more than nodes that are filled with members of the gang.
func (p *placer) noteRefusal(task *api.TaskInfo) {
	if p.part.attempt.Found.Shortfalls[p.part.Scope.Set].BeyondNumbers {
		return
	}
	found := state.Shortfall{Placed: len(p.changes.Placed)}
	if p.refused[task.UID] {
		p.findQueueShortfall(&found, task)
	} else {
		p.findNodeShortfall(&found, task)
	}
	if found.BeyondNumbers {
		p.part.attempt.Found.NoteShortfall(p.part.Scope.Set, found)
	}
}

// findShortfall sets, in found, the reason that stops the next task: the refusals of the nodes if no node takes the
// task, else the refusal of the task's queue.
func (p *placer) findShortfall(found *state.Shortfall) {
	job := p.job()
	if task := firstOf(job.Tasks, func(uid api.TaskID) bool { return job.NodesFitErrors[uid] != nil }); task != nil {
		p.findNodeShortfall(found, task)
		if found.Refusals == nil || len(found.Refusals.Reasons) == 0 && found.Refusals.Filled == 0 {
			found.Reason = job.NodesFitErrors[task.UID].Error()
		}
	} else if task := firstOf(job.Tasks, func(uid api.TaskID) bool { return p.refused[uid] }); task != nil {
		p.findQueueShortfall(found, task)
	}
}

// findNodeShortfall counts, in found, the nodes by the reason why they refuse the task.
func (p *placer) findNodeShortfall(found *state.Shortfall, task *api.TaskInfo) {
	found.Refusals = p.part.attempt.RefusalsOf(task, p.part.Scope.Where, p.changes.nodes())
	if found.Refusals == nil {
		return
	}
	for reason, nodes := range p.unreserved[task.UID] {
		found.Refusals.Reasons[reason] += nodes
		found.BeyondNumbers = true
	}
}

// findQueueShortfall explains a task that its queue refused: by the refusals of the nodes if no node takes the task
// either, else by the queue.
func (p *placer) findQueueShortfall(found *state.Shortfall, task *api.TaskInfo) {
	// If the queue refuses all tasks of a class, a trial checks no node for them. But RefusalsOf reads cached filter
	// results. So if the task requests more than any node has, the cache is created here.
	if p.run.ExceedsNodes(task) != nil {
		_, _ = p.run.Finder.Cache(task) // without cached filter results, the queue's reason is reported
	}
	if found.Refusals = p.part.attempt.RefusalsOf(task, p.part.Scope.Where, p.changes.nodes()); found.Refusals != nil && found.Refusals.Takes == 0 {
		return
	}
	reason := p.run.Session.QueueUse.PendingReason(p.queue(), task.InitResreq, func() bool { return !p.run.Session.Allocatable(p.queue(), task) })
	found.Reason, found.Queue, found.Refusals, found.BeyondNumbers = reason.Message, reason.Reason, nil, true
}

// firstOf returns the first, by name, of the tasks for whose ID the parameter such, a function, returns true; nil if no task
// matches.
func firstOf(tasks api.TasksMap, such func(api.TaskID) bool) *api.TaskInfo {
	var first *api.TaskInfo
	for uid, task := range tasks {
		if (first == nil || task.Name < first.Name) && such(uid) {
			first = task
		}
	}
	return first
}
