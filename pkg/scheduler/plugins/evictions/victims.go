// SPDX-License-Identifier: Apache-2.0

package evictions

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

// perRank is how much worse a node is than one that costs less, in scores. All other scores of a node together are less.
const perRank = 1e6

// victims has preempt and reclaim take as little as they can. Upstream evicts the tasks of a node from the lowest up until there is room,
// also those whose going is then seen not to have been needed; and preempt looks at nodes by their scores, whatever must go there.
//
// Topology-aware preemption does both in its own way and is left alone.
type victims struct {
	ssn *framework.Session
	// asking is true while the other plugins are asked whom they allow to be evicted.
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

// preemptable is those of the tasks that all plugins allow and that must go; reclaimable likewise.
func (v *victims) preemptable(preemptor *api.TaskInfo, tasks []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return v.needed(preemptor, tasks, v.ssn.Preemptable)
}

func (v *victims) reclaimable(preemptor *api.TaskInfo, tasks []*api.TaskInfo) ([]*api.TaskInfo, int) {
	return v.needed(preemptor, tasks, v.ssn.Reclaimable)
}

func (v *victims) needed(preemptor *api.TaskInfo, tasks []*api.TaskInfo, allowed func(*api.TaskInfo, []*api.TaskInfo) []*api.TaskInfo) ([]*api.TaskInfo, int) {
	if v.asking {
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

// room is what there is on the candidates' node without them; nil if that does not say who must go: the preemptor's queue is
// full, so that some must go for its sake, or it fits as it is.
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

// without puts the candidates back into the room one after another, for as long as the preemptor fits there, and returns those
// that are not put back.
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

// cost is what a preemption costs on a node: how many tasks must go, and the highest of their gangs' priorities.
type cost struct {
	victims int
	highest int32
}

// order scores the nodes for a preemptor: those that cost least first. What plugins other than priority say of the victims is not
// asked for, as it would be for all nodes and each preemptor; where they forbid one, preempt goes on to the next node.
func (v *victims) order(preemptor *api.TaskInfo, nodes []*api.NodeInfo) (map[string]float64, error) {
	job := v.ssn.Jobs[preemptor.Job]
	if v.ssn.Action != preempt || job == nil {
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

// cost is what the preemption costs on the node, were priorities all that counts.
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
