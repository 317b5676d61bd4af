// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// errOtherShard is the filter result for nodes outside of this scheduler's shard, in upstream's sharding mode "hard".
var errOtherShard = errors.New("node(s) outside of this scheduler's NodeShard")

// CandidateNodes are the nodes of a set that take a task of a class by the filter results of cached plugins, best
// first. Uncached plugins are called later, and may still refuse a node.
type CandidateNodes struct {
	evaluator *evaluator
	results   *ClassResults
	set       *nodeset.Set
	perJob    perJobPlugins
	looks     looks
	// ranking has the nodes that fit. A node is given by its place: its index in set.Nodes.
	ranking  rankHeap
	together scoresTogether
	keptAway keptAway
	// state is the number of changes of nodes (nodeset.Index.State) that were processed so far.
	state int
	// errors are the filter results on all nodes of the set if none fits. errorsState is the value of the field state
	// when errors was made.
	errors      *api.FitErrors
	errorsState int
}

// scoresTogether are scores of plugins that score several nodes in one call.
type scoresTogether struct {
	// scores are the sums of these plugins' scores, by node name.
	scores map[string]float64
	// scored marks the nodes that were in such a call, by their index in the set's Nodes. newcomer reports whether a node
	// that scored does not mark has become feasible, because tasks of a trial were taken back from it.
	scored   []bool
	newcomer bool
}

// newCandidateNodes returns the candidates of the class in the set, with no node checked so far. wanted is how many feasible nodes
// are to be found.
func newCandidateNodes(results *ClassResults, set *nodeset.Set, perJob perJobPlugins, wanted int) *CandidateNodes {
	nodes := len(set.Nodes)
	return &CandidateNodes{
		evaluator: results.evaluator, results: results, set: set, perJob: perJob, looks: newLooks(nodes, wanted), ranking: newRankHeap(nodes),
		together: scoresTogether{scored: make([]bool, nodes)}, state: results.evaluator.index.State(), errorsState: -1,
	}
}

// update brings the candidates up to date with the changes of nodes since the last call of update.
func (n *CandidateNodes) update() {
	for node := range n.keptAway.expire(n.evaluator.antiAffinity.removals) {
		place, _ := n.set.Place(node)
		n.updatePlace(place)
	}
	changed := n.evaluator.index.Changed(n.state)
	n.state = n.evaluator.index.State()
	for _, node := range changed {
		if place, ok := n.set.Place(node); ok && n.looks.looked[place] {
			n.updatePlace(place)
		}
	}
	if n.together.newcomer {
		n.rescoreTogether()
	}
	if !n.looks.all() && n.ranking.Len() < n.looks.wanted {
		n.lookFurther()
	}
}

// lookEverywhere checks all nodes of the set. It reports whether some of them had not been checked before.
func (n *CandidateNodes) lookEverywhere() bool {
	if n.looks.all() {
		return false
	}
	n.looks.wanted = len(n.set.Nodes)
	n.lookFurther()
	return true
}

// lookFurther checks further nodes of the set until as many feasible nodes are known as wanted.
func (n *CandidateNodes) lookFurther() {
	var fresh []*api.NodeInfo
	var places []int32
	for fits := n.ranking.Len(); !n.looks.all() && fits < n.looks.wanted; {
		place := n.looks.next()
		places = append(places, place)
		if node := n.set.Nodes[place]; n.filterResult(node) == nil {
			fits++
			fresh = append(fresh, n.evaluator.index.Nodes[node])
		}
	}
	if len(fresh) == 0 {
		return
	}
	n.scoreTogether(fresh)
	for _, place := range places {
		n.updatePlace(place)
	}
}

// updatePlace updates the ranking for one node: the node gets its current position, or is removed if it is refused.
// place is the node's index in set.Nodes.
func (n *CandidateNodes) updatePlace(place int32) {
	node := n.set.Nodes[place]
	if n.filterResult(node) != nil {
		n.ranking.drop(place)
		return
	}
	n.together.newcomer = n.together.newcomer || !n.together.scored[place] && !n.nothingCached()
	n.ranking.set(place, rank{class: n.roomClass(node), score: n.score(node)})
}

// nothingCached reports whether the conf disables caching, so that all plugins are uncached.
func (n *CandidateNodes) nothingCached() bool { return n.results.layers.nothingCached }

func (n *CandidateNodes) roomClass(node int32) roomClass {
	return n.evaluator.roomClassOf(n.results.task, n.evaluator.index.Nodes[node])
}

// filterResult returns why cached plugins, or anti-affinity that excludes the whole class, refuse the node; nil if the
// node is accepted.
func (n *CandidateNodes) filterResult(node int32) error {
	if err := n.cachedFilterResult(node); err != nil {
		return err
	}
	return n.keptAway.results[node]
}

// cachedFilterResult returns the filter result of the cached plugins on the node.
func (n *CandidateNodes) cachedFilterResult(node int32) error {
	info := n.evaluator.index.Nodes[node]
	if n.evaluator.otherShard(info) {
		return errOtherShard
	}
	if v := n.results.FilterResult(node); v.err != nil {
		return v.err
	}
	if n.nothingCached() {
		return nil
	}
	if err := n.results.refusedForGood[node]; err != nil {
		return err
	}
	return n.perJob.filterResult(n.evaluator, info)
}

// best returns the index in set.Nodes of the best node. At least one node must fit.
func (n *CandidateNodes) best() int32 { return n.ranking.places[0] }

// Full reports whether no node takes a task of the class by cached filter results. With idleOnly, only idle resources
// count. If Full returns true, uncached plugins need not be called for further tasks of the class. Full also returns
// the filter results; nil if some nodes will take a task once resources are released.
func (n *CandidateNodes) Full(idleOnly bool) (bool, *api.FitErrors) {
	room := func() bool { return n.ranking.Len() > 0 && (!idleOnly || n.ranking.rank[n.best()].class.idle()) }
	if !room() {
		n.lookEverywhere()
	}
	switch {
	case n.ranking.Len() == 0:
		return true, n.fitErrors()
	case !room():
		return true, nil
	default:
		return false, nil
	}
}

// The method holds reports whether, by cached filter results, a task of the class may be placed on a node. place is the
// node's index in set.Nodes. With idleOnly, only idle resources count.
func (n *CandidateNodes) holds(place int32, idleOnly bool) bool {
	return n.ranking.has(place) && (!idleOnly || n.ranking.rank[place].class.idle())
}

// Packs reports whether a packing plan may put a task of the class on a node, by cached filter results. place is the
// node's index in set.Nodes. Anti-affinity that currently excludes the node (keptAway) is ignored, because the plan may
// put other members on other nodes.
func (n *CandidateNodes) Packs(place int, idleOnly bool) bool {
	n.lookEverywhere()
	node := n.set.Nodes[place]
	if n.keptAway.results[node] != nil {
		return n.cachedFilterResult(node) == nil && (!idleOnly || n.roomClass(node).idle())
	}
	if !n.holds(int32(place), idleOnly) {
		return false
	}
	if !n.nothingCached() {
		return true // nodes that cached plugins refuse are not in the ranking
	}
	info := n.evaluator.index.Nodes[node]
	return n.results.refusedForGood[node] == nil && n.evaluator.predicate(n.results.layers.cached, n.results.task, info) == nil &&
		n.perJob.filterResult(n.evaluator, info) == nil
}

// Admits reports whether the uncached plugins, too, accept a node for the task. place is the node's index in set.Nodes.
// The task's pre-predicate must have run. If one of these plugins makes network calls, no plugin is called, and the
// node counts as accepted.
func (n *CandidateNodes) Admits(task *api.TaskInfo, place int) bool {
	layers := n.results.layers
	if !layers.oneByOne || !layers.uncachedFilterResults || layers.overNetwork {
		return true
	}
	err := n.evaluator.uncachedFilterResult(task, layers, n.set.Nodes[place])
	if err != nil {
		n.takeOut(map[int32]error{n.set.Nodes[place]: err})
	}
	return err == nil
}

// takeOut removes from the candidates the nodes that an uncached plugin refuses to all tasks of the class, so that the
// plugin is not called again for each task. A node that anti-affinity excludes is removed until a task is taken back. A
// node whose labels or taints exclude the class, or that is cordoned, is removed permanently. refused are the nodes
// that uncached plugins refused for one task, with the filter result.
func (n *CandidateNodes) takeOut(refused map[int32]error) {
	for node, err := range refused {
		switch {
		case forGood(err):
			n.results.refusedForGood[node] = err
		case hasAntiAffinity(err) && !n.nothingCached():
			n.keptAway.add(node, err, n.evaluator.antiAffinity.removals)
		default:
			continue
		}
		place, _ := n.set.Place(node)
		n.updatePlace(place)
	}
}

// fitErrors returns the filter results on every node of the set, for a task that fits on none. All tasks of the class
// share the returned value.
func (n *CandidateNodes) fitErrors() *api.FitErrors {
	if n.errorsState != n.state {
		n.errors, n.errorsState = n.errorsOf(nil), n.state
	}
	return n.errors
}

// errorsOf returns the filter results on every node of the set, including the given filter results of uncached plugins.
func (n *CandidateNodes) errorsOf(uncached map[int32]error) *api.FitErrors {
	errs := api.NewFitErrors()
	for _, node := range n.set.Nodes {
		err := uncached[node]
		if err == nil {
			err = n.filterResult(node)
		}
		if err != nil {
			errs.SetNodeError(n.evaluator.index.Nodes[node].Name, err)
		}
	}
	if n.set.Name != "" {
		errs.SetHyperNode(n.set.Name)
	}
	return errs
}

func (n *CandidateNodes) score(node int32) float64 {
	if n.nothingCached() {
		return 0
	}
	info := n.evaluator.index.Nodes[node]
	return steady(n.results.score(node) + n.together.scores[info.Name] + n.perJob.nodeScore(n.evaluator, info))
}

// rescoreTogether scores all feasible nodes again with the plugins that score several nodes in one call.
func (n *CandidateNodes) rescoreTogether() {
	n.together.scores, n.together.newcomer = nil, false
	fit := slices.Clone(n.ranking.places)
	nodes := make([]*api.NodeInfo, len(fit))
	for i, place := range fit {
		nodes[i] = n.evaluator.index.Nodes[n.set.Nodes[place]]
	}
	n.scoreTogether(nodes)
	for _, place := range fit {
		n.updatePlace(place)
	}
}

// scoreTogether calls the plugins that score several nodes in one call, for the given nodes. A node keeps its score until it
// is scored again, although the score may depend on which other nodes were in the call.
func (n *CandidateNodes) scoreTogether(nodes []*api.NodeInfo) {
	if n.nothingCached() {
		return
	}
	if n.together.scores == nil {
		n.together.scores = map[string]float64{}
	}
	for _, node := range nodes {
		if number, ok := n.evaluator.index.In(n.set, node.Name); ok {
			place, _ := n.set.Place(number)
			n.together.scored[place] = true
		}
	}
	layer := n.results.layers.cachedScores
	if framework.HasClaims(n.results.task.Pod) {
		layer = n.results.layers.cached
	}
	n.evaluator.addScoresTogether(layer, n.results.task, nodes, n.together.scores)
	n.perJob.addScoresTogether(n.evaluator, nodes, n.together.scores)
}

// refusals counts the nodes of the set by the reason that stops the task, by cached and uncached filter results. member
// reports whether a node has members of the task's gang.
func (n *CandidateNodes) refusals(task *api.TaskInfo, member func(node int32) bool) *Refusals {
	e, c := n.evaluator, n.results
	asksUncached := len(c.layers.uncached) > 0 || len(e.antiAffinity.matching(task)) > 0
	counted := newRefusals()
	for _, node := range n.set.Nodes {
		v := c.FilterResult(node)
		if v.err != nil {
			counted.add(c.reasonFor(v.err), e.index.Nodes[node], member(node))
			continue
		}
		err := n.filterResult(node)
		if err == nil && asksUncached {
			err = e.latestFilterResult(task, c.layers, node)
		}
		switch {
		case err != nil:
			counted.add(ShortReason(err), e.index.Nodes[node], member(node))
		case v.Copies == 0:
			counted.add(c.releasedLater(e.index.Nodes[node]), e.index.Nodes[node], false)
		default:
			counted.Takes++
		}
	}
	return counted.addFragmentation(task.InitResreq, e.index)
}
