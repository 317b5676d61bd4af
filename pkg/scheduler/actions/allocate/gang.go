package allocate

import (
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
)

// outcome is how an attempt at a sub-job's tasks ended.
type outcome int

const (
	misfit  outcome = iota
	waiting         // the minimum is placed, some of it on resources that are being released
	ready           // the minimum is placed
)

// band is an attempt at a sub-job's tasks that came out well, and the tasks it has not dealt with.
type band struct {
	*attempt
	outcome   outcome
	rest      []*api.TaskInfo
	hyperNode string
}

// placeTasks places tasks of the sub-job, which are in task order, on the site until the sub-job is ready. With now only
// idle resources count. When the outcome is a misfit nothing is placed, and the job's fit errors say why.
func (a *allocation) placeTasks(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, st site, now bool) band {
	if len(st.domain.nodes) == 0 || len(tasks) == 0 {
		return band{rest: tasks}
	}
	lacking := a.lacking(job, subJob, len(tasks))
	if b := a.try(job, subJob, tasks, lacking, st, now, largestFirst); b.outcome != misfit {
		return b
	}
	errors := maps.Clone(job.NodesFitErrors)
	if b := a.tryHarder(job, subJob, tasks, lacking, st, now); b.outcome != misfit {
		return b
	}
	job.NodesFitErrors = errors
	return band{rest: tasks}
}

// tryHarder looks for another way when tasks of different sizes may have got into each other's way: a packing of the first
// tasks that make the minimum; and where the minimum needs not all tasks, other choices of them.
func (a *allocation) tryHarder(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, lacking int, st site, now bool) band {
	minimum := tasks[:min(lacking, len(tasks))]
	if a.mixed(minimum) {
		if b := a.tryPacked(job, subJob, tasks, minimum, st, now); b.outcome != misfit {
			return b
		}
	}
	if len(minimum) < len(tasks) && a.mixed(tasks) {
		if b := a.try(job, subJob, tasks, len(tasks), st, now, smallestFirst); b.outcome != misfit {
			return b
		}
		return a.try(job, subJob, tasks, lacking, st, now, nil)
	}
	return band{}
}

// try places the first tasks together, in the given order of batches, and then the others one batch after the other.
func (a *allocation) try(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, first int, st site, now bool, order func(l, r batch) int) band {
	p := a.newPass(job, subJob, st, now)
	p.lacking = a.lacking(job, subJob, len(tasks))
	first = min(first, len(tasks))
	stopped := p.place(p.batches(tasks[:first], order))
	rest := tasks[first:]
	for !stopped && !p.done && len(rest) > 0 {
		n := a.alike(rest)
		stopped = p.place([]batch{{tasks: rest[:n]}})
		rest = rest[n:]
	}
	return p.end(a.untouched(tasks, p))
}

// alike is how many tasks at the beginning are of one kind.
func (a *allocation) alike(tasks []*api.TaskInfo) int {
	n := 1
	for n < len(tasks) && a.kindOf(tasks[n]) == a.kindOf(tasks[0]) {
		n++
	}
	return n
}

// untouched lists the tasks that were neither placed nor found to fit nowhere.
func (a *allocation) untouched(tasks []*api.TaskInfo, p *pass) []*api.TaskInfo {
	if len(p.placed) == len(tasks) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool {
		return task.Status != api.Pending || p.job.NodesFitErrors[task.UID] != nil || p.refused[task.UID]
	})
}

func (a *allocation) newPass(job *api.JobInfo, subJob *api.SubJobInfo, st site, now bool) *pass {
	job.ResetSubJobFitErr(subJob.UID)
	return &pass{
		attempt: &attempt{a: a}, job: job, subJob: subJob, queue: a.ssn.Queues[job.Queue], site: st, now: now,
		compare: a.compare, hyperNode: subJob.AllocatedHyperNode, refused: map[api.TaskID]bool{},
	}
}

// end judges the pass, and takes it back when it is a misfit.
func (p *pass) end(rest []*api.TaskInfo) band {
	b := band{attempt: p.attempt, rest: rest, hyperNode: p.hyperNode}
	switch {
	case len(p.placed) == 0:
	case p.done || p.a.ssn.SubJobReady(p.job, p.subJob):
		b.outcome = ready
	case !p.now && p.a.ssn.SubJobPipelined(p.job, p.subJob):
		b.outcome = waiting
	}
	if b.outcome == misfit {
		p.discard()
	}
	return b
}

// lacking is how many tasks must be placed at least before the sub-job can be ready: 1 when that is not known.
func (a *allocation) lacking(job *api.JobInfo, subJob *api.SubJobInfo, tasks int) int {
	if !a.gang {
		return 1
	}
	missing := job.MinAvailable - job.ReadyTaskNum() - job.PendingBestEffortTaskNum()
	if job.ContainsSubJobPolicy() {
		missing = subJob.MinAvailable - subJob.ReadyTaskNum() - subJob.PendingBestEffortTaskNum()
	}
	if missing < 1 && a.alone {
		return tasks
	}
	return max(int(missing), 1)
}

// gangEnabled says whether the gang plugin decides on readiness.
func (a *allocation) gangEnabled() bool {
	for _, tier := range a.ssn.Tiers {
		for _, option := range tier.Plugins {
			if option.Name == gang.PluginName {
				return option.EnabledJobReady != nil && *option.EnabledJobReady
			}
		}
	}
	return false
}

// mixed says whether the tasks differ in what they request.
func (a *allocation) mixed(tasks []*api.TaskInfo) bool {
	for _, task := range tasks[1:] {
		if !task.InitResreq.Equal(tasks[0].InitResreq, api.Zero) {
			return true
		}
	}
	return false
}
