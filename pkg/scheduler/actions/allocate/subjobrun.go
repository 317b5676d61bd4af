// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"fmt"
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
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
	// key names what decides on the sub-job, once it is keyed; empty when that is more than can be named.
	key   string
	keyed bool
	// retrying is true of trials that are made when the first one has failed. Explanations tell nothing of them, as not each session
	// has the steps for them.
	retrying bool
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
	note(&r.tried, scope.Set, true)
	r.subJobTasks += len(tasks)
	run := r.subJobRun(subJob, tasks, scope, opts)
	if r.planned != nil {
		return run.placePlanned()
	}
	return run.place()
}

func (s *subJobRun) place() subJobResult {
	failed := subJobResult{rest: s.tasks}
	unfinished := s.unfinished
	if s.ruledOut() { // the explanation tells why
		return failed
	}
	known := s.failedGang()
	if s.hasFailed(known) && s.scope.ChosenBy != "" { // the explanation tells why
		return failed
	}
	if s.packing != nil && s.isVain(memory.FirstOrders) && !s.memory.Orders.Open(s.orderSearch()) {
		s.memory.Orders.Wait(s.orderSearch())
		s.unfinished++
		minimum := min(s.needed, len(s.tasks))
		return s.tryPacked(minimum, minimum)
	}
	result, blocked := s.tryFirstOrders()
	if result.outcome != notPlaced {
		return result
	}
	if s.hasFailed(known) || !s.dividesItself() && s.refutedInNumbers() {
		return failed
	}
	errors := maps.Clone(s.job.NodesFitErrors)
	s.retrying = true
	if result = s.retryRearranged(blocked); result.outcome != notPlaced {
		return result
	}
	if s.unfinished == unfinished {
		s.noteVain(memory.AnyWay)
		s.noteFailed(known)
	}
	s.job.NodesFitErrors = errors
	return failed
}

// tryFirstOrders tries the tasks by rank, where a plugin knows ranks, and the largest first. It also returns the classes that found no room.
func (s *subJobRun) tryFirstOrders() (subJobResult, []*feasible.TaskClass) {
	if first := min(s.needed, len(s.tasks)); s.compare != nil && s.sameClass(s.tasks[:first]) < first {
		if result, _ := s.try(first, arrangement{byRank: true}); result.outcome != notPlaced {
			return result, nil
		}
	}
	return s.try(s.needed, arrangement{order: largestFirst})
}

// ruledOut is true if it is known before a trial that there is no room.
func (s *subJobRun) ruledOut() bool {
	switch {
	case s.firstTaskFitsNowhere():
		return true
	case s.packing == nil:
		return false
	case s.dividesItself() && s.refutedInNumbers():
		return true
	case s.idleOnly && s.scope.ChosenBy != "" && s.packable(s.scope.Set) == packing.Impossible:
		return true
	default:
		return s.isVain(memory.AnyWay)
	}
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

// isVain is true if the way has led nowhere for the sub-job, and all that decides on it is as it was.
func (s *subJobRun) isVain(in memory.Way) bool {
	key, known := s.vainKey()
	return known && s.memory.IsVain(in, key)
}

// noteVain notes that the way leads nowhere for the sub-job.
func (s *subJobRun) noteVain(in memory.Way) {
	if key, known := s.vainKey(); known {
		s.memory.NoteVain(in, key)
	}
}

// noteRefused notes that tasks enough had room, and something that numbers do not know refused them: that is more than can be named.
func (s *subJobRun) noteRefused() {
	s.keyed, s.key = true, ""
	s.unfinished++
}

// vainKey names all that decides on whether there is a way to place the tasks in the scope: the job, what it needs, the numbers of a
// problem, which have the room that counts, and what verdicts on any node may depend on. It returns false where that is more than can be named. It is asked for where
// nothing of the sub-job is placed. Sub-groups have none: numbers tell of the whole job what stops it.
func (s *subJobRun) vainKey() (string, bool) {
	if !s.keyed {
		s.keyed, s.key = true, s.makeVainKey()
	}
	return s.key, s.key != ""
}

func (s *subJobRun) makeVainKey() string {
	needed := s.neededBySubJob(s.subJob)
	if !s.gangDecides || s.job.ContainsSubJobPolicy() || needed < 1 || needed > len(s.tasks) || len(s.job.TaskStatusIndex[api.Pipelined]) > 0 || sharded() || !s.queueTakes(s.tasks) {
		return ""
	}
	in := s.packing
	if in == nil || in.problem.Wanted != needed {
		in = s.newPackingInput(s.tasks, needed, s.neededByRole())
	}
	session := s.sessionFingerprint()
	if in == nil || session == 0 || !in.decidedByNumbers(s.scope.ChosenBy) || in.fillCaches() != nil {
		return ""
	}
	problem, _ := in.problemOn(s.scope.Set, s.idleOnly, in.byCachedVerdicts(s.scope.Set))
	return fmt.Sprintf("%s %d %s", s.job.UID, session, problem.Key())
}

// refutedInNumbers is true if numbers alone leave no room in the scope for what the sub-job needs, so that there is no way.
func (s *subJobRun) refutedInNumbers() bool {
	needed := s.neededBySubJob(s.subJob)
	if !s.gangDecides || needed < 1 || needed > len(s.tasks) {
		return false
	}
	return s.refutedAs(s.packingInputOf(maxRefutedClasses, s.tasks, needed, s.neededByRole()), s.scope.Set, s.idleOnly)
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

// neededByRole is how many more tasks of each role the sub-job needs: none where roles may come from other sub-jobs, too.
func (s *subJobRun) neededByRole() map[string]int32 {
	if s.job.ContainsSubJobPolicy() {
		return nil
	}
	return s.jobRun.neededByRole()
}

// neededByJob is the same of the job, for which it may ask for more.
func (r *jobRun) neededByJob() int {
	if known := r.progress[r.job.UID]; !r.gangDecides || known != nil && known.ready {
		return 0
	}
	return int(r.job.MinAvailable - r.job.ReadyTaskNum() - r.job.PendingBestEffortTaskNum())
}
