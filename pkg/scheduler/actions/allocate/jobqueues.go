// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/drf"
	"volcano.sh/volcano/pkg/scheduler/plugins/gang"
	"volcano.sh/volcano/pkg/scheduler/plugins/priority"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// jobQueues holds the jobs to be scheduled in this session: the jobs of each queue, in the plugins' order, and the tasks
// of each job that are to be placed.
type jobQueues struct {
	queues *util.PriorityQueue
	jobs   map[api.QueueID]*jobQueue
	// first are the jobs that are scheduled before all queues, because a plugin selected them (framework.Prioritizer). They
	// are sorted by the conf order of these plugins, and then in the plugins' job order.
	first   []firstJob
	pending map[api.JobID]*state.Pending
}

type firstJob struct {
	*api.JobInfo
	framework.Precedence
}

// newJobQueues returns the queues with the jobs to be placed. Jobs are pushed in the order of their UIDs, so that the
// order among equal jobs is always the same.
func newJobQueues(s *state.Run) *jobQueues {
	q := &jobQueues{
		queues:  util.NewPriorityQueue(s.Session.QueueOrderFn),
		jobs:    map[api.QueueID]*jobQueue{},
		pending: make(map[api.JobID]*state.Pending, len(s.Session.Jobs)),
	}
	for _, uid := range slices.Sorted(maps.Keys(s.Session.Jobs)) {
		job := s.Session.Jobs[uid]
		if !wanted(s.Session, job) {
			continue
		}
		pending := state.NewPendingTasks(s.Progress, job)
		if pending.Empty() {
			continue
		}
		if q.jobs[job.Queue] == nil {
			q.jobs[job.Queue] = &jobQueue{first: s.Progress.JobOrder, ask: func(jobs []*api.JobInfo, sort func()) { q.askJobOrder(s, jobs, sort) }}
		}
		if precedence, first := s.Session.Placements.Precedence(job); first {
			q.first = append(q.first, firstJob{job, precedence})
		} else {
			q.jobs[job.Queue].push(job)
		}
		q.pending[uid] = pending
		for _, tasks := range pending.Tasks {
			for _, task := range tasks {
				s.Finder.Expect(task)
			}
		}
	}
	inOrder := state.ByOrder[*api.JobInfo](s.Progress.JobOrder)
	slices.SortStableFunc(q.first, func(l, r firstJob) int {
		return cmp.Or(cmp.Compare(l.Rank, r.Rank), inOrder(l.JobInfo, r.JobInfo))
	})
	return q
}

// inOneNamespace reports whether all jobs to be placed are in one namespace.
func (q *jobQueues) inOneNamespace() bool {
	namespaces := map[string]bool{}
	for uid := range q.pending {
		namespace, _, _ := strings.Cut(string(uid), "/")
		namespaces[namespace] = true
	}
	return len(namespaces) < 2
}

// pushQueues adds the queues that have jobs to the priority queue. The order of the queues depends on the placed tasks,
// so pushQueues is called after the jobs in q.first were scheduled.
func (q *jobQueues) pushQueues(ssn *framework.Session) {
	for _, uid := range slices.Sorted(maps.Keys(q.jobs)) {
		q.queues.Push(ssn.Queues[uid])
	}
}

// askJobOrder calls sort, which orders the jobs by the plugins. The jobs are in the usual order before that. If all jobs
// are short of their minimum, sort runs without upstream's gang plugin, which treats such jobs as equal. If all tasks of all
// jobs are pending, it also runs without upstream's drf plugin, because then no job has a share. If only upstream's priority
// plugin is left, sort is not called: the usual order is its order.
func (q *jobQueues) askJobOrder(s *state.Run, jobs []*api.JobInfo, sort func()) {
	var equal []string
	if !slices.ContainsFunc(jobs, func(job *api.JobInfo) bool { return !q.pending[job.UID].IsShort(job) }) {
		equal = append(equal, gang.PluginName)
	}
	if !slices.ContainsFunc(jobs, func(job *api.JobInfo) bool { return len(job.TaskStatusIndex[api.Pending]) < len(job.Tasks) }) {
		equal = append(equal, drf.PluginName)
	}
	signers := &s.Session.Signers
	asked := signers.JobOrderPlugins(signers.TiersWithout(s.Session.Tiers, equal...))
	if len(asked) == 1 && asked[0].Name == priority.PluginName && signers.IsUpstreams(priority.PluginName) {
		return
	}
	s.Session.WithTiers([]conf.Tier{{Plugins: asked}}, sort)
}

// reorder moves jobs that were placed with their gang group to their new position in the order of their queues.
func (q *jobQueues) reorder(placed []*api.JobInfo) {
	queues := map[*jobQueue]bool{}
	for _, job := range placed {
		if jobs := q.jobs[job.Queue]; jobs != nil && !queues[jobs] {
			queues[jobs] = true
			jobs.reorder(placed)
		}
	}
}

// wanted reports whether the job is to be placed in this session.
func wanted(ssn *framework.Session, job *api.JobInfo) bool {
	key := klog.KRef(job.Namespace, job.Name)
	if job.IsPending() {
		if conf.EnabledActionMap["enqueue"] {
			klog.V(4).InfoS("Skipped a job that is not admitted yet", "podGroup", key)
			return false
		}
		job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	}
	if invalid := ssn.JobValid(job); invalid != nil {
		klog.V(4).InfoS("Job is skipped", "podGroup", key, "reason", invalid.Reason, "message", invalid.Message)
		return false
	}
	if ssn.Queues[job.Queue] == nil {
		klog.V(2).InfoS("Skipped a job whose queue does not exist", "podGroup", key, "queue", job.Queue)
		return false
	}
	if !ssn.HyperNodesReadyToSchedule && job.ContainsNetworkTopology() {
		klog.V(4).InfoS("Skipped a job with a network topology, the HyperNodes are not ready", "podGroup", key)
		job.JobFitErrors = "waiting for HyperNodes: spec.networkTopology of the gang needs them, and the scheduler has not read all of them yet"
		return false
	}
	if namesTiers(job) {
		resolveTierNames(ssn, job)
	}
	if job.AllocatedHyperNode == "" && job.ContainsHardTopology() {
		job.AllocatedHyperNode = lowestHyperNode(ssn, job)
	}
	return true
}
