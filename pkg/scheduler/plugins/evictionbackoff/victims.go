// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"cmp"
	"maps"
	"math"
	"slices"

	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// perRank is the difference in score between two nodes whose costs of preemption (number and priority of victims) are
// neighbors in the order of costs. It exceeds the sum of all other scores of a node, so that the cost decides.
const perRank = 1e6

// victims makes preempt and reclaim evict as few pods as possible. Upstream evicts tasks of a node, from the lowest
// priority up, until the preemptor fits. These may include tasks that turn out not to be needed. Upstream's preempt
// also tries nodes in the order of their scores, regardless of how many pods must be evicted on each node.
//
// Upstream's topology-aware preemption chooses victims and nodes by itself, and so does this project's preempt
// for whole gangs (Placements.Preemptor). This plugin does not change them.
type victims struct {
	ssn *framework.Session
	// asking is set while this plugin asks the session which victims the plugins allow. The session then calls this
	// plugin, too, which abstains to end the recursion.
	asking bool
}

func (v *victims) register() {
	v.ssn.AddReclaimableFn(Name, v.reclaimable)
	topologyAware := false
	vcframework.GetArgOfActionFromConf(v.ssn.Configurations, preempt).GetBool(&topologyAware, vcpreempt.EnableTopologyAwarePreemptionKey)
	if !topologyAware {
		v.ssn.AddPreemptableFn(Name, v.preemptable)
		v.ssn.AddEvictionNodeOrderFn(Name, v.order)
	}
}

// preemptable asks the plugins which of the given tasks preempt may evict, and returns only those whose eviction the
// preemptor needs to fit. reclaimable does the same for reclaim.
func (v *victims) preemptable(preemptor *api.TaskInfo, tasks []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return v.needed(preemptor, tasks, v.ssn.Preemptable)
}

func (v *victims) reclaimable(preemptor *api.TaskInfo, tasks []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return v.needed(preemptor, tasks, v.ssn.Reclaimable)
}

func (v *victims) needed(preemptor *api.TaskInfo, tasks []*api.TaskInfo, allowed func(*api.TaskInfo, []*api.TaskInfo) []*api.TaskInfo) ([]*api.TaskInfo, int) {
	if v.asking || v.ssn.Placements.Preemptor != "" {
		return nil, util.Abstain
	}
	v.asking = true
	defer func() { v.asking = false }()
	candidates := allowed(preemptor, tasks)
	room := v.room(preemptor, candidates)
	if room == nil {
		return nil, util.Abstain
	}
	queue := v.ssn.BuildVictimsPriorityQueue(candidates, preemptor)
	var lowestFirst []*api.TaskInfo
	for !queue.Empty() {
		lowestFirst = append(lowestFirst, queue.Pop().(*api.TaskInfo))
	}
	slices.Reverse(lowestFirst)
	return without(lowestFirst, room, preemptor), util.Permit
}

// room returns the resources that the candidates' node would have free if all candidates were evicted. It returns nil
// if free resources do not decide which candidates must be evicted. For example, the preemptor already fits on the
// node, or the action is preempt and the queue is full.
func (v *victims) room(preemptor *api.TaskInfo, candidates []*api.TaskInfo) *api.Resource {
	job := v.ssn.Jobs[preemptor.Job]
	if len(candidates) == 0 || job == nil || v.ssn.Queues[job.Queue] == nil {
		return nil
	}
	node := v.ssn.Nodes[candidates[0].NodeName]
	if node == nil || slices.ContainsFunc(candidates, func(c *api.TaskInfo) bool { return c.NodeName != node.Name }) {
		return nil
	}
	if v.ssn.Action == preempt && !v.ssn.Allocatable(v.ssn.Queues[job.Queue], preemptor) {
		return nil
	}
	room := node.FutureIdle()
	if fits(preemptor, room) {
		return nil
	}
	for _, candidate := range candidates {
		room.Add(candidate.Resreq)
	}
	return room
}

// without returns the candidates that must be evicted. room is the free resources of the node if all candidates are
// evicted. A candidate is not evicted if the preemptor fits on the node beside it and beside the earlier candidates
// that are not evicted.
func without(candidates []*api.TaskInfo, room *api.Resource, preemptor *api.TaskInfo) []*api.TaskInfo {
	var out []*api.TaskInfo
	for _, candidate := range candidates {
		if candidate.Resreq.LessEqual(room, api.Zero) {
			if fits(preemptor, room.Sub(candidate.Resreq)) {
				continue
			}
			room.Add(candidate.Resreq)
		}
		out = append(out, candidate)
	}
	return out
}

func fits(preemptor *api.TaskInfo, room *api.Resource) bool {
	return preemptor.InitResreq.LessEqual(room, api.Zero)
}

// cost is the cost of preemption on a node: the number of victims, and the highest priority of the victims' gangs.
type cost struct {
	victims int
	highest int32
}

// order scores the nodes for a preemptor: the node with the lowest cost gets the highest score. It only compares
// priorities. It does not ask plugins which victims they allow, because it would have to call each plugin for each
// preemptor on all nodes. If a plugin forbids a victim, preempt continues with the next node.
func (v *victims) order(preemptor *api.TaskInfo, nodes []*api.NodeInfo) (map[string]float64, error) {
	job := v.ssn.Jobs[preemptor.Job]
	if v.ssn.Action != preempt {
		return nil, nil
	}
	costs := make(map[string]cost, len(nodes))
	ranks := map[cost]int{}
	for _, node := range nodes {
		c := v.cost(preemptor, job, node)
		costs[node.Name] = c
		ranks[c] = 0
	}
	cheapestFirst := slices.SortedFunc(maps.Keys(ranks), func(l, r cost) int {
		return cmp.Or(cmp.Compare(l.victims, r.victims), cmp.Compare(l.highest, r.highest))
	})
	for rank, c := range cheapestFirst {
		ranks[c] = rank
	}
	scores := make(map[string]float64, len(nodes))
	for name, c := range costs {
		scores[name] = -perRank * float64(ranks[c])
	}
	return scores, nil
}

// cost returns the cost of preemption on the node. All tasks there of lower-priority gangs in the job's queue are
// possible victims.
func (v *victims) cost(preemptor *api.TaskInfo, job *api.JobInfo, node *api.NodeInfo) cost {
	room := node.FutureIdle()
	if fits(preemptor, room) {
		return cost{}
	}
	var lower []*api.TaskInfo
	for _, task := range node.Tasks {
		if of := v.ssn.Jobs[task.Job]; task.Preemptable && api.PreemptableStatus(task.Status) && of != nil && of.Queue == job.Queue && of.Priority < job.Priority {
			lower = append(lower, task)
			room.Add(task.Resreq)
		}
	}
	if !fits(preemptor, room) {
		return cost{victims: math.MaxInt}
	}
	priority := func(task *api.TaskInfo) int32 { return v.ssn.Jobs[task.Job].Priority }
	slices.SortFunc(lower, func(l, r *api.TaskInfo) int {
		return cmp.Or(cmp.Compare(priority(r), priority(l)), cmp.Compare(l.UID, r.UID))
	})
	out := without(lower, room, preemptor)
	return cost{victims: len(out), highest: priority(out[0])}
}
