// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"context"

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

// uncachedFilterResults calls the uncached plugins for nodes, in the order of places, and returns their filter results,
// nil for accepted nodes. places are the nodes' indexes in the set's Nodes. If plugins make network calls, it stops
// when it has found as many feasible nodes as upstream looks for in a set of this size. It then returns no results for
// the other nodes.
func (f *Finder) uncachedFilterResults(task *api.TaskInfo, n *CandidateNodes, places []int32) []error {
	out := make([]error, 0, len(places))
	if !n.cache.layers.overNetwork {
		for _, place := range places {
			out = append(out, f.uncachedFilterResult(task, n.cache, n.set.Nodes[place]))
		}
		return out
	}
	f.overNetwork = networkRefusals{task: task, refused: map[int32]error{}}
	enough := int(util.CalculateNumOfFeasibleNodesToFind(int32(len(n.set.Nodes))))
	for fit := 0; fit < enough && len(out) < len(places); {
		next := places[len(out):min(len(out)+networkCalls, len(places))]
		for i, err := range f.askConcurrently(task, n, next) {
			if err == nil {
				fit++
			} else {
				f.overNetwork.refused[n.set.Nodes[next[i]]] = err
			}
			if out = append(out, err); fit == enough {
				break
			}
		}
	}
	return out
}

// askConcurrently calls the uncached plugins for several nodes concurrently, as upstream does with all predicates.
// places are the nodes' indexes in the set's Nodes.
func (f *Finder) askConcurrently(task *api.TaskInfo, n *CandidateNodes, places []int32) []error {
	errs := make([]error, len(places))
	for i, place := range places {
		errs[i] = f.antiAffinity.filterResult(task, f.index.Nodes[n.set.Nodes[place]])
	}
	f.ssn.WithTiers(n.cache.layers.uncached, func() {
		workqueue.ParallelizeUntil(context.Background(), len(places), len(places), func(i int) {
			if errs[i] == nil {
				errs[i] = f.ssn.PredicateForAllocateAction(task, f.index.Nodes[n.set.Nodes[places[i]]])
			}
		})
	})
	return errs
}

// bestByScore returns the node with the highest score: the cached score plus the scores of uncached plugins. Ties go to
// the first node by name. A plugin with a BestNodeFn may choose another of these nodes. Nodes are given by their
// indexes in the set's Nodes.
func (f *Finder) bestByScore(task *api.TaskInfo, n *CandidateNodes, places []int32) int32 {
	if len(places) == 1 {
		return places[0]
	}
	total := make([]float64, len(places))
	for i, place := range places {
		total[i] = n.ranking.rank[place].score
	}
	if uncached := n.cache.layers.uncached; len(uncached) > 0 {
		nodes := make([]*api.NodeInfo, len(places))
		for i, place := range places {
			nodes[i] = f.index.Nodes[n.set.Nodes[place]]
		}
		f.ssn.WithTiers(uncached, func() { f.addScores(task, nodes, total) })
		for i := range total {
			total[i] = steady(total[i])
		}
	}
	if place := f.pluginsChoice(task, n, places, total); place >= 0 {
		return place
	}
	best := 0
	for i := range places {
		if total[i] > total[best] {
			best = i
		}
	}
	return places[best]
}

// addScores adds to total, for each node, the scores of the plugins in the session's current tiers. A plugin may score
// single nodes, normalize its scores over all nodes, or score all nodes in one call.
func (f *Finder) addScores(task *api.TaskInfo, nodes []*api.NodeInfo, total []float64) {
	mapped := map[string]k8sframework.NodeScoreList{}
	for i, node := range nodes {
		byPlugin, score, err := f.ssn.NodeOrderMapFn(task, node)
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
		func() (map[string]float64, error) { return f.ssn.NodeOrderReduceFn(task, mapped) },
		func() (map[string]float64, error) { return f.ssn.BatchNodeOrderFn(task, nodes) },
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

// pluginsChoice returns the node that a plugin with a BestNodeFn chooses among the scored nodes; -1 if none chooses.
// Nodes are given by their indexes in the set's Nodes.
func (f *Finder) pluginsChoice(task *api.TaskInfo, n *CandidateNodes, places []int32, total []float64) int32 {
	byScore := map[float64][]*api.NodeInfo{}
	for i, place := range places {
		byScore[total[i]] = append(byScore[total[i]], f.index.Nodes[n.set.Nodes[place]])
	}
	node := f.ssn.BestNodeFn(task, byScore)
	if node == nil {
		return -1
	}
	number, ok := f.index.In(n.set, node.Name)
	if !ok {
		return -1
	}
	place, _ := n.set.Place(number)
	return place
}
