// SPDX-License-Identifier: Apache-2.0

package allocate

import "volcano.sh/volcano/pkg/scheduler/api"

// noteShortfall keeps, for the explanation, the trial that came furthest in the set, of the first ones there.
func (p *placer) noteShortfall() {
	if p.part.retrying {
		return
	}
	set := p.part.scope.Set
	if former, ok := p.attempt.found.shortfalls[set]; ok && (len(p.trial.placed) <= former.placed || former.beyondNumbers) {
		return
	}
	found := shortfall{placed: len(p.trial.placed), reason: p.reason}
	if found.reason == "" {
		p.findShortfall(&found)
	}
	note(&p.attempt.found.shortfalls, set, found)
}

// noteRefusal keeps, for the explanation, what refused the task although it had room by a plan: the first such refusal in the set. It is
// more than numbers tell of a trial in which members filled the nodes.
func (p *placer) noteRefusal(task *api.TaskInfo) {
	if p.attempt.found.shortfalls[p.part.scope.Set].beyondNumbers {
		return
	}
	found := shortfall{placed: len(p.trial.placed)}
	if p.refused[task.UID] {
		p.findQueueShortfall(&found, task)
	} else {
		p.findNodeShortfall(&found, task)
	}
	if found.beyondNumbers {
		note(&p.attempt.found.shortfalls, p.part.scope.Set, found)
	}
}

// findShortfall finds what stops the next task: nodes, when none takes it, or its queue.
func (p *placer) findShortfall(found *shortfall) {
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
func (p *placer) findNodeShortfall(found *shortfall, task *api.TaskInfo) {
	found.refusals = p.attempt.refusalsOf(task, p.part.scope.Where, p.trial.nodes())
	if found.refusals == nil {
		return
	}
	for reason, nodes := range p.unreserved[task.UID] {
		found.refusals.Reasons[reason] += nodes
		found.beyondNumbers = true
	}
}

// findQueueShortfall finds what stops a task that its queue refused: the nodes where none takes it, else the queue.
func (p *placer) findQueueShortfall(found *shortfall, task *api.TaskInfo) {
	if p.run.exceedsNodes(task) != nil { // nobody has looked at nodes for it
		_, _ = p.run.finder.Cache(task) // of one that has none its queue is told
	}
	if found.refusals = p.attempt.refusalsOf(task, p.part.scope.Where, p.trial.nodes()); found.refusals != nil && found.refusals.Takes == 0 {
		return
	}
	wait := p.run.ssn.QueueWait(p.queue, task.InitResreq, func() bool { return !p.run.ssn.Allocatable(p.queue, task) })
	found.reason, found.queue, found.refusals, found.beyondNumbers = wait.Message, wait.Reason, nil, true
}

// firstOf is the first by name of the job's tasks that are such; nil when none is.
func (p *placer) firstOf(such func(api.TaskID) bool) *api.TaskInfo {
	var first *api.TaskInfo
	for uid, task := range p.job.Tasks {
		if (first == nil || task.Name < first.Name) && such(uid) {
			first = task
		}
	}
	return first
}
