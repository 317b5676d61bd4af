// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// subJobRun places tasks of one sub-job in one scope.
type subJobRun struct {
	*jobRun
	subJob *api.SubJobInfo
	// tasks are in task order.
	tasks    []*api.TaskInfo
	scope    placementScope
	idleOnly bool
	// needed is how many of the tasks must be placed before the sub-job can be ready.
	needed int
}

func (r *jobRun) subJobRun(subJob *api.SubJobInfo, tasks []*api.TaskInfo, scope placementScope, opts trialOptions) *subJobRun {
	return &subJobRun{
		jobRun: r, subJob: subJob, tasks: tasks, scope: scope, idleOnly: opts.idleOnly,
		needed: r.neededAtOnce(subJob, len(tasks)),
	}
}

// placeSubJob places tasks of the sub-job, which are in task order, in the scope until the sub-job is ready. When it is not
// placed nothing is, and the job's fit errors have why.
func (r *jobRun) placeSubJob(subJob *api.SubJobInfo, tasks []*api.TaskInfo, scope placementScope, opts trialOptions) subJobResult {
	if len(scope.Set.Nodes) == 0 || len(tasks) == 0 {
		return subJobResult{rest: tasks}
	}
	r.tried[scope.Set] = true
	return r.subJobRun(subJob, tasks, scope, opts).place()
}

func (s *subJobRun) place() subJobResult {
	failed := subJobResult{rest: s.tasks}
	if s.firstTaskFitsNowhere() {
		return failed
	}
	if s.idleOnly && s.scope.ChosenBy != "" && s.packable(s.scope.Set) == packing.Impossible { // the explanation tells why
		return failed
	}
	known := s.failedGang()
	if s.hasFailed(known) && s.scope.ChosenBy != "" { // the explanation tells why
		return failed
	}
	if first := min(s.needed, len(s.tasks)); s.compare != nil && s.sameClass(s.tasks[:first]) < first {
		if result, _ := s.try(first, arrangement{byRank: true}); result.outcome != notPlaced {
			return result
		}
	}
	result, blocked := s.try(s.needed, arrangement{order: largestFirst})
	if result.outcome != notPlaced {
		return result
	}
	if s.hasFailed(known) || s.refutedInNumbers() {
		return failed
	}
	errors := maps.Clone(s.job.NodesFitErrors)
	if result = s.retryRearranged(blocked); result.outcome != notPlaced {
		return result
	}
	s.job.NodesFitErrors = errors
	s.noteFailed(known)
	return failed
}

// firstTaskFitsNowhere is true if the first task is known to fit nowhere and the sub-job cannot be ready without it. That is
// then noted.
func (s *subJobRun) firstTaskFitsNowhere() bool {
	task := s.tasks[0]
	cache := s.finder.Class(task).Cache()
	if cache == nil || !s.ssn.Allocatable(s.ssn.Queues[s.job.Queue], task) {
		return false
	}
	p := s.newTaskPlacer()
	full, errs := s.finder.Candidates(task, cache, s.scope.Where).Full(s.idleOnly)
	if !full {
		return false
	}
	p.noteNotPlaced(task, errs)
	return !s.job.NeedContinueAllocating(s.subJob.UID)
}

const (
	// maxOrders bounds how many orders of classes, or of sub-jobs, are tried: each brings one more that found no room to the
	// front, and gangs have a handful of roles, so that six bring each of them there.
	maxOrders = 6
	// maxFurtherLooks bounds what further tries may cost: each task that is placed is a look at a node for each class. It is
	// one further try of the largest gangs the random suites place, 1,000 tasks of 8 classes; smaller ones get more.
	maxFurtherLooks = 8_000
	// maxUncachedVerdicts bounds it when tasks are placed one by one, which asks plugins on every node for each: 500 tasks on
	// 1,000 nodes are tried once more than three times.
	maxUncachedVerdicts = 500_000
)

// retryRearranged looks for another way when tasks of different classes may have got into each other's way, as in
// https://github.com/volcano-sh/volcano/issues/1297: a packing of the
// first tasks that make the minimum; then orders in which the class that found no room comes first, as often as it is another
// one; and where the minimum needs not all tasks, other choices of them: the smallest, then a packing of any.
func (s *subJobRun) retryRearranged(blocked []*feasible.TaskClass) subJobResult {
	minimum := min(s.needed, len(s.tasks))
	classes := s.classesOf(s.tasks)
	if len(classes) == 1 || len(classes) > s.finder.MaxCaches() {
		return subJobResult{}
	}
	if result := s.tryPacked(minimum, minimum); result.outcome != notPlaced {
		return result
	}
	further := max(1, maxFurtherLooks/(len(s.tasks)*len(classes)))
	if slices.ContainsFunc(classes, (*feasible.TaskClass).OneByOne) {
		further = min(further, 3+maxUncachedVerdicts/(len(s.tasks)*len(s.scope.Set.Nodes)))
	}
	again := func() bool { further--; return further >= 0 }
	first := map[*feasible.TaskClass]int{}
	for n := 1; n <= min(maxOrders, len(classes)) && again(); n++ {
		next := slices.IndexFunc(blocked, func(c *feasible.TaskClass) bool { return first[c] == 0 })
		if next < 0 {
			break
		}
		first[blocked[next]] = n
		order := func(l, r batch) int { return cmp.Or(cmp.Compare(first[r.class], first[l.class]), largestFirst(l, r)) }
		var result subJobResult
		if result, blocked = s.try(s.needed, arrangement{order: order, anyOrder: true}); result.outcome != notPlaced {
			return result
		}
	}
	if again() {
		if result, _ := s.try(s.needed, arrangement{}); result.outcome != notPlaced {
			return result
		}
	}
	if minimum == len(s.tasks) {
		return subJobResult{}
	}
	if again() {
		if result, _ := s.try(len(s.tasks), arrangement{order: smallestFirst}); result.outcome != notPlaced {
			return result
		}
	}
	return s.tryPacked(len(s.tasks), minimum)
}

// refutedInNumbers is true if idle resources alone leave no room in the scope for what the sub-job needs, so that there is no other
// way.
func (s *subJobRun) refutedInNumbers() bool {
	needed := s.neededBySubJob(s.subJob)
	if !s.idleOnly || !s.gangDecides || needed < 1 || needed > len(s.tasks) {
		return false
	}
	in := s.newPackingInput(s.tasks, needed)
	if in == nil {
		return false
	}
	problem, _ := in.problemOn(s.scope.Set, true, anyNode)
	return s.memory.refute(problem) == packing.Impossible
}

// classesOf lists the classes of the tasks.
func (s *solver) classesOf(tasks []*api.TaskInfo) []*feasible.TaskClass {
	var classes []*feasible.TaskClass
	known := map[*feasible.TaskClass]bool{}
	for _, task := range tasks {
		if c := s.finder.Class(task); !known[c] {
			known[c] = true
			classes = append(classes, c)
		}
	}
	return classes
}

// sameClass is how many tasks at the beginning are of one class.
func (s *solver) sameClass(tasks []*api.TaskInfo) int {
	n := 1
	for n < len(tasks) && s.finder.Class(tasks[n]) == s.finder.Class(tasks[0]) {
		n++
	}
	return n
}

// try places the first tasks together, arranged as given, and then the others one batch after the other. It also returns the
// classes that found no room.
func (s *subJobRun) try(first int, arranged arrangement) (subJobResult, []*feasible.TaskClass) {
	p := s.newTaskPlacer()
	first = min(first, len(s.tasks))
	stopped := p.placeBatches(p.batches(s.tasks[:first], arranged))
	tried := first
	for !stopped && !p.done && tried < len(s.tasks) {
		n := s.sameClass(s.tasks[tried:])
		stopped = p.placeBatches([]batch{{tasks: s.tasks[tried : tried+n]}})
		tried += n
	}
	return p.end(p.untouched(tried)), p.blocked
}

// neededAtOnce is how many of so many tasks must be placed at least before the sub-job can be ready: 1 when that is not known,
// all when nobody is kept waiting by that.
func (r *jobRun) neededAtOnce(subJob *api.SubJobInfo, tasks int) int {
	if !r.gangDecides {
		return 1
	}
	needed := r.neededBySubJob(subJob)
	if needed < 1 && r.alone {
		return tasks
	}
	return max(needed, 1)
}

// neededBySubJob is how many more tasks the gang plugin needs to call the sub-job ready.
func (r *jobRun) neededBySubJob(subJob *api.SubJobInfo) int {
	if !r.job.ContainsSubJobPolicy() {
		return r.neededByJob()
	}
	if known := r.progress[r.job.UID]; known != nil && known.subJobs[subJob.UID] {
		return 0
	}
	return int(subJob.MinAvailable - subJob.ReadyTaskNum() - subJob.PendingBestEffortTaskNum())
}

// neededByJob is the same of the job, for which it may ask for more.
func (r *jobRun) neededByJob() int {
	if known := r.progress[r.job.UID]; !r.gangDecides || known != nil && known.ready {
		return 0
	}
	return int(r.job.MinAvailable - r.job.ReadyTaskNum() - r.job.PendingBestEffortTaskNum())
}
