// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"sync"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcconf "volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// reservationFilter refuses other gangs' tasks on reserved nodes, and in the queue's reserved resources, in one session.
type reservationFilter struct {
	*session
	byNode map[string]*reservation
	// asks has, by queue, the ask for the gang with the reservation.
	asks map[api.QueueID]*framework.QueueAsk
	// keys caches the keys of jobs, by the reservations that refuse them. mu guards them, because upstream's actions call
	// predicates from several goroutines.
	mu   sync.Mutex
	keys map[api.JobID]string
	// tiers are all plugins, also while an explanation calls them one by one. asking is set while they are called for a gang and a
	// task.
	tiers  []vcconf.Tier
	asking bool
}

// keepReserved enforces the reservations in the session. It returns nil if there are none.
func (s *session) keepReserved() *reservationFilter {
	active := s.plugin.reservations.active
	if len(active) == 0 || s.plugin.terms.after <= 0 {
		return nil
	}
	k := &reservationFilter{session: s, byNode: map[string]*reservation{}, asks: map[api.QueueID]*framework.QueueAsk{}, keys: map[api.JobID]string{}, tiers: s.Tiers}
	for queue, r := range active {
		for name := range r.nodes {
			k.byNode[name] = r
		}
		job := s.Jobs[r.gang]
		if job == nil || !s.isReserved(r.gang) {
			continue
		}
		if s.Queues[queue] != nil {
			k.asks[queue] = s.ask(r)
		}
		if job.IsPending() && r.demand == demandOf(job) {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue // the resources being released are the gang's
		}
	}
	s.AddAllocatableFn(Name, k.allocatable)
	return k
}

// ask returns the ask whether the queue would admit the members that the gang's minimum needs if the pods on its nodes were gone.
func (s *session) ask(r *reservation) *framework.QueueAsk {
	return s.QueueUse.Ask(s.Queues[r.queue], s.leaving(r)).With(needed(s.Jobs[r.gang])...)
}

// leaving returns the tasks on the reserved nodes that must end.
func (s *session) leaving(r *reservation) (tasks []*api.TaskInfo) {
	for name := range r.nodes {
		if node := s.Nodes[name]; node != nil {
			tasks = append(tasks, s.toLeave(node)...)
		}
	}
	return tasks
}

// admits reports whether the queue would admit the gang, and its share hold the nodes, if the nodes were drained.
func (s *session) admits(r *reservation) bool {
	queue := s.Queues[r.queue]
	if queue == nil || !s.QueueUse.MayAdmit(queue, r.request) || s.withinShare(r) != nil {
		return false
	}
	ask := s.ask(r)
	return len(ask.Tasks) > 0 && s.QueueUse.Admits(ask)
}

// withinShare returns an error unless the reserved nodes fit into the unused part of the queue's share. Resources of the queue's
// own tasks on these nodes count as unused.
func (s *session) withinShare(r *reservation) error {
	nodes := api.EmptyResource()
	for name := range r.nodes {
		node := s.Nodes[name]
		nodes.Add(node.Allocatable)
		for _, task := range node.Tasks {
			if job := framework.ChargedTo(s.Jobs, task); job != nil && job.Queue == r.queue {
				nodes.SubWithoutAssert(task.Resreq)
			}
		}
	}
	return s.QueueUse.FitsShare(s.Queues[r.queue], nodes)
}

// lost reports whether a reserved node takes no pods.
func (s *session) lost(r *reservation) bool {
	for name := range r.nodes {
		if node := s.Nodes[name]; node == nil || !healthy(node) {
			return true
		}
	}
	return false
}

// passes reports whether the reservation is open to the job: to the gang itself, to a higher priority, and to pods of DaemonSets.
func (r *reservation) passes(job *api.JobInfo) bool {
	if job.UID == r.gang || job.Priority > r.priority {
		return true
	}
	tasks := job.TaskStatusIndex[api.Pending]
	for _, task := range tasks {
		if !ofDaemonSet(task) {
			return false
		}
	}
	return len(tasks) > 0
}

// refusedNode is the message that other gangs get. It leaves out the gang's name, because the gang may be of another namespace.
var refusedNode = []*api.Status{{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) reserved for a starving gang"}}

// predicate refuses reserved nodes. No eviction helps against that.
func (k *reservationFilter) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if k == nil {
		return nil
	}
	r := k.byNode[node.Name]
	if r == nil || podPriority(task) > r.priority || !strings.Contains(k.jobKey(k.Jobs[task.Job]), mark(r)) {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, refusedNode...)
}

// mark identifies the reservation in keys. No queue's name has a comma.
func mark(r *reservation) string { return "," + string(r.queue) + "," }

// jobKey names the reservations whose nodes are closed to the job.
func (k *reservationFilter) jobKey(job *api.JobInfo) string {
	if k == nil || job == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key, known := k.keys[job.UID]
	if !known {
		for _, r := range k.plugin.reservations.sorted() {
			if !r.passes(job) {
				key += mark(r)
			}
		}
		k.keys[job.UID] = key
	}
	return key
}

// allocatable keeps resources of the queue for the reservation's gang: other tasks are placed only while the queue admits both.
func (k *reservationFilter) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	r, ask, job := k.plugin.reservations.active[queue.UID], k.asks[queue.UID], k.Jobs[task.Job]
	if k.asking || r == nil || ask == nil || job == nil || r.passes(job) || podPriority(task) > r.priority || !waitsForNodes(k.Jobs[r.gang]) {
		return true
	}
	tasks, _ := k.QueueUse.Asked(task)
	asked := k.Tiers
	k.Tiers, k.asking = k.tiers, true
	defer func() { k.Tiers, k.asking = asked, false }()
	return k.QueueUse.Admits(ask.With(tasks...))
}

// waitsForNodes reports whether no member of the gang holds a node, not even in this session.
func waitsForNodes(job *api.JobInfo) bool {
	return job != nil && waitsWhole(job) && len(job.TaskStatusIndex[api.Allocated]) == 0
}

var _ framework.Starter = (*plugin)(nil)
