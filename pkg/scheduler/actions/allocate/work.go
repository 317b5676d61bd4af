// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/controllers/job/helpers"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// work is what is to be placed: the jobs of each queue in the plugins' order, and each job's tasks.
type work struct {
	queues *util.PriorityQueue
	jobs   map[api.QueueID]*util.PriorityQueue
	// urgent are jobs that go before the queues, in the plugins' order.
	urgent []*api.JobInfo
	sheets map[api.JobID]*sheet
}

// sheet lists a job's sub-jobs that have tasks to be placed.
type sheet struct {
	subJobs []*api.SubJobInfo
	// tasks are a sub-job's tasks to be placed, in task order.
	tasks map[api.SubJobID][]*api.TaskInfo
	// needed are the sub-jobs that the job's minimum needs.
	needed map[api.SubJobID]bool
	// misfits are why tasks fitted nowhere that are not looked at again, while others of the job were.
	misfits map[api.TaskID]*api.FitErrors
}

func (s *sheet) empty() bool { return len(s.tasks) == 0 }

// first is the first task to be placed.
func (s *sheet) first() *api.TaskInfo {
	for _, subJob := range s.subJobs {
		if tasks := s.tasks[subJob.UID]; len(tasks) > 0 {
			return tasks[0]
		}
	}
	return nil
}

// note remembers why tasks of the job fitted nowhere; tell says it again of those that still wait.
func (s *sheet) note(job *api.JobInfo) {
	if s.misfits == nil && len(job.NodesFitErrors) > 0 {
		s.misfits = map[api.TaskID]*api.FitErrors{}
	}
	maps.Copy(s.misfits, job.NodesFitErrors)
}

func (s *sheet) tell(job *api.JobInfo) {
	for uid, errs := range s.misfits {
		if job.NodesFitErrors[uid] == nil && job.Tasks[uid].Status == api.Pending {
			job.NodesFitErrors[uid] = errs
		}
	}
}

// keep leaves of the sub-jobs that are named only the given tasks.
func (s *sheet) keep(rest map[api.SubJobID][]*api.TaskInfo) {
	done := false
	for uid, tasks := range rest {
		if len(tasks) > 0 {
			s.tasks[uid] = tasks
		} else {
			delete(s.tasks, uid)
			done = true
		}
	}
	if done {
		s.subJobs = slices.DeleteFunc(s.subJobs, func(subJob *api.SubJobInfo) bool { return len(s.tasks[subJob.UID]) == 0 })
	}
}

// work lists what is to be placed. Jobs are pushed by their keys, so that the order among equals is always the same.
func (a *allocation) work() *work {
	w := &work{
		queues: util.NewPriorityQueue(a.ssn.QueueOrderFn),
		jobs:   map[api.QueueID]*util.PriorityQueue{},
		sheets: map[api.JobID]*sheet{},
	}
	for _, uid := range slices.Sorted(maps.Keys(a.ssn.Jobs)) {
		job := a.ssn.Jobs[uid]
		if !a.wanted(job) {
			continue
		}
		sheet := a.sheet(job)
		if sheet.empty() {
			continue
		}
		if w.jobs[job.Queue] == nil {
			w.jobs[job.Queue] = util.NewPriorityQueue(a.jobOrder)
		}
		if a.ssn.Urgent(job) {
			w.urgent = append(w.urgent, job)
		} else {
			w.jobs[job.Queue].Push(job)
		}
		w.sheets[uid] = sheet
	}
	slices.SortStableFunc(w.urgent, byOrder[*api.JobInfo](a.jobOrder))
	return w
}

// pushQueues pushes the queues that have jobs, by their order now.
func (w *work) pushQueues(ssn *framework.Session) {
	for _, uid := range slices.Sorted(maps.Keys(w.jobs)) {
		w.queues.Push(ssn.Queues[uid])
	}
}

// wanted says whether the job is to be placed in this session.
func (a *allocation) wanted(job *api.JobInfo) bool {
	key := klog.KRef(job.Namespace, job.Name)
	if job.IsPending() {
		if conf.EnabledActionMap["enqueue"] {
			klog.V(4).InfoS("Job is skipped: it is not enqueued yet", "podGroup", key)
			return false
		}
		job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	}
	if verdict := a.ssn.JobValid(job); verdict != nil && !verdict.Pass {
		klog.V(4).InfoS("Job is skipped", "podGroup", key, "reason", verdict.Reason, "message", verdict.Message)
		return false
	}
	if a.ssn.Queues[job.Queue] == nil {
		klog.V(2).InfoS("Job is skipped: its queue does not exist", "podGroup", key, "queue", job.Queue)
		return false
	}
	if !a.ssn.HyperNodesReadyToSchedule && job.ContainsNetworkTopology() {
		klog.V(4).InfoS("Job is skipped: the HyperNodes are not ready", "podGroup", key)
		job.JobFitErrors = "it has a network topology, and the HyperNodes are not ready"
		return false
	}
	if namesTiers(job) {
		resolveTierNames(a.ssn, job)
	}
	if job.AllocatedHyperNode == "" && job.ContainsHardTopology() {
		job.AllocatedHyperNode = lowestHyperNode(a.ssn, job)
	}
	return true
}

// sheet lists what of the job is to be placed. Gated tasks wait for their gates, tasks without requests for backfill.
func (a *allocation) sheet(job *api.JobInfo) *sheet {
	s := &sheet{tasks: map[api.SubJobID][]*api.TaskInfo{}}
	for uid, subJob := range job.SubJobs {
		var tasks []*api.TaskInfo
		for _, task := range subJob.TaskStatusIndex[api.Pending] {
			if !task.SchGated && !task.Resreq.IsEmpty() {
				tasks = append(tasks, task)
			}
		}
		if len(tasks) > 0 {
			a.sortTasks(tasks)
			s.tasks[uid] = tasks
			s.subJobs = append(s.subJobs, subJob)
		}
	}
	s.needed = a.neededSubJobs(job, s.subJobs)
	return s
}

// sortTasks sorts tasks by the session's task order. The order upstream falls back to is costly to ask for each pair, and
// is no order where only some names end in a number, so tasks are sorted by what it looks at first, and asked for where that
// may not agree.
func (a *allocation) sortTasks(tasks []*api.TaskInfo) {
	type numbered struct {
		task   *api.TaskInfo
		number int
	}
	sorted, without := make([]numbered, len(tasks)), 0
	for i, task := range tasks {
		number, err := strconv.Atoi(helpers.GetPodIndexUnderTask(task.Pod))
		if err != nil {
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
	inOrder := func(l, r *api.TaskInfo) int { return a.ssn.TaskCompareFns(l, r) } // beyond it, upstream's is the order above
	if 0 < without && without < len(tasks) {
		inOrder = byOrder[*api.TaskInfo](a.ssn.TaskOrderFn)
	}
	if !slices.IsSortedFunc(tasks, inOrder) {
		slices.SortStableFunc(tasks, byOrder[*api.TaskInfo](a.ssn.TaskOrderFn))
	}
}

// neededSubJobs are those the job's minimum needs: of each policy the first in order that are not ready, up to the number
// it needs.
func (a *allocation) neededSubJobs(job *api.JobInfo, subJobs []*api.SubJobInfo) map[api.SubJobID]bool {
	slices.SortFunc(subJobs, func(l, r *api.SubJobInfo) int { return cmp.Compare(l.UID, r.UID) })
	slices.SortStableFunc(subJobs, byOrder[*api.SubJobInfo](a.ssn.SubJobOrderFn))
	ready := a.readySubJobs(job)
	needed := map[api.SubJobID]bool{}
	for _, subJob := range subJobs {
		if !a.ssn.SubJobReady(job, subJob) && ready[subJob.GID] < job.MinSubJobs[subJob.GID] {
			ready[subJob.GID]++
			needed[subJob.UID] = true
		}
	}
	return needed
}

// readySubJobs counts the sub-jobs of each policy that are ready.
func (a *allocation) readySubJobs(job *api.JobInfo) map[api.SubJobGID]int32 {
	ready := map[api.SubJobGID]int32{}
	for _, subJob := range job.SubJobs {
		if a.ssn.SubJobReady(job, subJob) {
			ready[subJob.GID]++
		}
	}
	return ready
}

// pending are the sub-jobs in the order in which they are placed: those with the highest number in first before others,
// then those the minimum needs, then by the session's order, which is another for a sub-job once more of it is placed.
func (a *allocation) pending(s *sheet, first map[api.SubJobID]int) *util.PriorityQueue {
	pending := util.NewPriorityQueue(func(l, r any) bool {
		left, right := l.(*api.SubJobInfo), r.(*api.SubJobInfo)
		order := cmp.Or(cmp.Compare(first[right.UID], first[left.UID]), cmpBool(!s.needed[left.UID], !s.needed[right.UID]))
		return order < 0 || order == 0 && a.ssn.SubJobOrderFn(l, r)
	})
	for _, subJob := range s.subJobs {
		pending.Push(subJob)
	}
	return pending
}

// byOrder makes a comparison of one of the session's order functions, which say whether the left one comes first.
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
