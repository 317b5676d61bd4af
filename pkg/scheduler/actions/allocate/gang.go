// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
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
	a.tried[st.domain] = true
	lacking := a.lacking(job, subJob, len(tasks))
	if a.hopeless(job, subJob, tasks[0], st, now) {
		return band{rest: tasks}
	}
	if now && a.inside != "" && a.packs(st.domain) == packing.Impossible { // the explanation tells why
		return band{rest: tasks}
	}
	known := a.knownMisfit(job, subJob, tasks, lacking, st, now)
	if known.holds(a) && a.inside != "" { // the explanation tells why
		return band{rest: tasks}
	}
	if first := min(lacking, len(tasks)); a.compare != nil && a.alike(tasks[:first]) < first {
		if b, _ := a.try(job, subJob, tasks, first, st, now, arrangement{byRank: true}); b.outcome != misfit {
			return b
		}
	}
	b, blocked := a.try(job, subJob, tasks, lacking, st, now, arrangement{order: largestFirst})
	if b.outcome != misfit {
		return b
	}
	if known.holds(a) {
		return band{rest: tasks}
	}
	errors := maps.Clone(job.NodesFitErrors)
	if b = a.tryHarder(job, subJob, tasks, lacking, st, now, blocked); b.outcome != misfit {
		return b
	}
	job.NodesFitErrors = errors
	known.note(a)
	return band{rest: tasks}
}

// hopeless says, and notes, that the first task is known to fit nowhere and that the sub-job cannot be ready without it.
func (a *allocation) hopeless(job *api.JobInfo, subJob *api.SubJobInfo, task *api.TaskInfo, st site, now bool) bool {
	s := a.kindOf(task).shape
	if s == nil || !a.ssn.Allocatable(a.ssn.Queues[job.Queue], task) {
		return false
	}
	p := a.newPass(job, subJob, st, now)
	full, errs := p.full(task, s, st.domain)
	if !full {
		return false
	}
	p.misfit(task, errs)
	return !job.NeedContinueAllocating(subJob.UID)
}

const (
	// maxRearranged bounds how often the order of kinds is changed to find a way.
	maxRearranged = 6
	// maxFurtherLooks bounds what further attempts may cost: each task that is placed is a look at a node for each kind.
	maxFurtherLooks = 8_000
	// maxLiveVerdicts bounds it when tasks are placed one by one: verdicts of live layers.
	maxLiveVerdicts = 500_000
)

// tryHarder looks for another way when tasks of different kinds may have got into each other's way: a packing of the first
// tasks that make the minimum; then orders in which the kind that found no room comes first, as often as it is
// another one; and where the minimum needs not all tasks, other choices of them: the smallest, then a packing of any.
func (a *allocation) tryHarder(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, lacking int, st site, now bool, blocked []*kind) band {
	minimum := min(lacking, len(tasks))
	kinds := a.kindsOf(tasks)
	if len(kinds) == 1 || len(kinds) > a.maxShapes {
		return band{}
	}
	if b := a.tryPacked(job, subJob, tasks, minimum, minimum, st, now); b.outcome != misfit {
		return b
	}
	further := max(1, maxFurtherLooks/(len(tasks)*len(kinds)))
	if slices.ContainsFunc(kinds, func(k *kind) bool { return k.layers.coupled }) {
		further = min(further, 3+maxLiveVerdicts/(len(tasks)*len(st.domain.nodes)))
	}
	again := func() bool { further--; return further >= 0 }
	first := map[*kind]int{}
	for try := 1; try <= min(maxRearranged, len(kinds)) && again(); try++ {
		next := slices.IndexFunc(blocked, func(k *kind) bool { return first[k] == 0 })
		if next < 0 {
			break
		}
		first[blocked[next]] = try
		order := func(l, r batch) int { return cmp.Or(cmp.Compare(first[r.kind], first[l.kind]), largestFirst(l, r)) }
		var b band
		if b, blocked = a.try(job, subJob, tasks, lacking, st, now, arrangement{order: order, anyOrder: true}); b.outcome != misfit {
			return b
		}
	}
	if again() {
		if b, _ := a.try(job, subJob, tasks, lacking, st, now, arrangement{}); b.outcome != misfit {
			return b
		}
	}
	if minimum == len(tasks) {
		return band{}
	}
	if again() {
		if b, _ := a.try(job, subJob, tasks, len(tasks), st, now, arrangement{order: smallestFirst}); b.outcome != misfit {
			return b
		}
	}
	return a.tryPacked(job, subJob, tasks, len(tasks), minimum, st, now)
}

// kindsOf lists the kinds of the tasks.
func (a *allocation) kindsOf(tasks []*api.TaskInfo) []*kind {
	var kinds []*kind
	known := map[*kind]bool{}
	for _, task := range tasks {
		if k := a.kindOf(task); !known[k] {
			known[k] = true
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// try places the first tasks together, arranged as given, and then the others one batch after the other. It also returns
// the kinds that found no room.
func (a *allocation) try(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, first int, st site, now bool, arranged arrangement) (band, []*kind) {
	p := a.newPass(job, subJob, st, now)
	p.lacking = a.lacking(job, subJob, len(tasks))
	first = min(first, len(tasks))
	stopped := p.place(p.batches(tasks[:first], arranged))
	tried := first
	for !stopped && !p.done && tried < len(tasks) {
		n := a.alike(tasks[tried:])
		stopped = p.place([]batch{{tasks: tasks[tried : tried+n]}})
		tried += n
	}
	return p.end(p.untouched(tasks, tried)), p.blocked
}

// alike is how many tasks at the beginning are of one kind.
func (a *allocation) alike(tasks []*api.TaskInfo) int {
	n := 1
	for n < len(tasks) && a.kindOf(tasks[n]) == a.kindOf(tasks[0]) {
		n++
	}
	return n
}

// untouched lists the tasks that were neither placed nor found to fit nowhere, which those after the first tried are; in a
// node group those come last that found no room, which may be in a wider one. When they are all that is left they are not
// copied.
func (p *pass) untouched(tasks []*api.TaskInfo, tried int) []*api.TaskInfo {
	if len(p.placed) == tried {
		return tasks[tried:]
	}
	var left, unfit []*api.TaskInfo
	for _, task := range tasks[:tried] {
		switch {
		case task.Status != api.Pending || p.refused[task.UID]:
		case p.job.NodesFitErrors[task.UID] == nil:
			left = append(left, task)
		case p.a.inside != "":
			unfit = append(unfit, task)
		}
	}
	if len(left)+len(unfit) == 0 {
		return tasks[tried:]
	}
	return slices.Concat(left, tasks[tried:], unfit)
}

func (a *allocation) newPass(job *api.JobInfo, subJob *api.SubJobInfo, st site, now bool) *pass {
	job.ResetSubJobFitErr(subJob.UID)
	return &pass{
		attempt: &attempt{a: a}, job: job, subJob: subJob, queue: a.ssn.Queues[job.Queue], site: st, now: now,
		compare: a.compare, hyperNode: subJob.AllocatedHyperNode, refused: map[api.TaskID]bool{}, failed: map[string]bool{},
	}
}

// end judges the pass, and takes it back when it is a misfit.
func (p *pass) end(rest []*api.TaskInfo) band {
	b := band{attempt: p.attempt, rest: rest, hyperNode: p.hyperNode}
	switch {
	case len(p.placed) == 0:
	case p.done || p.a.subJobReady(p.job, p.subJob):
		b.outcome = ready
	case !p.now && p.a.ssn.SubJobPipelined(p.job, p.subJob):
		b.outcome = waiting
	}
	if b.outcome == misfit {
		p.noteStop()
		p.discard()
	}
	return b
}

// lacking is how many tasks must be placed at least before the sub-job can be ready: 1 when that is not known.
func (a *allocation) lacking(job *api.JobInfo, subJob *api.SubJobInfo, tasks int) int {
	if !a.gang {
		return 1
	}
	missing := a.missing(job, subJob)
	if missing < 1 && a.alone {
		return tasks
	}
	return max(missing, 1)
}

// missing is how many tasks the gang plugin lacks to call the sub-job ready.
func (a *allocation) missing(job *api.JobInfo, subJob *api.SubJobInfo) int {
	if !job.ContainsSubJobPolicy() {
		return a.jobLacks(job)
	}
	if known := a.standings[job.UID]; known != nil && known.subJobs[subJob.UID] {
		return 0
	}
	return int(subJob.MinAvailable - subJob.ReadyTaskNum() - subJob.PendingBestEffortTaskNum())
}

// jobLacks is the same of the job, for which it may ask for more.
func (a *allocation) jobLacks(job *api.JobInfo) int {
	if known := a.standings[job.UID]; !a.gang || known != nil && known.ready {
		return 0
	}
	return int(job.MinAvailable - job.ReadyTaskNum() - job.PendingBestEffortTaskNum())
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
