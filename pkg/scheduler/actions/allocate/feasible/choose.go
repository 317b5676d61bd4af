// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Choice is a node chosen for a task.
type Choice struct {
	Node  int32
	class roomClass
}

// Idle reports whether the node has room for the task now, and not only once resources are released.
func (c Choice) Idle() bool { return c.class.idle() }

// nodeSearch chooses a node for one task among the candidates. The task's pre-predicate must have run.
type nodeSearch struct {
	task  *api.TaskInfo
	among *CandidateNodes
	// idleOnly reports whether the node must have room on idle resources.
	idleOnly bool
	// skip are the nodes that are left out.
	skip map[int32]bool
}

// choose returns the best node for the task; false and the filter results if there is none.
func (s nodeSearch) choose() (Choice, bool, *api.FitErrors) {
	if chosen, ok := s.nominated(); ok && !s.skip[chosen.Node] {
		return chosen, !s.idleOnly || chosen.Idle(), nil // preemption freed resources on the nominated node for this task, so no other node is tried
	}
	choose := s.byRank
	if layers := s.among.results.layers; layers.uncachedScores || len(layers.uncached) > 0 && volumesScored(s.task.Pod) {
		choose = s.byScore
	}
	chosen, ok, errs := choose()
	if !ok && s.among.lookEverywhere() {
		return choose()
	}
	return chosen, ok, errs
}

// accepts returns the node as a choice; false if a filter result refuses the node.
func (s nodeSearch) accepts(node int32) (Choice, bool) {
	s.among.lookEverywhere()
	place, ok := s.among.set.Place(node)
	if !ok || !s.among.holds(place, s.idleOnly) || s.refusal(node) != nil {
		return Choice{}, false
	}
	return s.choice(place), true
}

// nominated returns the task's nominated node; false if the node is not among the set's nodes, or does not take the task.
// The nominated node is chosen before all others. Otherwise other tasks would get the resources that preemption freed
// for this task.
func (s nodeSearch) nominated() (Choice, bool) {
	name := s.task.Pod.Status.NominatedNodeName
	if name == "" {
		return Choice{}, false
	}
	node, ok := s.among.evaluator.index.In(s.among.set, name)
	if !ok {
		return Choice{}, false
	}
	s.among.lookEverywhere()
	place, _ := s.among.set.Place(node)
	return s.choice(place), s.among.ranking.has(place) && s.refusal(node) == nil
}

// refusal returns why anti-affinity of placed pods, or an uncached plugin, refuses the node.
func (s nodeSearch) refusal(node int32) error {
	return s.among.evaluator.uncachedFilterResult(s.task, s.among.results.layers, node)
}

// choice returns the node at index place of the set's Nodes as a Choice, which says whether it has room on idle resources
// or only on resources being released.
func (s nodeSearch) choice(place int32) Choice {
	return Choice{s.among.set.Nodes[place], s.among.ranking.rank[place].class}
}

// byRank checks the candidates, the best first (type rank), and returns the first node that the uncached plugins accept.
// That node is the best one if these plugins do not score nodes.
func (s nodeSearch) byRank() (Choice, bool, *api.FitErrors) {
	refused := map[int32]error{}
	var best Choice
	found := false
	for place := range s.among.ranking.byRank() {
		at := s.choice(place)
		if s.idleOnly && !at.Idle() {
			break
		}
		if s.skip[at.Node] {
			continue
		}
		if err := s.refusal(at.Node); err != nil {
			refused[at.Node] = err
			continue
		}
		best, found = at, true
		break
	}
	s.among.takeOut(refused)
	if found {
		return best, true, nil
	}
	return Choice{}, false, s.errorsWith(refused)
}

// byScore returns the node with the best score. It calls the uncached plugins for every node that the cached filter
// results accept, because their scores compare all feasible nodes. If an uncached plugin makes network calls, byScore
// stops when it has found as many feasible nodes as upstream looks for in a set of this size.
func (s nodeSearch) byScore() (Choice, bool, *api.FitErrors) {
	n := s.among
	open := slices.Clone(n.ranking.places)
	if n.results.layers.overNetwork { // the calls of uncached plugins stop once enough nodes are accepted, so the best nodes come first
		open = slices.Collect(n.ranking.byRank())
	}
	open = slices.DeleteFunc(open, func(place int32) bool { return !n.holds(place, s.idleOnly) || s.skip[n.set.Nodes[place]] })
	nodes := make([]int32, len(open))
	for i, place := range open {
		nodes[i] = n.set.Nodes[place]
	}
	refused := map[int32]error{}
	classes := [futureElsewhere + 1][]int32{}
	for i, err := range n.evaluator.uncachedFilterResults(s.task, n.results.layers, nodes, len(n.set.Nodes)) {
		if err != nil {
			refused[nodes[i]] = err
		} else {
			class := n.ranking.rank[open[i]].class
			classes[class] = append(classes[class], open[i])
		}
	}
	n.takeOut(refused)
	for class, places := range classes {
		if len(places) > 0 {
			slices.Sort(places)
			return Choice{n.set.Nodes[s.bestByScore(places)], roomClass(class)}, true, nil
		}
	}
	return Choice{}, false, s.errorsWith(refused)
}

// bestByScore returns the node with the highest score: the cached score plus the scores of uncached plugins. Ties go to
// the first node by name. A plugin with a BestNodeFn may choose another of these nodes. Nodes are given by their
// indexes in the set's Nodes.
func (s nodeSearch) bestByScore(places []int32) int32 {
	if len(places) == 1 {
		return places[0]
	}
	nodes := make([]*api.NodeInfo, len(places))
	total := make([]float64, len(places))
	for i, place := range places {
		nodes[i], total[i] = s.among.evaluator.index.Nodes[s.among.set.Nodes[place]], s.among.ranking.rank[place].score
	}
	s.among.evaluator.addUncachedScores(s.task, s.among.results.layers, nodes, total)
	if place := s.pluginsChoice(nodes, total); place >= 0 {
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

// pluginsChoice returns the node that a plugin with a BestNodeFn chooses among the nodes with these scores, as its index in
// the set's Nodes; -1 if none chooses.
func (s nodeSearch) pluginsChoice(nodes []*api.NodeInfo, total []float64) int32 {
	byScore := map[float64][]*api.NodeInfo{}
	for i, node := range nodes {
		byScore[total[i]] = append(byScore[total[i]], node)
	}
	node := s.among.evaluator.ssn.BestNodeFn(s.task, byScore)
	if node == nil {
		return -1
	}
	number, ok := s.among.evaluator.index.In(s.among.set, node.Name)
	if !ok {
		return -1
	}
	place, _ := s.among.set.Place(number)
	return place
}

// errorsWith returns the filter results on all nodes of the set: results of uncached plugins, given in refused, and the
// cached results.
func (s nodeSearch) errorsWith(refused map[int32]error) *api.FitErrors {
	if len(refused) == 0 {
		return s.among.fitErrors()
	}
	return s.among.errorsOf(refused)
}
