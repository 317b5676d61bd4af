// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// errOtherShard is the filter result for nodes outside of this scheduler's shard, in upstream's sharding mode "hard".
var errOtherShard = errors.New("node(s) outside of this scheduler's NodeShard")

// candidatesKey identifies the CandidateNodes of a class for a set of nodes, and for the jobs that share the results of
// plugins with scope framework.PerJob.
type candidatesKey struct {
	set *nodeset.Set
	// job is the key of the jobs that share the results of plugins with scope framework.PerJob, whose results apply to
	// some jobs only. It is empty if all results apply to all jobs.
	job string
}

// CandidateNodes are the nodes of a set that take a task of a class by the filter results of cached plugins, best
// first. Uncached plugins are called later, and may still refuse a node.
type CandidateNodes struct {
	finder *Finder
	key    candidatesKey
	cache  *ClassCache
	set    *nodeset.Set
	// ranking has the nodes that fit. A node is given by its place: its index in set.Nodes.
	ranking rankHeap
	// perJob are the plugins whose results apply to some jobs only (layer cachedPerJob). They are called for the nodes
	// of the set with the task in representative, which is nil if there are no such plugins.
	perJob         []conf.Tier
	representative *representative
	// together are, by node name, the scores of plugins that score several nodes in one call. scored marks the nodes
	// that were in such a call. newcomer reports whether a node that scored does not mark has become feasible, because
	// tasks of a trial were taken back from it.
	together map[string]float64
	scored   []bool
	newcomer bool
	// keptAway are the nodes that required anti-affinity excludes, with the filter result. The anti-affinity is that of
	// the class's tasks, or of placed pods against these tasks. Placing more pods only excludes more nodes, so an entry
	// stays valid until a task is taken back. keptAwayOf is the number of tasks taken back (Finder.takenBack) when the
	// entries were made.
	keptAway   map[int32]error
	keptAwayOf int
	// state is the number of changes of nodes (nodeset.Index.State) that were processed so far.
	state int
	// lookedAt is how many of the set's nodes have been checked. step is the distance between two checked nodes, and
	// enough is how many feasible nodes are wanted (sampling.go). looked marks the checked nodes, by their index in
	// set.Nodes.
	lookedAt, step, enough int
	looked                 []bool
	// errors are the filter results on all nodes of the set if none fits. errorsState is the value of the field state
	// when errors was made.
	errors      *api.FitErrors
	errorsState int
}

func newCandidateNodes(f *Finder, c *ClassCache, key candidatesKey) *CandidateNodes {
	nodes := len(key.set.Nodes)
	enough := f.enough(key.set, c)
	return &CandidateNodes{
		finder: f, key: key, cache: c, set: key.set, ranking: newRankHeap(nodes),
		scored: make([]bool, nodes), looked: make([]bool, nodes), enough: enough, step: stepFor(enough, nodes),
		state: f.index.State(), errorsState: -1,
	}
}

// representative is the task that is passed to plugins whose results apply to some jobs only (PerJob). A result for
// this task applies to all tasks of its class in the jobs with the same key (candidatesKey.job).
type representative struct {
	task *api.TaskInfo
	// err is the error of the task's pre-predicate.
	err error
}

// representativeOf returns the representative of the task's class for jobs with this key: jobs that share the results
// of plugins with scope PerJob. On the first call for the key, the task becomes the representative.
func (c *ClassCache) representativeOf(task *api.TaskInfo, jobKey string) *representative {
	if r, ok := c.representatives[jobKey]; ok {
		return r
	}
	r := &representative{task: task}
	if task != c.task {
		r.err = c.finder.PrePredicate(task)
	}
	c.representatives[jobKey] = r
	return r
}

// update brings the candidates up to date with the changes of nodes since the last call of update.
func (n *CandidateNodes) update() {
	n.forgetKeptAway()
	changed := n.finder.index.Changed(n.state)
	n.state = n.finder.index.State()
	for _, node := range changed {
		if place, ok := n.set.Place(node); ok && n.looked[place] {
			n.updatePlace(place)
		}
	}
	if n.newcomer {
		n.rescoreTogether()
	}
	if n.lookedAt < len(n.set.Nodes) && n.ranking.Len() < n.enough {
		n.lookFurther()
	}
}

// lookEverywhere checks all nodes of the set. It reports whether some of them had not been checked before.
func (n *CandidateNodes) lookEverywhere() bool {
	if n.lookedAt == len(n.set.Nodes) {
		return false
	}
	n.enough = len(n.set.Nodes)
	n.lookFurther()
	return true
}

// lookFurther checks further nodes of the set until as many feasible nodes are known as the field enough says.
func (n *CandidateNodes) lookFurther() {
	var fresh []*api.NodeInfo
	var places []int32
	for fits := n.ranking.Len(); n.lookedAt < len(n.set.Nodes) && fits < n.enough; n.lookedAt++ {
		place := int32(n.lookedAt * n.step % len(n.set.Nodes))
		places = append(places, place)
		n.looked[place] = true
		if node := n.set.Nodes[place]; n.filterResult(node) == nil {
			fits++
			fresh = append(fresh, n.finder.index.Nodes[node])
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
	n.newcomer = n.newcomer || !n.scored[place] && !n.finder.layering.nothingCached
	n.ranking.set(place, rank{class: n.finder.roomClassOf(n.cache.task, n.finder.index.Nodes[node]), score: n.score(node)})
}

// filterResult returns why cached plugins, or anti-affinity that excludes the whole class, refuse the node; nil if the
// node is accepted.
func (n *CandidateNodes) filterResult(node int32) error {
	if err := n.cachedFilterResult(node); err != nil {
		return err
	}
	return n.keptAway[node]
}

// cachedFilterResult returns the filter result of the cached plugins on the node.
func (n *CandidateNodes) cachedFilterResult(node int32) error {
	f := n.finder
	info := f.index.Nodes[node]
	if options.ServerOpts.ShardingMode == vcutil.HardShardingMode && !f.ssn.NodesInShard.Has(info.Name) {
		return errOtherShard
	}
	v := n.cache.FilterResult(node)
	if v.err != nil {
		return v.err
	}
	if err := n.cache.refusedForGood[node]; err != nil && !f.layering.nothingCached {
		return err
	}
	if f.layering.nothingCached {
		return nil
	}
	return n.perJobFilterResult(info)
}

// perJobFilterResult returns the filter result, on the node, of the plugins whose results apply to some jobs only.
func (n *CandidateNodes) perJobFilterResult(node *api.NodeInfo) error {
	switch {
	case n.representative == nil:
		return nil
	case n.representative.err != nil:
		return n.representative.err
	default:
		return n.finder.predicate(n.perJob, n.representative.task, node)
	}
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
	if node := n.set.Nodes[place]; n.keptAway[node] != nil {
		return n.cachedFilterResult(node) == nil && (!idleOnly || n.finder.roomClassOf(n.cache.task, n.finder.index.Nodes[node]).idle())
	}
	if !n.holds(int32(place), idleOnly) {
		return false
	}
	if !n.finder.layering.nothingCached {
		return true // nodes that cached plugins refuse are not in the ranking
	}
	node := n.set.Nodes[place]
	info := n.finder.index.Nodes[node]
	return n.cache.refusedForGood[node] == nil && n.finder.predicate(n.cache.layers.cached, n.cache.task, info) == nil && n.perJobFilterResult(info) == nil
}

// Admits reports whether the uncached plugins, too, accept a node for the task. place is the node's index in set.Nodes.
// The task's pre-predicate must have run. If one of these plugins makes network calls, no plugin is called, and the
// node counts as accepted.
func (n *CandidateNodes) Admits(task *api.TaskInfo, place int) bool {
	if !n.cache.OneByOne() || !n.cache.layers.uncachedFilterResults || n.cache.layers.overNetwork {
		return true
	}
	err := n.finder.uncachedFilterResult(task, n.cache, n.set.Nodes[place])
	if err != nil {
		n.takeOut(map[int32]error{n.set.Nodes[place]: err})
	}
	return err == nil
}

// fitErrors returns the filter results on every node of the set, for a task that fits on none. All tasks of the class
// share the returned value.
func (n *CandidateNodes) fitErrors() *api.FitErrors {
	if n.errorsState == n.state {
		return n.errors
	}
	n.errors, n.errorsState = n.errorsOf(nil), n.state
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
			errs.SetNodeError(n.finder.index.Nodes[node].Name, err)
		}
	}
	if n.set.Name != "" {
		errs.SetHyperNode(n.set.Name)
	}
	return errs
}

func (n *CandidateNodes) score(node int32) float64 {
	if n.finder.layering.nothingCached {
		return 0
	}
	info := n.finder.index.Nodes[node]
	score := n.cache.score(node) + n.together[info.Name]
	if n.representative != nil {
		score += n.finder.nodeScore(n.perJob, n.representative.task, info)
	}
	return steady(score)
}

// rescoreTogether scores all feasible nodes again with the plugins that score several nodes in one call.
func (n *CandidateNodes) rescoreTogether() {
	n.together, n.newcomer = nil, false
	fit := slices.Clone(n.ranking.places)
	nodes := make([]*api.NodeInfo, len(fit))
	for i, place := range fit {
		nodes[i] = n.finder.index.Nodes[n.set.Nodes[place]]
	}
	n.scoreTogether(nodes)
	for _, place := range fit {
		n.updatePlace(place)
	}
}

// scoreTogether calls the plugins that score several nodes in one call, for the given nodes. A node keeps its score until it
// is scored again, although the score may depend on which other nodes were in the call.
func (n *CandidateNodes) scoreTogether(nodes []*api.NodeInfo) {
	if n.finder.layering.nothingCached {
		return
	}
	if n.together == nil {
		n.together = map[string]float64{}
	}
	for _, node := range nodes {
		if number, ok := n.finder.index.In(n.set, node.Name); ok {
			place, _ := n.set.Place(number)
			n.scored[place] = true
		}
	}
	layer := n.cache.layers.cachedScores
	if framework.HasClaims(n.cache.task.Pod) {
		layer = n.cache.layers.cached
	}
	n.addScoresTogether(layer, n.cache.task, nodes)
	if n.representative != nil {
		n.addScoresTogether(n.perJob, n.representative.task, nodes)
	}
}

func (n *CandidateNodes) addScoresTogether(layer []conf.Tier, task *api.TaskInfo, nodes []*api.NodeInfo) {
	if len(layer) == 0 {
		return
	}
	n.finder.ssn.WithTiers(layer, func() {
		scores, err := n.finder.ssn.BatchNodeOrderFn(task, nodes)
		if err != nil {
			klog.ErrorS(err, "Scoring nodes together failed, using score 0", "pod", klog.KObj(task.Pod))
			return
		}
		for _, node := range nodes {
			if score := scores[node.Name]; score != 0 {
				n.together[node.Name] += score
			}
		}
	})
}
