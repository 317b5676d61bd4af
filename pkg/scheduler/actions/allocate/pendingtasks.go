// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// pendingTasks are what of a job is to be placed: the sub-jobs that have such tasks, and these.
type pendingTasks struct {
	subJobs []*api.SubJobInfo
	// tasks are a sub-job's tasks to be placed, in task order.
	tasks map[api.SubJobID][]*api.TaskInfo
	// needed are the sub-jobs that the job's minimum needs.
	needed map[api.SubJobID]bool
	// fitErrors are why tasks fitted nowhere that are not looked at again, while others of the job were.
	fitErrors map[api.TaskID]*api.FitErrors
	// idleOnly is true if others of the job wait for resources being released: of those no more are kept for it.
	idleOnly bool
}

func (p *pendingTasks) empty() bool { return len(p.tasks) == 0 }

// first is the first task to be placed.
func (p *pendingTasks) first() *api.TaskInfo {
	for _, subJob := range p.subJobs {
		if tasks := p.tasks[subJob.UID]; len(tasks) > 0 {
			return tasks[0]
		}
	}
	return nil
}

// isShort reports whether the job is surely short of its minimum: its other tasks are too few, whatever they are. It is false for some that are.
func (p *pendingTasks) isShort(job *api.JobInfo) bool {
	others := len(job.Tasks)
	for _, subJob := range p.subJobs {
		others -= len(p.tasks[subJob.UID])
	}
	return others < int(job.MinAvailable)
}

// rememberFitErrors keeps why tasks of the job fitted nowhere, before they are reset in its next turn.
func (p *pendingTasks) rememberFitErrors(job *api.JobInfo) {
	if p.fitErrors == nil && len(job.NodesFitErrors) > 0 {
		p.fitErrors = map[api.TaskID]*api.FitErrors{}
	}
	maps.Copy(p.fitErrors, job.NodesFitErrors)
}

// restoreFitErrors puts back those of the tasks that still wait.
func (p *pendingTasks) restoreFitErrors(job *api.JobInfo) {
	for uid, errs := range p.fitErrors {
		if job.NodesFitErrors[uid] == nil && job.Tasks[uid].Status == api.Pending {
			job.NodesFitErrors[uid] = errs
		}
	}
}

// keepOnly leaves of the sub-jobs that are named only the given tasks.
func (p *pendingTasks) keepOnly(rest map[api.SubJobID][]*api.TaskInfo) {
	done := false
	for uid, tasks := range rest {
		if len(tasks) > 0 {
			p.tasks[uid] = tasks
		} else {
			delete(p.tasks, uid)
			done = true
		}
	}
	if done {
		p.subJobs = slices.DeleteFunc(p.subJobs, func(subJob *api.SubJobInfo) bool { return len(p.tasks[subJob.UID]) == 0 })
	}
}

// setAside leaves only the given tasks to be placed, and returns the others for putBack; nil if there are none, and if only is nil.
func (p *pendingTasks) setAside(only map[api.TaskID]bool) *pendingTasks {
	if only == nil {
		return nil
	}
	whole := &pendingTasks{subJobs: slices.Clone(p.subJobs), tasks: maps.Clone(p.tasks)}
	rest, fewer := map[api.SubJobID][]*api.TaskInfo{}, false
	for uid, tasks := range p.tasks {
		rest[uid] = slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool { return !only[task.UID] })
		fewer = fewer || len(rest[uid]) < len(tasks)
	}
	if !fewer {
		return nil
	}
	p.keepOnly(rest)
	return whole
}

// putBack puts back those tasks of the whole that still wait.
func (p *pendingTasks) putBack(whole *pendingTasks) {
	p.subJobs, p.tasks = whole.subJobs, whole.tasks
	rest := map[api.SubJobID][]*api.TaskInfo{}
	for uid, tasks := range p.tasks {
		rest[uid] = slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool { return task.Status != api.Pending })
	}
	p.keepOnly(rest)
}

// newPendingTasks lists what of the job is to be placed. Gated tasks (KEP-3521) wait for their gates, tasks without requests
// for backfill.
func newPendingTasks(s *progress, job *api.JobInfo) *pendingTasks {
	p := &pendingTasks{tasks: map[api.SubJobID][]*api.TaskInfo{}}
	for uid, subJob := range job.SubJobs {
		var tasks []*api.TaskInfo
		for _, task := range subJob.TaskStatusIndex[api.Pending] {
			if !task.SchGated && !task.Resreq.IsEmpty() {
				tasks = append(tasks, task)
			}
		}
		if len(tasks) > 0 {
			sortTasks(s.ssn, tasks)
			p.tasks[uid] = tasks
			p.subJobs = append(p.subJobs, subJob)
		}
	}
	p.needed = neededSubJobs(s, job, p.subJobs)
	return p
}

// sortTasks sorts tasks by the session's task order. The order upstream falls back to is costly to ask for each pair, and
// is no order where only some names end in a number, so tasks are sorted by what it looks at first, and asked for where that
// may not agree.
func sortTasks(ssn *framework.Session, tasks []*api.TaskInfo) {
	if len(tasks) < 2 {
		return
	}
	type numbered struct {
		task   *api.TaskInfo
		number int
	}
	sorted, without := make([]numbered, len(tasks)), 0
	for i, task := range tasks {
		number, ok := indexOf(task.Pod.Name)
		if !ok {
			number = -1
			without++
		}
		sorted[i] = numbered{task, number}
	}
	slices.SortFunc(sorted, func(l, r numbered) int {
		return cmp.Or(cmp.Compare(r.task.Priority, l.task.Priority), cmp.Compare(l.number, r.number),
			l.task.Pod.CreationTimestamp.Compare(r.task.Pod.CreationTimestamp.Time), cmp.Compare(l.task.UID, r.task.UID))
	})
	for i := range sorted {
		tasks[i] = sorted[i].task
	}
	inOrder := func(l, r *api.TaskInfo) int { return ssn.TaskCompareFns(l, r) } // beyond it, upstream's is the order above
	if 0 < without && without < len(tasks) {
		inOrder = byOrder[*api.TaskInfo](ssn.TaskOrderFn)
	}
	if !slices.IsSortedFunc(tasks, inOrder) {
		slices.SortStableFunc(tasks, byOrder[*api.TaskInfo](ssn.TaskOrderFn))
	}
}

// indexOf is the number that a pod's name ends in after its second hyphen or a later one, by which upstream orders tasks; false if there is none.
func indexOf(name string) (int, bool) {
	last := strings.LastIndexByte(name, '-')
	if last < 0 || strings.IndexByte(name, '-') == last {
		return 0, false
	}
	number, err := strconv.Atoi(name[last+1:])
	return number, err == nil
}

// neededSubJobs are those the job's minimum needs: of each policy the first in order that are not ready, up to the number
// it needs. With a single one there is no order to decide, and the map is nil.
func neededSubJobs(s *progress, job *api.JobInfo, subJobs []*api.SubJobInfo) map[api.SubJobID]bool {
	if len(subJobs) < 2 {
		return nil
	}
	slices.SortFunc(subJobs, func(l, r *api.SubJobInfo) int { return cmp.Compare(l.UID, r.UID) })
	slices.SortStableFunc(subJobs, byOrder[*api.SubJobInfo](s.ssn.SubJobOrderFn))
	ready := s.readySubJobs(job)
	needed := map[api.SubJobID]bool{}
	for _, subJob := range subJobs {
		if !s.ssn.SubJobReady(job, subJob) && ready[subJob.GID] < job.MinSubJobs[subJob.GID] {
			ready[subJob.GID]++
			needed[subJob.UID] = true
		}
	}
	return needed
}

// readySubJobs counts the sub-jobs of each policy that are ready.
func (s *progress) readySubJobs(job *api.JobInfo) map[api.SubJobGID]int32 {
	ready := map[api.SubJobGID]int32{}
	for _, subJob := range job.SubJobs {
		if s.ssn.SubJobReady(job, subJob) {
			ready[subJob.GID]++
		}
	}
	return ready
}

// subJobQueue are the sub-jobs in the order in which they are placed: those with the highest number in first before others,
// then those the minimum needs, then by the session's order, which is another for a sub-job once more of it is placed.
func subJobQueue(ssn *framework.Session, p *pendingTasks, first map[api.SubJobID]int) *util.PriorityQueue {
	queue := util.NewPriorityQueue(func(l, r any) bool {
		left, right := l.(*api.SubJobInfo), r.(*api.SubJobInfo)
		order := cmp.Or(cmp.Compare(first[right.UID], first[left.UID]), cmpBool(!p.needed[left.UID], !p.needed[right.UID]))
		return order < 0 || order == 0 && ssn.SubJobOrderFn(l, r)
	})
	for _, subJob := range p.subJobs {
		queue.Push(subJob)
	}
	return queue
}

// byOrder makes a comparison of one of the session's order functions, which are true if the left one comes first.
func byOrder[T any](first func(l, r any) bool) func(l, r T) int {
	return func(l, r T) int {
		switch {
		case first(l, r):
			return -1
		case first(r, l):
			return 1
		default:
			return 0
		}
	}
}
