// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"math"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"
	vcutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// evaluator evaluates single nodes for single tasks: it calls the plugins, and checks what plugins do not see. It caches nothing
// but the last answers of plugins with network calls.
type evaluator struct {
	ssn   *framework.Session
	index *nodeset.Index
	// prePredicates are the plugins, in tiers, whose pre-predicates are called.
	prePredicates []conf.Tier
	checks        checks
	reasons       reasonPicker
	// antiAffinity is the anti-affinity of the pods placed in the session.
	antiAffinity *sessionAntiAffinity
	overNetwork  networkRefusals
}

func newEvaluator(ssn *framework.Session, index *nodeset.Index) *evaluator {
	checks := newChecks(ssn)
	return &evaluator{
		ssn:   ssn,
		index: index,
		// The pre-predicates of these two plugins of upstream copy every queue, and only the simulations of preempt and reclaim use
		// the copies. These actions call the pre-predicates themselves.
		prePredicates: ssn.Signers.TiersWithout(ssn.Tiers, proportion.PluginName, capacity.PluginName),
		checks:        checks,
		reasons:       reasonPicker{checks: checks},
		antiAffinity:  newSessionAntiAffinity(ssn),
	}
}

// prePredicate runs the plugins' pre-predicates, except slow ones that only prepare for preemption.
func (e *evaluator) prePredicate(task *api.TaskInfo) (err error) {
	upstream.ForgetSkips(e.ssn.Session, task)
	e.ssn.WithTiers(e.prePredicates, func() { err = e.ssn.PrePredicateFn(task) })
	return err
}

// predicate calls the predicates of the plugins in layer, as upstream's allocate does. A layer has the plugins whose
// results are cached for equally long.
func (e *evaluator) predicate(layer []conf.Tier, task *api.TaskInfo, node *api.NodeInfo) error {
	if len(layer) == 0 {
		return nil
	}
	all := e.ssn.Tiers
	e.ssn.Tiers = layer
	defer func() { e.ssn.Tiers = all }()
	return e.reasons.oneFilterResult(task, node, e.ssn.PredicateForAllocateAction(task, node))
}

// nodeScore returns the sum of the scores that the plugins in layer give to the node without comparing it with other
// nodes. The score of a plugin that fails counts as 0, and the error is logged.
func (e *evaluator) nodeScore(layer []conf.Tier, task *api.TaskInfo, node *api.NodeInfo) (score float64) {
	if len(layer) == 0 {
		return 0
	}
	e.ssn.WithTiers(layer, func() {
		var err error
		if score, err = e.ssn.NodeOrderFn(task, node); err != nil {
			klog.ErrorS(err, "Scoring a node failed, using score 0", "pod", klog.KObj(task.Pod), "node", node.Name)
			score = 0
		}
	})
	return score
}

// addScoresTogether adds to total, by node name, the scores of the plugins in layer that score several nodes in one call.
func (e *evaluator) addScoresTogether(layer []conf.Tier, task *api.TaskInfo, nodes []*api.NodeInfo, total map[string]float64) {
	if len(layer) == 0 {
		return
	}
	e.ssn.WithTiers(layer, func() {
		scores, err := e.ssn.BatchNodeOrderFn(task, nodes)
		if err != nil {
			klog.ErrorS(err, "Scoring nodes together failed, using score 0", "pod", klog.KObj(task.Pod))
			return
		}
		for _, node := range nodes {
			if score := scores[node.Name]; score != 0 {
				total[node.Name] += score
			}
		}
	})
}

// otherShard reports whether the node is outside of this scheduler's shard, in upstream's sharding mode "hard".
func (e *evaluator) otherShard(node *api.NodeInfo) bool {
	return options.ServerOpts.ShardingMode == vcutil.HardShardingMode && !e.ssn.NodesInShard.Has(node.Name)
}

// roomClassOf returns whether the task fits the node's idle resources or only those being released, and whether the node
// is in the scheduler's shard. The task must fit one of the two.
func (e *evaluator) roomClassOf(task *api.TaskInfo, node *api.NodeInfo) roomClass {
	class := futureInShard
	if task.InitResreq.LessEqual(node.Idle, api.Zero) {
		class = idleInShard
	}
	if options.ServerOpts.ShardingMode == vcutil.SoftShardingMode && !e.ssn.NodesInShard.Has(node.Name) {
		class++
	}
	return class
}

// copies returns how many times the request fits into the node's idle resources, by arithmetic.
func (e *evaluator) copies(request *api.Resource, node *api.NodeInfo) int32 {
	if !request.LessEqual(node.Idle, api.Zero) {
		return 0
	}
	return int32(max(CopiesIn(request, node.Idle, e.podSlots(node)), 1))
}

// CopiesIn returns how many times the request fits into the free resources, but not more than the parameter most.
func CopiesIn(request, free *api.Resource, most int) int {
	n := float64(most)
	bound := func(request, free float64) {
		if request > 0 {
			n = min(n, math.Floor((free+0.5)/request))
		}
	}
	bound(request.MilliCPU, free.MilliCPU)
	bound(request.Memory, free.Memory)
	for name, value := range request.ScalarResources {
		bound(value, free.ScalarResources[name])
	}
	return int(max(n, 0))
}

// podSlots returns how many more pods the node takes. As in the predicates plugin's check of the number of pods, pods
// that were evicted in the session do not count, although the node's tasks still include them.
func (e *evaluator) podSlots(node *api.NodeInfo) int {
	if !e.checks.podSlots {
		return math.MaxInt32
	}
	return node.Allocatable.MaxTaskNum - len(e.ssn.NodeMap[node.Name].GetPods())
}
