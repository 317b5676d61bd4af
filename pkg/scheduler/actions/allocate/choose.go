// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"context"
	"errors"
	"slices"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// errOtherShard is the verdict on nodes of other schedulers when shards are hard.
var errOtherShard = errors.New("node isn't in scheduler node shard")

// choice is a node chosen for a task.
type choice struct {
	node  int32
	class rankClass
}

// choose returns the best node of the domain for the task, of those in skip none. When there is none it returns the
// verdicts. The task's pre-predicate must have run.
func (a *allocation) choose(task *api.TaskInfo, s *shape, d *domain, now bool, skip map[int32]bool) (choice, bool, *api.FitErrors) {
	f := a.fieldOf(s, d, task)
	if node, ok := a.nominated(task, f); ok && !skip[node] {
		class := f.rank[f.local[node]].class
		return choice{node, class}, !now || class.now(), nil // it waits for the room made for it
	}
	if s.layers.scored || len(s.layers.live) > 0 && volumesScored(task.Pod) {
		return a.chooseLive(task, f, now, skip)
	}
	return a.chooseByRank(task, f, now, skip)
}

// nominated returns the task's nominated node when it lies in the domain and takes the task: what was made free for it
// there by preemption is not left to others.
func (a *allocation) nominated(task *api.TaskInfo, f *field) (int32, bool) {
	name := task.Pod.Status.NominatedNodeName
	if name == "" {
		return 0, false
	}
	node, ok := a.board.has(f.domain, name)
	if !ok {
		return 0, false
	}
	return node, f.at[f.local[node]] >= 0 && a.liveVerdict(task, f.shape, node) == nil
}

// liveVerdict is what must be asked for the task itself, on a node that the kept verdicts leave.
func (a *allocation) liveVerdict(task *api.TaskInfo, s *shape, node int32) error {
	if err := a.exclusions.refuses(task, a.board.nodes[node]); err != nil {
		return err
	}
	return a.predicate(s.layers.live, task, a.board.nodes[node])
}

// chooseByRank returns the first node in rank order that the live verdict leaves. That is the best one where the live
// layer does not score.
func (a *allocation) chooseByRank(task *api.TaskInfo, f *field, now bool, skip map[int32]bool) (choice, bool, *api.FitErrors) {
	refused := map[int32]error{}
	var best choice
	found := false
	for place := range f.byRank() {
		node, class := f.nodes[place], f.rank[place].class
		if now && !class.now() {
			break
		}
		if skip[node] {
			continue
		}
		if err := a.liveVerdict(task, f.shape, node); err != nil {
			refused[node] = err
			continue
		}
		best, found = choice{node, class}, true
		break
	}
	f.bar(refused)
	if found {
		return best, true, nil
	}
	return choice{}, false, a.liveErrors(f, refused)
}

// chooseLive asks the live layer on every node that the kept verdicts leave, for its scores are among all that fit; where it
// asks over the network, on as many as upstream samples.
func (a *allocation) chooseLive(task *api.TaskInfo, f *field, now bool, skip map[int32]bool) (choice, bool, *api.FitErrors) {
	open := slices.Clone(f.heap)
	if f.shape.layers.remote { // of which a sample is asked: the best
		open = slices.Collect(f.byRank())
	}
	open = slices.DeleteFunc(open, func(place int32) bool { return now && !f.rank[place].class.now() || skip[f.nodes[place]] })
	verdicts := a.liveVerdicts(task, f, open)
	refused := map[int32]error{}
	classes := [futureElsewhere + 1][]int32{}
	for i, err := range verdicts {
		if place := open[i]; err != nil {
			refused[f.nodes[place]] = err
		} else {
			class := f.rank[place].class
			classes[class] = append(classes[class], place)
		}
	}
	f.bar(refused)
	for class, places := range classes {
		if len(places) > 0 {
			slices.Sort(places)
			return choice{f.nodes[a.bestLive(task, f, places)], rankClass(class)}, true, nil
		}
	}
	return choice{}, false, a.liveErrors(f, refused)
}

// remoteCalls bounds how many calls of one task are under way at a time. It is upstream's number.
const remoteCalls = 16

// remoteVerdicts are the nodes that were refused for a task when somebody was last asked over the network: explanations do
// not ask again.
type remoteVerdicts struct {
	task    *api.TaskInfo
	refused map[int32]error
}

// liveVerdicts asks for the places in their order, and returns the verdicts on as many of them as it has asked for.
func (a *allocation) liveVerdicts(task *api.TaskInfo, f *field, places []int32) []error {
	out := make([]error, 0, len(places))
	if !f.shape.layers.remote {
		for _, place := range places {
			out = append(out, a.liveVerdict(task, f.shape, f.nodes[place]))
		}
		return out
	}
	a.remote = remoteVerdicts{task: task, refused: map[int32]error{}}
	enough := int(util.CalculateNumOfFeasibleNodesToFind(int32(len(f.nodes))))
	for fit := 0; fit < enough && len(out) < len(places); {
		next := places[len(out):min(len(out)+remoteCalls, len(places))]
		for i, err := range a.askTogether(task, f, next) {
			if err == nil {
				fit++
			} else {
				a.remote.refused[f.nodes[next[i]]] = err
			}
			if out = append(out, err); fit == enough {
				break
			}
		}
	}
	return out
}

// askTogether asks the live layer for the places at the same time, as upstream does with all predicates.
func (a *allocation) askTogether(task *api.TaskInfo, f *field, places []int32) []error {
	errs := make([]error, len(places))
	for i, place := range places {
		errs[i] = a.exclusions.refuses(task, a.board.nodes[f.nodes[place]])
	}
	with(a.ssn, f.shape.layers.live, func() {
		workqueue.ParallelizeUntil(context.Background(), len(places), len(places), func(i int) {
			if errs[i] == nil {
				errs[i] = a.ssn.PredicateForAllocateAction(task, a.board.nodes[f.nodes[places[i]]])
			}
		})
	})
	return errs
}

// bestLive scores the places with the live layer on top of the kept scores; ties go to the first by name.
func (a *allocation) bestLive(task *api.TaskInfo, f *field, places []int32) int32 {
	if len(places) == 1 {
		return places[0]
	}
	total := make([]float64, len(places))
	for i, place := range places {
		total[i] = f.rank[place].score
	}
	if live := f.shape.layers.live; len(live) > 0 {
		nodes := make([]*api.NodeInfo, len(places))
		for i, place := range places {
			nodes[i] = a.board.nodes[f.nodes[place]]
		}
		with(a.ssn, live, func() { a.addLiveScores(task, nodes, total) })
		for i := range total {
			total[i] = steady(total[i])
		}
	}
	if node := a.pluginsChoice(task, f, places, total); node >= 0 {
		return node
	}
	best := 0
	for i := range places {
		if total[i] > total[best] {
			best = i
		}
	}
	return places[best]
}

// addLiveScores adds the scores of the session's current tiers: per node, normalised over nodes, and of nodes together.
func (a *allocation) addLiveScores(task *api.TaskInfo, nodes []*api.NodeInfo, total []float64) {
	mapped := map[string]framework.NodeScoreList{}
	for i, node := range nodes {
		byPlugin, score, err := a.ssn.NodeOrderMapFn(task, node)
		if err != nil {
			klog.ErrorS(err, "Scoring a node failed, it counts as 0", "pod", klog.KObj(task.Pod), "node", node.Name)
			continue
		}
		total[i] += score
		for plugin, score := range byPlugin {
			mapped[plugin] = append(mapped[plugin], framework.NodeScore{Name: node.Name, Score: int64(score)})
		}
	}
	for _, ask := range []func() (map[string]float64, error){
		func() (map[string]float64, error) { return a.ssn.NodeOrderReduceFn(task, mapped) },
		func() (map[string]float64, error) { return a.ssn.BatchNodeOrderFn(task, nodes) },
	} {
		scores, err := ask()
		if err != nil {
			klog.ErrorS(err, "Scoring nodes together failed, they count as 0", "pod", klog.KObj(task.Pod))
			continue
		}
		for i, node := range nodes {
			total[i] += scores[node.Name]
		}
	}
}

// pluginsChoice lets a plugin choose among the scored nodes; -1 when none does.
func (a *allocation) pluginsChoice(task *api.TaskInfo, f *field, places []int32, total []float64) int32 {
	byScore := map[float64][]*api.NodeInfo{}
	for i, place := range places {
		byScore[total[i]] = append(byScore[total[i]], a.board.nodes[f.nodes[place]])
	}
	node := a.ssn.BestNodeFn(task, byScore)
	if node == nil {
		return -1
	}
	number, ok := a.board.has(f.domain, node.Name)
	if !ok {
		return -1
	}
	return f.local[number]
}

// liveErrors adds the live layer's verdicts to the kept ones.
func (a *allocation) liveErrors(f *field, refused map[int32]error) *api.FitErrors {
	if len(refused) == 0 {
		return f.fitErrors()
	}
	errs := api.NewFitErrors()
	for _, node := range f.nodes {
		err := refused[node]
		if err == nil {
			err = f.verdict(node)
		}
		if err != nil {
			errs.SetNodeError(a.board.nodes[node].Name, err)
		}
	}
	if f.name != "" {
		errs.SetHyperNode(f.name)
	}
	return errs
}
