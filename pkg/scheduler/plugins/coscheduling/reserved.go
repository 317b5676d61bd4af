// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcconf "volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// reservationFilter enforces reservations in one session. It refuses tasks of other gangs on reserved nodes. It also
// refuses them resources of the queue that the gang with the reservation needs.
type reservationFilter struct {
	ssn    *framework.Session
	known  *reservations
	byNode map[string]*reservation
	// asks has, by queue, a QueueAsk: whether the queue would admit the gang that has the queue's reservation.
	asks map[api.QueueID]*framework.QueueAsk
	// keys caches, for each job, the result of the method jobKey: the reservations whose nodes the job may not use. mu
	// guards keys, because upstream's actions call predicates from several goroutines.
	mu   sync.Mutex
	keys map[api.JobID]string
	// tiers are all plugins of the session. ssn.Tiers may have only one of them, while framework.QueueUse finds out
	// which plugin refuses a task. asking is set while the method allocatable calls all plugins. The session then calls
	// allocatable again, which returns at once and so ends the recursion.
	tiers  []vcconf.Tier
	asking bool
}

// keepReserved returns the filter that enforces the reservations in the session; nil if no nodes are reserved.
func (m *reservationManager) keepReserved() *reservationFilter {
	active := m.known.active
	if len(active) == 0 || m.terms.after <= 0 {
		return nil
	}
	k := &reservationFilter{ssn: m.ssn, known: m.known, byNode: map[string]*reservation{}, asks: map[api.QueueID]*framework.QueueAsk{}, keys: map[api.JobID]string{}, tiers: m.ssn.Tiers}
	for queue, r := range active {
		for name := range r.nodes {
			k.byNode[name] = r
		}
		job := m.ssn.Jobs[r.gang]
		if job == nil || !m.isReserved(r.gang) {
			continue
		}
		if m.ssn.Queues[queue] != nil {
			k.asks[queue] = m.ask(r)
		}
		if job.IsPending() && !m.asksOtherwise(r, job) {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue // admit the gang, because nodes are already reserved for the gang
		}
	}
	m.ssn.AddAllocatableFn(Name, k.allocatable)
	return k
}

// ask returns a QueueAsk, which asks whether the queue admits the members that the gang's minimum needs, as if the
// reserved nodes were drained.
func (m *reservationManager) ask(r *reservation) *framework.QueueAsk {
	return m.ssn.QueueUse.Ask(m.ssn.Queues[r.queue], m.leaving(r)).With(needed(m.ssn.Jobs[r.gang])...)
}

// leaving returns the tasks on the reserved nodes that must end before the gang can use the nodes.
func (m *reservationManager) leaving(r *reservation) (tasks []*api.TaskInfo) {
	for name := range r.nodes {
		if node := m.ssn.Nodes[name]; node != nil {
			tasks = append(tasks, toLeave(m.ssn.Jobs, node)...)
		}
	}
	return tasks
}

// admits returns an error unless the queue would admit the gang's minimum if the reserved nodes were drained, and these
// nodes fit into the queue's share.
func (m *reservationManager) admits(r *reservation) error {
	if m.ssn.Queues[r.queue] == nil {
		return fmt.Errorf("queue %s no longer exists or is not open", r.queue)
	}
	if err := m.withinShare(r); err != nil {
		return err
	}
	if ask := m.ask(r); len(ask.Tasks) == 0 || !m.ssn.QueueUse.Admits(ask) {
		return fmt.Errorf("queue %s has no room for the gang's minimum, even if the reserved nodes were drained", r.queue)
	}
	return nil
}

// withinShare returns an error unless the reserved nodes fit into the unused part of the queue's share of the
// cluster. Resources that tasks of the queue use on the reserved nodes count as unused.
func (m *reservationManager) withinShare(r *reservation) error {
	nodes := api.EmptyResource()
	for name := range r.nodes {
		node := m.ssn.Nodes[name]
		nodes.Add(node.Allocatable)
		for _, task := range node.Tasks {
			if job := framework.ChargedTo(m.ssn.Jobs, task); job != nil && job.Queue == r.queue {
				nodes.SubWithoutAssert(task.Resreq)
			}
		}
	}
	return m.ssn.QueueUse.FitsShare(m.ssn.Queues[r.queue], nodes)
}

// lost reports whether a reserved node was deleted or currently takes no pods.
func (m *reservationManager) lost(r *reservation) bool {
	for name := range r.nodes {
		if node := m.ssn.Nodes[name]; node == nil || !healthy(node) {
			return true
		}
	}
	return false
}

// isReserved reports whether nodes are reserved for the gang.
func (m *reservationManager) isReserved(uid api.JobID) bool {
	job := m.ssn.Jobs[uid]
	if job == nil || job.PodGroup == nil {
		return false
	}
	r := m.known.active[job.Queue]
	return r != nil && r.gang == uid && r.uid == job.PodGroup.UID
}

// passes reports whether all pods of the job may use the reserved nodes. That is so for the gang with the reservation,
// and for a job whose pending pods all belong to DaemonSets. Single pods of a higher priority may use the nodes, too,
// whatever their job (podPriority). The priority class of the PodGroup does not count: a tenant may write any class
// there, while quotas and admission restrict the classes of pods.
func (r *reservation) passes(job *api.JobInfo) bool {
	if job.UID == r.gang {
		return true
	}
	tasks := job.TaskStatusIndex[api.Pending]
	for _, task := range tasks {
		if !framework.OfDaemonSet(task) {
			return false
		}
	}
	return len(tasks) > 0
}

// refusedNode is the filter result that other gangs get on a reserved node. It does not name the gang with the
// reservation, because that gang may be in another namespace.
var refusedNode = []*api.Status{{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) reserved for a starving gang"}}

// predicate refuses reserved nodes to tasks of other gangs. The result says that evictions do not help, so that no
// action evicts pods there for such a task.
func (k *reservationFilter) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if k == nil {
		return nil
	}
	r := k.byNode[node.Name]
	if r == nil || podPriority(task) > r.priority || !strings.Contains(k.jobKey(k.ssn.Jobs[task.Job]), mark(r)) {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, refusedNode...)
}

// mark returns the part of a job's key (jobKey) that stands for the reservation: the name of its queue between commas.
// No name of a queue has a comma.
func mark(r *reservation) string { return "," + string(r.queue) + "," }

// jobKey returns a key that names the reservations whose nodes the job may not use.
func (k *reservationFilter) jobKey(job *api.JobInfo) string {
	if k == nil || job == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key, known := k.keys[job.UID]
	if !known {
		for _, r := range k.known.sorted() {
			if !r.passes(job) {
				key += mark(r)
			}
		}
		k.keys[job.UID] = key
	}
	return key
}

// allocatable reports whether the task may be placed without taking the queue's resources from the gang with the
// reservation: the queue would admit both the task and that gang.
func (k *reservationFilter) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	r, ask, job := k.known.active[queue.UID], k.asks[queue.UID], k.ssn.Jobs[task.Job]
	if k.asking || r == nil || ask == nil || job == nil || r.passes(job) || podPriority(task) > r.priority || !waitsForNodes(k.ssn.Jobs[r.gang]) {
		return true
	}
	tasks, _ := k.ssn.QueueUse.Asked(task)
	asked := k.ssn.Tiers
	k.ssn.Tiers, k.asking = k.tiers, true
	defer func() { k.ssn.Tiers, k.asking = asked, false }()
	return k.ssn.QueueUse.Admits(ask.With(tasks...))
}

// waitsForNodes reports whether no member of the gang has a node, not even in this session. Otherwise allocatable need
// not protect the queue's resources, because the queue already counts a member that has a node.
func waitsForNodes(job *api.JobInfo) bool {
	return job != nil && waitsWhole(job) && len(job.TaskStatusIndex[api.Allocated]) == 0 && len(job.TaskStatusIndex[api.Pipelined]) == 0
}

// noteMembers records the gang's pending members, which wait for the reserved nodes.
func (r *reservation) noteMembers(job *api.JobInfo) {
	if r.members == nil {
		r.members = map[api.TaskID]bool{}
	}
	for uid := range job.TaskStatusIndex[api.Pending] {
		r.members[uid] = true
	}
}

// shortOf returns an error that says which minimum the gang does not reach; nil if it reaches its minimum. Only members
// that have waited for the reserved nodes count. A pod that was created with a node does not count. Otherwise a tenant
// could create such pods to make a reservation look successful, and its queue would get the next reservation without a
// pause.
func (r *reservation) shortOf(job *api.JobInfo) error {
	return binding.ShortOf(job, &job.PodGroup.Spec, func(task *api.TaskInfo) bool { return r.members[task.UID] && binding.CountsAsBound(task) })
}

// hasHardTopology reports whether the gang, or one of its sub-groups, must be in a HyperNode of a given tier.
func hasHardTopology(job *api.JobInfo) bool {
	hard := func(topology *scheduling.NetworkTopologySpec) bool {
		return topology != nil && topology.Mode == scheduling.HardNetworkTopologyMode &&
			(topology.HighestTierAllowed != nil || topology.HighestTierName != "")
	}
	return hard(job.PodGroup.Spec.NetworkTopology) || slices.ContainsFunc(job.PodGroup.Spec.SubGroupPolicy,
		func(policy scheduling.SubGroupPolicySpec) bool { return hard(policy.NetworkTopology) })
}
