// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/explain"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Members without requests are placed by action backfill, after allocate. The gang plugin counts them as ready while
// they are pending, because otherwise allocate and backfill would wait for each other
// (https://github.com/volcano-sh/volcano/issues/646). If the minimum needs such a member that fits nowhere, the gang
// cannot be bound. Its other members would then hold nodes in every session without being bound.

// withBestEffort returns the result of place, unless the job's minimum needs a member without requests that fits
// nowhere beside the placed tasks. In that case it calls place again, while the gang plugin does not count such
// members. If the job's minimum still needs such a member, nothing is placed, and the reason is recorded.
func withBestEffort(r *state.Attempt, opts state.Options, place func() trial.Result) trial.Result {
	job := r.Job
	result := place()
	if result.Outcome != trial.NotPlaced {
		r.Found.BestEffortReason = ""
	}
	unfit := neededBestEffort(r, &result, opts)
	if len(unfit) == 0 {
		return result
	}
	reason := r.Found.BestEffortReason
	result.Discard(job)
	if !belowMinimum(job, func(task *api.TaskInfo) bool { return task.Status != api.Failed && !unfit[task.UID] }) {
		countOn(job, unfit, false)
		defer countOn(job, unfit, true)
		if result = place(); result.Outcome != trial.NotPlaced && len(neededBestEffort(r, &result, opts)) == 0 {
			r.Found.BestEffortReason = ""
			return result
		}
		result.Discard(job)
	}
	r.Found.BestEffortReason = reason
	return trial.Result{}
}

// countOn sets whether the gang plugin counts these pending tasks as ready. The plugin counts tasks whose field
// BestEffort is set.
func countOn(job *api.JobInfo, tasks map[api.TaskID]bool, count bool) {
	for uid := range tasks {
		job.Tasks[uid].BestEffort = count
	}
}

// neededBestEffort returns the job's tasks without requests that fit nowhere, if the minimum needs one of them in
// addition to the tasks placed in the result; else nil. It records the reason in the attempt's findings.
func neededBestEffort(r *state.Attempt, result *trial.Result, opts state.Options) (unfit map[api.TaskID]bool) {
	job := r.Job
	if result.Outcome == trial.NotPlaced || !r.Run.Progress.GangDecides || r.Run.Progress.MinimumPlaced(job) {
		return nil
	}
	rest := state.PendingBestEffort(job)
	placed := func(task *api.TaskInfo) bool {
		return api.AllocatedStatus(task.Status) || task.Status == api.Succeeded || result.Outcome == trial.Pipelined && task.Status == api.Pipelined
	}
	if len(rest) == 0 || !belowMinimum(job, placed) {
		return nil
	}
	unfit, reason := unfitBestEffort(r, rest, result, opts)
	counts := func(task *api.TaskInfo) bool {
		return placed(task) || task.Status == api.Pending && task.BestEffort && !unfit[task.UID]
	}
	if len(unfit) == 0 || !belowMinimum(job, counts) {
		return nil
	}
	r.Found.BestEffortReason = reason
	return unfit
}

// belowMinimum reports whether too few of the job's tasks count for the job's minimum in this session. counts reports whether a task
// counts. The minimum is the PodGroup's, unless a plugin has set another.
func belowMinimum(job *api.JobInfo, counts func(*api.TaskInfo) bool) bool {
	least := binding.LeastMembers(job.PodGroup)
	if job.MinAvailable >= least && binding.ShortOf(job, &job.PodGroup.Spec, counts) != nil {
		return true
	}
	if job.MinAvailable == least {
		return false
	}
	var all int32
	ofRoles := map[string]int32{}
	for _, task := range job.Tasks {
		if counts(task) {
			all++
			ofRoles[task.TaskRole]++
		}
	}
	for role, n := range job.TaskMinAvailable {
		if ofRoles[role] < n {
			return true
		}
	}
	return all < job.MinAvailable
}

// unfitBestEffort returns which of the tasks fit nowhere beside the tasks placed in the result. It checks each task by
// itself. It also returns the reason why the first of them does not fit.
func unfitBestEffort(r *state.Attempt, tasks []*api.TaskInfo, result *trial.Result, opts state.Options) (unfit map[api.TaskID]bool, reason string) {
	unfit = map[api.TaskID]bool{}
	failed := map[*feasible.TaskClass]bool{}
	for _, task := range tasks {
		class := r.Run.Finder.Class(task)
		if !failed[class] {
			stopped := stopsBestEffort(r, task, result, opts)
			if stopped == "" {
				continue
			}
			failed[class] = !task.SchGated
			if reason == "" {
				reason = fmt.Sprintf("best-effort pod %s %s", task.Name, stopped)
			}
		}
		unfit[task.UID] = true
	}
	if more := len(unfit) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %s)", brief.Count(more, "more such pod"))
	}
	return unfit, reason
}

// stopsBestEffort returns why the task fits nowhere; empty if some node takes it. All nodes are tried with all plugins,
// because backfill does not know node groups.
func stopsBestEffort(r *state.Attempt, task *api.TaskInfo, result *trial.Result, opts state.Options) string {
	if task.SchGated {
		return "has a scheduling gate"
	}
	const nowhere = "fits on no node: "
	cache, err := r.Run.Finder.Cache(task)
	if err == nil {
		err = r.Run.Finder.PrePredicate(task)
	}
	if err != nil {
		return nowhere + brief.Cut(err.Error(), explain.MaxText)
	}
	anywhere := feasible.Where{Set: r.Run.Index.All}
	_, ok, errs := r.Run.Finder.Choose(task, cache, anywhere, opts.IdleOnly, nil)
	if ok {
		return ""
	}
	counted := r.RefusalsOf(task, anywhere, result.Nodes())
	text := explain.Stopped(framework.NodeGroupExplanation{Nodes: len(anywhere.Set.Nodes), Reasons: counted.Reasons, Filled: counted.Filled, FilledOf: counted.FilledOf()})
	if text == "" && errs != nil {
		text = errs.Error()
	}
	return nowhere + brief.Cut(text, explain.MaxText)
}

// LacksBestEffort returns why action backfill cannot complete a gang that counts as ready; empty if it can.
func LacksBestEffort(run *state.Run, job *api.JobInfo) string {
	if len(state.PendingBestEffort(job)) == 0 {
		return ""
	}
	run.Session.SetCurrentJob(job.UID)
	defer run.Finder.ForgetJob()
	r := &state.Attempt{Run: run, Job: job, Members: run.Progress.Job(job).Members}
	if unfit := neededBestEffort(r, &trial.Result{Outcome: trial.Ready}, state.Options{IdleOnly: true}); len(unfit) == 0 {
		return ""
	}
	return "cannot reach its minimum: " + r.Found.BestEffortReason
}
