// SPDX-License-Identifier: Apache-2.0

package state

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

// Pending is the part of a job that is to be placed: sub-jobs and their tasks.
type Pending struct {
	SubJobs []*api.SubJobInfo
	// Tasks are the tasks to be placed, by sub-job, in task order.
	Tasks map[api.SubJobID][]*api.TaskInfo
	// needed are the sub-jobs that the job's minimum needs.
	needed map[api.SubJobID]bool
	// fitErrors are the fit errors of tasks that wait while further tasks of the job are tried.
	fitErrors map[api.TaskID]*api.FitErrors
	// IdleOnly reports whether members of the job already wait for resources being released. The other members may then
	// be placed on idle resources only.
	IdleOnly bool
}

// Empty reports whether the job has no tasks to be placed.
func (p *Pending) Empty() bool { return len(p.Tasks) == 0 }

// has reports whether the set some contains at least one of the tasks to be placed. Method within reports whether the
// set contains all of them.
func (p *Pending) has(some map[api.TaskID]bool) bool {
	return p.any(func(task *api.TaskInfo) bool { return some[task.UID] })
}

func (p *Pending) within(some map[api.TaskID]bool) bool {
	return !p.any(func(task *api.TaskInfo) bool { return !some[task.UID] })
}

func (p *Pending) any(is func(*api.TaskInfo) bool) bool {
	for _, tasks := range p.Tasks {
		if slices.ContainsFunc(tasks, is) {
			return true
		}
	}
	return false
}

// First returns the first task to be placed.
func (p *Pending) First() *api.TaskInfo {
	for _, subJob := range p.SubJobs {
		if tasks := p.Tasks[subJob.UID]; len(tasks) > 0 {
			return tasks[0]
		}
	}
	return nil
}

// IsShort reports whether the job is certainly short of its minimum: it has fewer tasks outside of p than its minimum
// needs, whatever their status. It may return false for a job that is short.
func (p *Pending) IsShort(job *api.JobInfo) bool {
	others := len(job.Tasks)
	for _, subJob := range p.SubJobs {
		others -= len(p.Tasks[subJob.UID])
	}
	return others < int(job.MinAvailable)
}

// RememberFitErrors saves the fit errors of the job's tasks before the next attempt to place the job resets them.
func (p *Pending) RememberFitErrors(job *api.JobInfo) {
	if p.fitErrors == nil && len(job.NodesFitErrors) > 0 {
		p.fitErrors = map[api.TaskID]*api.FitErrors{}
	}
	maps.Copy(p.fitErrors, job.NodesFitErrors)
}

// RestoreFitErrors restores the fit errors that RememberFitErrors saved, for tasks that still wait.
func (p *Pending) RestoreFitErrors(job *api.JobInfo) {
	for uid, errs := range p.fitErrors {
		if job.NodesFitErrors[uid] == nil && job.Tasks[uid].Status == api.Pending {
			job.NodesFitErrors[uid] = errs
		}
	}
}

// KeepOnly replaces the tasks to be placed of each sub-job in rest by the tasks given there. Other sub-jobs keep their
// tasks.
func (p *Pending) KeepOnly(rest map[api.SubJobID][]*api.TaskInfo) {
	done := false
	for uid, tasks := range rest {
		if len(tasks) > 0 {
			p.Tasks[uid] = tasks
		} else {
			delete(p.Tasks, uid)
			done = true
		}
	}
	if done {
		p.SubJobs = slices.DeleteFunc(p.SubJobs, func(subJob *api.SubJobInfo) bool { return len(p.Tasks[subJob.UID]) == 0 })
	}
}

// Restrict removes all tasks that are not in the given set (only), and returns a copy of p with all former tasks for Restore.
// It returns nil if no tasks were removed, or if the set is nil.
func (p *Pending) Restrict(only map[api.TaskID]bool) *Pending {
	if only == nil {
		return nil
	}
	whole := &Pending{SubJobs: slices.Clone(p.SubJobs), Tasks: maps.Clone(p.Tasks)}
	rest, fewer := map[api.SubJobID][]*api.TaskInfo{}, false
	for uid, tasks := range p.Tasks {
		rest[uid] = slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool { return !only[task.UID] })
		fewer = fewer || len(rest[uid]) < len(tasks)
	}
	if !fewer {
		return nil
	}
	p.KeepOnly(rest)
	return whole
}

// Restore puts back the tasks in whole, the result of Restrict, that are still pending.
func (p *Pending) Restore(whole *Pending) {
	p.SubJobs, p.Tasks = whole.SubJobs, whole.Tasks
	rest := map[api.SubJobID][]*api.TaskInfo{}
	for uid, tasks := range p.Tasks {
		rest[uid] = slices.DeleteFunc(slices.Clone(tasks), func(task *api.TaskInfo) bool { return task.Status != api.Pending })
	}
	p.KeepOnly(rest)
}

// NewPendingTasks returns the tasks of the job that are to be placed. It leaves out tasks with scheduling gates
// (KEP-3521), and tasks without requests, which action backfill places.
func NewPendingTasks(s *Progress, job *api.JobInfo) *Pending {
	p := &Pending{Tasks: map[api.SubJobID][]*api.TaskInfo{}}
	for uid, subJob := range job.SubJobs {
		var tasks []*api.TaskInfo
		for _, task := range subJob.TaskStatusIndex[api.Pending] {
			if !task.SchGated && !task.Resreq.IsEmpty() {
				tasks = append(tasks, task)
			}
		}
		if len(tasks) > 0 {
			s.sortTasks(tasks)
			p.Tasks[uid] = tasks
			p.SubJobs = append(p.SubJobs, subJob)
		}
	}
	p.needed = neededSubJobs(s, job, p.SubJobs)
	return p
}

// sortTasks sorts tasks by the session's task order. For tasks that plugins treat as equal, upstream compares names,
// which is slow, and inconsistent if only some names end in a number. So tasks are first sorted by priority, the number
// at the end of their name, and creation time. They are then sorted by the session only if its order differs.
func (p *Progress) sortTasks(tasks []*api.TaskInfo) {
	if len(tasks) < 2 {
		return
	}
	type numbered struct {
		task   *api.TaskInfo
		number int
	}
	byNumber, without := make([]numbered, len(tasks)), 0
	for i, task := range tasks {
		number, ok := indexOf(task.Name)
		if !ok {
			number = -1
			without++
		}
		byNumber[i] = numbered{task, number}
	}
	slices.SortFunc(byNumber, func(l, r numbered) int {
		if first := cmp.Or(cmp.Compare(r.task.Priority, l.task.Priority), cmp.Compare(l.number, r.number)); first != 0 {
			return first // the pods are not read, because they are seldom in the processor's cache
		}
		return cmp.Or(l.task.Pod.CreationTimestamp.Compare(r.task.Pod.CreationTimestamp.Time), cmp.Compare(l.task.UID, r.task.UID))
	})
	for i := range byNumber {
		tasks[i] = byNumber[i].task
	}
	inOrder := ByOrder[*api.TaskInfo](p.ssn.TaskOrderFn)
	sorted := false
	if 0 < without && without < len(tasks) {
		sorted = slices.IsSortedFunc(tasks, inOrder)
	} else {
		// If all names end in a number, or none does, upstream's fallback gives the order of the sort above.
		p.ssn.WithTiers(p.taskOrder, func() {
			sorted = slices.IsSortedFunc(tasks, func(l, r *api.TaskInfo) int { return p.ssn.TaskCompareFns(l, r) })
		})
	}
	if !sorted {
		slices.SortStableFunc(tasks, inOrder)
	}
}

// indexOf returns the number at the end of a pod's name, after its second or a later hyphen; false if there is none.
// Upstream orders tasks by this number.
func indexOf(name string) (int, bool) {
	last := strings.LastIndexByte(name, '-')
	if last < 0 || strings.IndexByte(name, '-') == last {
		return 0, false
	}
	number, err := strconv.Atoi(name[last+1:])
	return number, err == nil
}

// neededSubJobs returns the sub-jobs that the job's minimum needs: for each sub-group policy, the first sub-jobs in
// order that are not ready, as many as the policy still needs. The map is nil for fewer than two sub-jobs, which need
// no order.
func neededSubJobs(s *Progress, job *api.JobInfo, subJobs []*api.SubJobInfo) map[api.SubJobID]bool {
	if len(subJobs) < 2 {
		return nil
	}
	slices.SortFunc(subJobs, func(l, r *api.SubJobInfo) int { return cmp.Compare(l.UID, r.UID) })
	slices.SortStableFunc(subJobs, ByOrder[*api.SubJobInfo](s.ssn.SubJobOrderFn))
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

// readySubJobs returns how many sub-jobs of each sub-group policy are ready.
func (p *Progress) readySubJobs(job *api.JobInfo) map[api.SubJobGID]int32 {
	ready := map[api.SubJobGID]int32{}
	for _, subJob := range job.SubJobs {
		if p.ssn.SubJobReady(job, subJob) {
			ready[subJob.GID]++
		}
	}
	return ready
}

// SubJobQueue returns the sub-jobs in order of placement: by their number in the map first, the highest number first,
// then sub-jobs that the minimum needs, then in the session's order. The session's order changes for a sub-job when
// tasks of it are placed.
func SubJobQueue(ssn *framework.Session, p *Pending, first map[api.SubJobID]int) *util.PriorityQueue {
	queue := util.NewPriorityQueue(func(l, r any) bool {
		left, right := l.(*api.SubJobInfo), r.(*api.SubJobInfo)
		order := cmp.Or(cmp.Compare(first[right.UID], first[left.UID]), cmpBool(!p.needed[left.UID], !p.needed[right.UID]))
		return order < 0 || order == 0 && ssn.SubJobOrderFn(l, r)
	})
	for _, subJob := range p.SubJobs {
		queue.Push(subJob)
	}
	return queue
}

// ByOrder returns a comparison made from one of the session's order functions. first is the order function: it reports
// whether l comes before r.
func ByOrder[T any](first func(l, r any) bool) func(l, r T) int {
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

// UsualJobOrder compares jobs by priority, creation time and UID. The priority plugin compares priorities in this way. The
// session compares creation time and UID if all plugins treat two jobs as equal.
func UsualJobOrder(l, r *api.JobInfo) int {
	return cmp.Or(cmp.Compare(r.Priority, l.Priority), l.CreationTimestamp.Compare(r.CreationTimestamp.Time), cmp.Compare(l.UID, r.UID))
}

// PendingBestEffort returns the job's tasks that action backfill is to place, sorted by name. Tasks with scheduling gates
// are included.
func PendingBestEffort(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if task.BestEffort {
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(l, r *api.TaskInfo) int { return cmp.Compare(l.Name, r.Name) })
	return tasks
}
