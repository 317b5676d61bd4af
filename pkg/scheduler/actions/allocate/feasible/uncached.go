// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"context"
	"math"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// networkCalls bounds the concurrent calls of uncached plugins for one task. It equals upstream's number of predicate
// workers.
const networkCalls = 16

// networkRefusals are the nodes that plugins with network calls refused for a task when they were last called, so that
// explanations need not repeat the calls.
type networkRefusals struct {
	task    *api.TaskInfo
	refused map[int32]error
}

// uncachedFilterResult returns the filter result for the task itself on a node that the cached filter results accept.
// It checks the anti-affinity of pods placed in the session, and calls the uncached plugins. layers are those of the task.
func (e *evaluator) uncachedFilterResult(task *api.TaskInfo, layers *layers, node int32) error {
	if err := e.antiAffinity.filterResult(task, e.index.Nodes[node]); err != nil {
		return err
	}
	return e.predicate(layers.uncached, task, e.index.Nodes[node])
}

// uncachedFilterResults calls the uncached plugins for the nodes, in this order, and returns their filter results, nil for
// accepted nodes. If plugins make network calls, it stops when it has found as many feasible nodes as upstream looks for
// among the given number of nodes (among). It then returns no results for the other nodes.
func (e *evaluator) uncachedFilterResults(task *api.TaskInfo, layers *layers, nodes []int32, among int) []error {
	out := make([]error, 0, len(nodes))
	if !layers.overNetwork {
		for _, node := range nodes {
			out = append(out, e.uncachedFilterResult(task, layers, node))
		}
		return out
	}
	e.overNetwork = networkRefusals{task: task, refused: map[int32]error{}}
	enough := int(util.CalculateNumOfFeasibleNodesToFind(int32(among)))
	for fit := 0; fit < enough && len(out) < len(nodes); {
		next := nodes[len(out):min(len(out)+networkCalls, len(nodes))]
		for i, err := range e.askConcurrently(task, layers, next) {
			if err == nil {
				fit++
			} else {
				e.overNetwork.refused[next[i]] = err
			}
			if out = append(out, err); fit == enough {
				break
			}
		}
	}
	return out
}

// askConcurrently calls the uncached plugins for several nodes concurrently, as upstream does with all predicates.
func (e *evaluator) askConcurrently(task *api.TaskInfo, layers *layers, nodes []int32) []error {
	errs := make([]error, len(nodes))
	for i, node := range nodes {
		errs[i] = e.antiAffinity.filterResult(task, e.index.Nodes[node])
	}
	e.ssn.WithTiers(layers.uncached, func() {
		workqueue.ParallelizeUntil(context.Background(), len(nodes), len(nodes), func(i int) {
			if errs[i] == nil {
				errs[i] = e.ssn.PredicateForAllocateAction(task, e.index.Nodes[nodes[i]])
			}
		})
	})
	return errs
}

// latestFilterResult returns what uncachedFilterResult returns. If the task's uncached plugins make network calls and
// were called for this task last, it returns their results of then: nil for nodes that they were not called for.
func (e *evaluator) latestFilterResult(task *api.TaskInfo, layers *layers, node int32) error {
	if layers.overNetwork && e.overNetwork.task == task {
		return e.overNetwork.refused[node]
	}
	return e.uncachedFilterResult(task, layers, node)
}

// addUncachedScores adds to total, for each node, the scores of the uncached plugins.
func (e *evaluator) addUncachedScores(task *api.TaskInfo, layers *layers, nodes []*api.NodeInfo, total []float64) {
	if len(layers.uncached) == 0 {
		return
	}
	e.ssn.WithTiers(layers.uncached, func() { e.addScores(task, nodes, total) })
	for i := range total {
		total[i] = steady(total[i])
	}
}

// addScores adds to total, for each node, the scores of the plugins in the session's current tiers. A plugin may score
// single nodes, normalize its scores over all nodes, or score all nodes in one call.
func (e *evaluator) addScores(task *api.TaskInfo, nodes []*api.NodeInfo, total []float64) {
	mapped := map[string]k8sframework.NodeScoreList{}
	for i, node := range nodes {
		byPlugin, score, err := e.ssn.NodeOrderMapFn(task, node)
		if err != nil {
			klog.ErrorS(err, "Scoring a node failed, using score 0", "pod", klog.KObj(task.Pod), "node", node.Name)
			continue
		}
		total[i] += score
		for plugin, score := range byPlugin {
			mapped[plugin] = append(mapped[plugin], k8sframework.NodeScore{Name: node.Name, Score: int64(score)})
		}
	}
	for _, ask := range []func() (map[string]float64, error){
		func() (map[string]float64, error) { return e.ssn.NodeOrderReduceFn(task, mapped) },
		func() (map[string]float64, error) { return e.ssn.BatchNodeOrderFn(task, nodes) },
	} {
		scores, err := ask()
		if err != nil {
			klog.ErrorS(err, "Scoring nodes together failed, using score 0", "pod", klog.KObj(task.Pod))
			continue
		}
		for i, node := range nodes {
			total[i] += scores[node.Name]
		}
	}
}

// steady rounds a sum of scores to the sixth decimal. Upstream adds the scores of plugins in the order of a map, and
// cached scores are added in another order than new scores. Without rounding, ties would be broken by the last bit of a
// float.
func steady(score float64) float64 { return math.Round(score*1e6) / 1e6 }
