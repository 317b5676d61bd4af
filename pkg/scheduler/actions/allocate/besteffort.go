// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Members without requests are placed by backfill, after allocate, and the gang plugin counts those that wait as ready. When
// one that the minimum needs fits nowhere the gang cannot be bound, and its other members would hold their nodes against
// other gangs in every session, for nothing.

// withBestEffort returns the plan that place makes, unless the job's minimum needs a member without requests that fits nowhere
// beside what the plan has placed: then it counts on none of these and has place try again, and when that does not help
// nothing is placed, and it is noted why.
func (a *allocation) withBestEffort(job *api.JobInfo, now bool, place func() plan) plan {
	p := place()
	if p.outcome != misfit {
		a.lacksBestEffort = ""
	}
	unfit := a.lackingBestEffort(job, &p, now)
	if len(unfit) == 0 {
		return p
	}
	why := a.lacksBestEffort
	p.discard(job)
	if binding.ShortOf(job, &job.PodGroup.Spec, func(task *api.TaskInfo) bool { return task.Status != api.Failed && !unfit[task.UID] }) == nil {
		countOn(job, unfit, false)
		defer countOn(job, unfit, true)
		if p = place(); p.outcome != misfit && len(a.lackingBestEffort(job, &p, now)) == 0 {
			a.lacksBestEffort = ""
			return p
		}
		p.discard(job)
	}
	a.lacksBestEffort = why
	return plan{}
}

// countOn lets the gang plugin count these tasks as ready, or not.
func countOn(job *api.JobInfo, tasks map[api.TaskID]bool, count bool) {
	for uid := range tasks {
		job.Tasks[uid].BestEffort = count
	}
}

// lackingBestEffort finds the job's tasks without requests that fit nowhere, if its minimum needs one of them beside what
// the plan has placed, and notes why.
func (a *allocation) lackingBestEffort(job *api.JobInfo, p *plan, now bool) (unfit map[api.TaskID]bool) {
	if known := a.standings[job.UID]; p.outcome == misfit || !a.gang || known != nil && known.ready {
		return nil
	}
	rest := pendingBestEffort(job)
	placed := func(task *api.TaskInfo) bool {
		return api.AllocatedStatus(task.Status) || task.Status == api.Succeeded || p.outcome == waiting && task.Status == api.Pipelined
	}
	if len(rest) == 0 || binding.ShortOf(job, &job.PodGroup.Spec, placed) == nil {
		return nil
	}
	unfit, why := a.unfitBestEffort(rest, p, now)
	counts := func(task *api.TaskInfo) bool {
		return placed(task) || task.Status == api.Pending && task.BestEffort && !unfit[task.UID]
	}
	if len(unfit) == 0 || binding.ShortOf(job, &job.PodGroup.Spec, counts) == nil {
		return nil
	}
	a.lacksBestEffort = why
	return unfit
}

// pendingBestEffort lists the job's tasks that backfill is to place, and those that wait for their gates, by name.
func pendingBestEffort(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if task.BestEffort {
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(l, r *api.TaskInfo) int { return cmp.Compare(l.Name, r.Name) })
	return tasks
}

// unfitBestEffort finds which of the tasks fit nowhere, each by itself, beside what the plan has placed, and says what stops
// the first of them.
func (a *allocation) unfitBestEffort(tasks []*api.TaskInfo, p *plan, now bool) (unfit map[api.TaskID]bool, why string) {
	inside := a.inside
	a.inside = "" // backfill knows of no groups: the verdicts of whoever named them count
	defer func() { a.inside = inside }()
	unfit = map[api.TaskID]bool{}
	failed := map[*kind]bool{}
	for _, task := range tasks {
		k := a.kindOf(task)
		if !failed[k] {
			stop := a.stopsBestEffort(task, p, now)
			if stop == "" {
				continue
			}
			failed[k] = !task.SchGated
			if why == "" {
				why = fmt.Sprintf("pod %s, which asks for no resources, %s", task.Name, stop)
			}
		}
		unfit[task.UID] = true
	}
	if more := len(unfit) - 1; more > 0 {
		why += fmt.Sprintf(" (and %d more such %s)", more, plural(more, "pod"))
	}
	return unfit, why
}

// stopsBestEffort says what stops the task; empty when some node takes it.
func (a *allocation) stopsBestEffort(task *api.TaskInfo, p *plan, now bool) string {
	if task.SchGated {
		return "has a scheduling gate"
	}
	const nowhere = "fits on no node: "
	s, err := a.shapeOf(task)
	if err == nil {
		err = a.prePredicate(task)
	}
	if err != nil {
		return nowhere + brief.Cut(err.Error(), maxText)
	}
	all := a.board.everything
	_, ok, errs := a.choose(task, s, all, now, nil)
	if ok {
		return ""
	}
	placed := map[int32]bool{}
	for _, t := range p.attempts {
		for _, of := range t.placed {
			placed[a.board.index[of.task.NodeName]] = true
		}
	}
	counted := a.stopRefusals(task, all, placed)
	text := stopped(framework.NodeGroupExplanation{Nodes: len(all.nodes), Reasons: counted.reasons, Filled: counted.filled, FilledOf: counted.filledOf()})
	if text == "" && errs != nil {
		text = errs.Error()
	}
	return nowhere + brief.Cut(text, maxText)
}
