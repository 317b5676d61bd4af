// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// place is a set of nodes from which the nodes to reserve for a gang may be chosen: a node group, a network domain, or
// all nodes.
type place struct {
	// name is the name of the node group or domain; empty if the place has all nodes.
	name  string
	nodes []string
}

// places returns the sets of nodes in which the gang may be placed. These are the domains that its topology rule
// allows, within its required node groups if it has any. For a gang without domains, these are its node groups, and
// also all nodes unless a node group is required.
func (m *reservationManager) places(job *api.JobInfo) ([]place, error) {
	if err := m.network.invalidTopology(job); err != nil {
		return nil, err
	}
	placement, err := m.ssn.Placements.Of(job)
	if err != nil {
		return nil, err
	}
	groups := placement.NodeGroups
	domains := m.network.domainsFor(job)
	if len(domains) > 0 && (groups == nil || !groups.Required) {
		return domains, nil
	}
	var places []place
	if groups != nil {
		for _, group := range groups.Candidates {
			if len(domains) > 0 {
				places = append(places, within(group, domains)...)
				continue
			}
			places = append(places, place{group.Path(), group.Nodes})
		}
		if groups.Required {
			return places, nil
		}
	}
	all := place{}
	for name := range m.ssn.Nodes {
		all.nodes = append(all.nodes, name)
	}
	return append(places, all), nil
}

// within returns, for each domain, the nodes of the domain that are in the node group. Domains without such nodes are
// left out.
func within(group *topology.Group, domains []place) []place {
	in := map[string]bool{}
	for _, node := range group.Nodes {
		in[node] = true
	}
	var out []place
	for _, d := range domains {
		nodes := slices.DeleteFunc(slices.Clone(d.nodes), func(node string) bool { return !in[node] })
		if len(nodes) > 0 {
			out = append(out, place{group.Path() + ", " + d.name, nodes})
		}
	}
	return out
}

// choose chooses nodes for the reservation of the gang. It tries the sets of nodes from places in ascending order of
// the mean use of their nodes. It stops at the first set where a trial succeeds. A trial places the gang's minimum on
// nodes as if these were drained.
func (m *reservationManager) choose(r *reservation, job *api.JobInfo) error {
	m.ssn.SetCurrentJob(job.UID)
	if hasHardTopology(job) {
		return errors.New("the gang has a hard network topology, and reserved nodes can be in different HyperNodes")
	}
	r.request, r.demand, r.priority = requestOf(job), demandOf(job), priorityOf(job)
	if name := m.exceeds(job, r.request); name != "" {
		of := func(amount *api.Resource) string { return quantity.Of(name, amount.Get(name)) }
		return fmt.Errorf("minResources asks for %s %s, and the pods that the minimum needs request %s", name, of(job.GetMinResources()), of(r.request))
	}
	queue := m.ssn.Queues[r.queue]
	if queue == nil {
		return fmt.Errorf("queue %s does not exist or is not open", r.queue)
	}
	if err := m.ssn.QueueUse.FitsCapability(queue, r.request); err != nil {
		return fmt.Errorf("the gang's minimum is too large for its queue: %w", err)
	}
	places, err := m.places(job)
	if err != nil {
		return err
	}
	occupancy, mean := map[string]float64{}, map[string]float64{}
	for i, p := range places {
		places[i].nodes = slices.DeleteFunc(slices.Clone(p.nodes), func(name string) bool { return m.ssn.Nodes[name] == nil || !healthy(m.ssn.Nodes[name]) })
		for _, name := range places[i].nodes {
			occupancy[name] = occupancyOf(m.ssn.Nodes[name], r.request)
			mean[p.name] += occupancy[name] / float64(len(places[i].nodes))
		}
		slices.SortFunc(places[i].nodes, func(l, r string) int { return cmp.Or(cmp.Compare(occupancy[l], occupancy[r]), cmp.Compare(l, r)) })
	}
	slices.SortStableFunc(places, func(l, r place) int { return cmp.Compare(mean[l.name], mean[r.name]) })
	err = errors.New("no node group is allowed for the gang")
	for began, i := time.Now(), 0; i < len(places) && time.Since(began) < trialTimeout; i++ {
		if err = m.try(r, job, places[i], began.Add(trialTimeout)); err != nil {
			continue
		}
		if err = m.withinShare(r); err == nil { // called after try has reverted its placements, which the queue would count
			return nil
		}
		err = fmt.Errorf("the nodes that the gang needs exceed the unused share of its queue: %w", err)
	}
	return err
}

// trial is an attempt to place one gang on one set of nodes (place) as if these nodes were drained.
type trial struct {
	ssn *framework.Session
	// reserved is the gang's node reservation, to which the trial adds the chosen nodes.
	reserved *reservation
	// members are the gang's members that are still to be placed. classes has the task class of each member, and
	// first has one member of each class.
	members []*api.TaskInfo
	classes map[api.TaskID]string
	first   map[string]*api.TaskInfo
	// held is the sum of the allocatable resources of two sets of nodes: those reserved for gangs of other queues, and
	// those chosen so far. deleted are the pods on the chosen nodes that are being deleted; queues may still count their
	// resources.
	held    *api.Resource
	deleted []*api.TaskInfo
	// queueRefused reports whether the queue refused a member that a node had room for.
	queueRefused bool
	// until is the deadline of the trial. A trial can take long, because all members of a gang may differ, and
	// plugins are called for each task class.
	until time.Time
}

func (t *trial) late() bool { return time.Now().After(t.until) }

var errTrialTooLong = fmt.Errorf("the search for nodes took longer than %s", trialTimeout)

// try chooses nodes for reservation r from the set p. It reverts all changes that the trial makes to the session.
func (m *reservationManager) try(r *reservation, job *api.JobInfo, p place, until time.Time) error {
	t := &trial{ssn: m.ssn, reserved: r, members: needed(job), held: api.EmptyResource(), until: until}
	if err := t.prepare(); err != nil {
		return err
	}
	taken := map[string]bool{}
	for queue, other := range m.known.active {
		if queue != r.queue {
			for name := range other.nodes {
				taken[name] = true
				if node := m.ssn.Nodes[name]; node != nil {
					t.held.Add(node.Allocatable)
				}
			}
		}
	}
	limit := m.ssn.TotalResource.Clone().Multi(float64(m.terms.percent) / 100)
	var statements []*vcframework.Statement
	defer func() {
		for _, statement := range slices.Backward(statements) {
			statement.Discard()
		}
	}()
	capped := false
	for _, name := range p.nodes {
		node := m.ssn.Nodes[name]
		switch {
		case len(t.members) == 0:
		case t.late():
			return errTrialTooLong
		case taken[name] || !t.mayHelp(node):
		case !t.held.Clone().Add(node.Allocatable).LessEqual(limit, api.Zero):
			capped = true
		default:
			statement := vcframework.NewStatement(m.ssn.Session)
			statements = append(statements, statement)
			if !t.fill(statement, node) {
				statement.Discard()
				statements = statements[:len(statements)-1]
				continue
			}
			r.nodes[name] = true
			t.held.Add(node.Allocatable)
		}
	}
	switch {
	case len(t.members) > 0 && capped:
		return fmt.Errorf("the gang needs more than %d%% of the cluster, the limit for reservations (%s)", m.terms.percent, argPercent)
	case len(t.members) > 0 && t.queueRefused:
		return fmt.Errorf("queue %s has no room for %d of the gang's pods, even if nodes were drained", r.queue, len(t.members))
	case len(t.members) > 0:
		return fmt.Errorf("%d of the gang's pods fit no node, even if nodes were drained", len(t.members))
	}
	return nil
}

// prepare computes the task classes of the members, and calls the pre-predicates for one member of each class.
func (t *trial) prepare() error {
	t.reserved.nodes, t.classes, t.first = map[string]bool{}, map[api.TaskID]string{}, map[string]*api.TaskInfo{}
	for _, task := range t.members {
		class, err := classOf(task)
		if err != nil {
			return err
		}
		t.classes[task.UID] = class
		if t.first[class] != nil {
			continue
		}
		t.first[class] = task
		if t.late() {
			return errTrialTooLong
		}
		if err := t.ssn.PrePredicateFn(task); err != nil {
			return fmt.Errorf("pod %s: %w", task.Name, err)
		}
	}
	return nil
}

// classOf returns a key for the properties of the task that decide which nodes can take it: its role, its requests, its
// rules about nodes and other pods, its volumes and its claims.
func classOf(task *api.TaskInfo) (string, error) {
	spec := task.Pod.Spec
	rules, err := json.Marshal([]any{spec.NodeSelector, spec.Affinity, spec.Tolerations, spec.TopologySpreadConstraints, spec.Volumes, spec.ResourceClaims})
	if err != nil {
		return "", fmt.Errorf("pod %s: %w", task.Name, err)
	}
	return fmt.Sprint(task.TaskRole, task.InitResreq, string(rules)), nil
}

// mayHelp reports whether a member might fit on the node once the node is drained. The check is cheaper than fill,
// which simulates the drain.
func (t *trial) mayHelp(node *api.NodeInfo) bool {
	for _, task := range t.first {
		if t.late() {
			return false
		}
		if task.InitResreq.LessEqual(node.Allocatable, api.Zero) && t.ssn.PredicateForPreemptAction(task, node) == nil {
			return true
		}
	}
	return false
}

// fill simulates in the statement that the node is drained, and places members on the node. It reports whether at
// least one member was placed.
func (t *trial) fill(statement *vcframework.Statement, node *api.NodeInfo) (some bool) {
	before := len(t.deleted)
	for _, task := range toLeave(t.ssn.Jobs, node) {
		job := framework.ChargedTo(t.ssn.Jobs, task)
		switch {
		case job == nil, job.UID != task.Job: // the pod is being deleted and needs no eviction, but plugins that limit queues may still count its resources
			t.deleted = append(t.deleted, task)
		case job.Tasks[task.UID].Status == api.Running:
			if err := statement.Evict(job.Tasks[task.UID], "trial"); err != nil {
				return false
			}
		}
	}
	ask := t.ssn.QueueUse.Ask(t.ssn.Queues[t.reserved.queue], t.deleted)
	var rest []*api.TaskInfo
	refused := map[string]bool{}
	for _, task := range t.members {
		class := t.classes[task.UID]
		if refused[class] || t.late() || !t.takes(statement, node, task, ask) {
			refused[class] = true
			rest = append(rest, task)
		}
	}
	some = len(rest) < len(t.members)
	t.members = rest
	if !some {
		t.deleted = t.deleted[:before]
	}
	return some
}

// takes tries to place the member on the node, and reports whether the member was placed.
func (t *trial) takes(statement *vcframework.Statement, node *api.NodeInfo, task *api.TaskInfo, ask *framework.QueueAsk) bool {
	if !task.InitResreq.LessEqual(node.FutureIdle(), api.Zero) {
		return false
	}
	if !t.ssn.QueueUse.Admits(ask.With(task)) {
		t.queueRefused = true
		return false
	}
	if t.ssn.PrePredicateFn(task) != nil || t.ssn.PredicateFn(task, node) != nil {
		return false
	}
	if err := statement.Pipeline(task, node.Name, false); err != nil {
		_ = statement.UnPipeline(task) // upstream logs the error
		return false
	}
	return true
}

// toLeave returns the tasks that must end before a gang can use the whole node: tasks of gangs, and all tasks that
// are being deleted. Pods of DaemonSets and static pods are not included.
func toLeave(jobs map[api.JobID]*api.JobInfo, node *api.NodeInfo) (tasks []*api.TaskInfo) {
	for _, task := range node.Tasks {
		if (jobs[task.Job] != nil || task.Pod.DeletionTimestamp != nil) && !framework.OfDaemonSet(task) {
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(l, r *api.TaskInfo) int { return cmp.Compare(l.UID, r.UID) })
	return tasks
}

// healthy reports whether pods may be placed on the node.
func healthy(node *api.NodeInfo) bool {
	return node.Node != nil && node.Ready() && !node.Node.Spec.Unschedulable
}

// occupancyOf returns how full the node is, from 0 to 1: the largest used fraction of a resource in request.
func occupancyOf(node *api.NodeInfo, request *api.Resource) (most float64) {
	for _, name := range request.ResourceNames() {
		if all := node.Allocatable.Get(name); all > 0 {
			most = max(most, node.Used.Get(name)/all)
		}
	}
	return most
}

// needed returns as many pending members as the gang's minimum needs, the largest members first. If the minimum has
// roles or sub-groups, it returns all pending members. Members with scheduling gates are left out.
func needed(job *api.JobInfo) []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			tasks = append(tasks, task)
		}
	}
	slices.SortFunc(tasks, func(l, r *api.TaskInfo) int {
		return cmp.Or(compareSizes(r.Resreq, l.Resreq), cmp.Compare(l.UID, r.UID))
	})
	if len(job.TaskMinAvailable) == 0 && !job.ContainsSubJobPolicy() {
		tasks = tasks[:min(len(tasks), max(int(job.MinAvailable), 1))]
	}
	return tasks
}

// compareSizes compares two requests by number of devices, then by CPU, then by memory.
func compareSizes(l, r *api.Resource) int {
	devices := func(res *api.Resource) (sum float64) {
		for _, v := range res.ScalarResources {
			sum += v
		}
		return sum
	}
	return cmp.Or(cmp.Compare(devices(l), devices(r)), cmp.Compare(l.MilliCPU, r.MilliCPU), cmp.Compare(l.Memory, r.Memory))
}

// requestOf returns the sum of the requests of the pending members that the gang's minimum needs.
func requestOf(job *api.JobInfo) *api.Resource {
	request := api.EmptyResource()
	for _, task := range needed(job) {
		request.Add(task.InitResreq)
	}
	return request
}

// exceeds returns a resource of which the gang's minResources ask for more than the request; empty if there is none.
func (m *reservationManager) exceeds(job *api.JobInfo, request *api.Resource) v1.ResourceName {
	asked := job.GetMinResources()
	for _, name := range m.ssn.TotalResource.ResourceNames() {
		if asked.Get(name) > request.Get(name) {
			return name
		}
	}
	return ""
}

// asksOtherwise reports whether the gang needs other resources than those for which its nodes were reserved.
func (m *reservationManager) asksOtherwise(r *reservation, job *api.JobInfo) bool {
	return r.demand != demandOf(job) || m.exceeds(job, r.request) != ""
}

// demandOf returns a fingerprint of the resources that the gang's minimum needs. When the fingerprint changes, the
// reserved nodes may no longer be enough. It does not contain minResources, which sessions limit for admitted gangs only.
func demandOf(job *api.JobInfo) string {
	return fmt.Sprint(job.MinAvailable, len(needed(job)), requestOf(job))
}

// priorityOf returns the lowest priority of the gang's pending pods. It does not use the PodGroup's priority: a
// tenant may name any priority class in a PodGroup, but only permitted ones in pods.
func priorityOf(job *api.JobInfo) int32 {
	lowest, known := int32(0), false
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if of := podPriority(task); !known || of < lowest {
			lowest, known = of, true
		}
	}
	return lowest
}

func podPriority(task *api.TaskInfo) int32 {
	if task.Pod.Spec.Priority == nil {
		return 0
	}
	return *task.Pod.Spec.Priority
}
