// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// Where says in which set of nodes a node is searched for a task.
type Where struct {
	Set *nodeset.Set
	// ChosenBy is the plugin that named the set's node group, if any. If its filter result applies to some jobs only
	// (PerJob), the result is not requested, because the plugin accepts all nodes of a group that it names.
	ChosenBy string
}

// Choice is a node chosen for a task.
type Choice struct {
	Node  int32
	class roomClass
}

// Idle reports whether the node has room for the task now, and not only once resources are released.
func (c Choice) Idle() bool { return c.class.idle() }

// Choose returns the best node for the task, which is of class c. Nodes in skip are left out. With idleOnly, the node
// must have room on idle resources. If there is no such node, Choose returns false and the filter results. The task's
// pre-predicate must have run.
func (f *Finder) Choose(task *api.TaskInfo, c *ClassCache, where Where, idleOnly bool, skip map[int32]bool) (Choice, bool, *api.FitErrors) {
	n := f.Candidates(task, c, where)
	if place, ok := f.nominated(task, n); ok && !skip[n.set.Nodes[place]] {
		chosen := n.choice(place)
		return chosen, !idleOnly || chosen.Idle(), nil // preemption freed resources on the nominated node for this task, so no other node is tried
	}
	choose := f.chooseByRank
	if c.layers.uncachedScores || len(c.layers.uncached) > 0 && volumesScored(task.Pod) {
		choose = f.chooseByScore
	}
	chosen, ok, errs := choose(task, n, idleOnly, skip)
	if !ok && n.lookEverywhere() {
		return choose(task, n, idleOnly, skip)
	}
	return chosen, ok, errs
}

// Accepts returns the node as a choice for the task, which is of class c; false if a filter result refuses the node.
// With idleOnly, the node must have room on idle resources.
func (f *Finder) Accepts(task *api.TaskInfo, c *ClassCache, where Where, node int32, idleOnly bool) (Choice, bool) {
	n := f.Candidates(task, c, where)
	n.lookEverywhere()
	place, ok := n.set.Place(node)
	if !ok || !n.holds(place, idleOnly) || f.uncachedFilterResult(task, c, node) != nil {
		return Choice{}, false
	}
	return n.choice(place), true
}

// choice returns the node at index place of set.Nodes as a Choice, which says whether it has room on idle resources or
// only on resources being released.
func (n *CandidateNodes) choice(place int32) Choice {
	return Choice{n.set.Nodes[place], n.ranking.rank[place].class}
}

// nominated returns the index in the set's Nodes of the task's nominated node; false if the node is not in the set, or
// does not take the task. The nominated node is chosen before all others. Otherwise other tasks would get the resources
// that preemption freed for this task.
func (f *Finder) nominated(task *api.TaskInfo, n *CandidateNodes) (int32, bool) {
	name := task.Pod.Status.NominatedNodeName
	if name == "" {
		return 0, false
	}
	node, ok := f.index.In(n.set, name)
	if !ok {
		return 0, false
	}
	n.lookEverywhere()
	place, _ := n.set.Place(node)
	return place, n.ranking.has(place) && f.uncachedFilterResult(task, n.cache, node) == nil
}

// chooseByRank checks the candidates, the best first (type rank), and returns the first node that the uncached plugins
// accept. That node is the best one if these plugins do not score nodes.
func (f *Finder) chooseByRank(task *api.TaskInfo, n *CandidateNodes, idleOnly bool, skip map[int32]bool) (Choice, bool, *api.FitErrors) {
	refused := map[int32]error{}
	var best Choice
	found := false
	for place := range n.ranking.byRank() {
		at := n.choice(place)
		if idleOnly && !at.Idle() {
			break
		}
		if skip[at.Node] {
			continue
		}
		if err := f.uncachedFilterResult(task, n.cache, at.Node); err != nil {
			refused[at.Node] = err
			continue
		}
		best, found = at, true
		break
	}
	n.takeOut(refused)
	if found {
		return best, true, nil
	}
	return Choice{}, false, n.errorsWith(refused)
}

// chooseByScore returns the node with the best score. It calls the uncached plugins for every node that the cached
// filter results accept, because their scores compare all feasible nodes. If an uncached plugin makes network calls,
// chooseByScore stops when it has found as many feasible nodes as upstream looks for in a set of this size.
func (f *Finder) chooseByScore(task *api.TaskInfo, n *CandidateNodes, idleOnly bool, skip map[int32]bool) (Choice, bool, *api.FitErrors) {
	open := slices.Clone(n.ranking.places)
	if n.cache.layers.overNetwork { // the calls of uncached plugins stop once enough nodes are accepted, so the best nodes come first
		open = slices.Collect(n.ranking.byRank())
	}
	open = slices.DeleteFunc(open, func(place int32) bool { return !n.holds(place, idleOnly) || skip[n.set.Nodes[place]] })
	results := f.uncachedFilterResults(task, n, open)
	refused := map[int32]error{}
	classes := [futureElsewhere + 1][]int32{}
	for i, err := range results {
		if place := open[i]; err != nil {
			refused[n.set.Nodes[place]] = err
		} else {
			class := n.ranking.rank[place].class
			classes[class] = append(classes[class], place)
		}
	}
	n.takeOut(refused)
	for class, places := range classes {
		if len(places) > 0 {
			slices.Sort(places)
			return Choice{n.set.Nodes[f.bestByScore(task, n, places)], roomClass(class)}, true, nil
		}
	}
	return Choice{}, false, n.errorsWith(refused)
}

// errorsWith returns the filter results on all nodes of the set: results of uncached plugins, given in refused, and the
// cached results.
func (n *CandidateNodes) errorsWith(refused map[int32]error) *api.FitErrors {
	if len(refused) == 0 {
		return n.fitErrors()
	}
	return n.errorsOf(refused)
}
