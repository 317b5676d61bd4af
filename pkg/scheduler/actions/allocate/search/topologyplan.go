// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A plugin may place a gang in one domain of a network, by plans of its own (framework.TopologyPlanner). The plans are
// based on how many members each node takes, which is computed from resources. A trial shows whether every plugin
// accepts a plan. If a node takes fewer members than computed, new plans are made with the actual number.

const (
	// maxPlanTrials bounds how many plans of a gang are tried in one set of nodes. In addition, no further
	// plan is tried once more than MaxFurtherLooks tasks were placed and taken back (tried).
	maxPlanTrials = 64
	// maxPlanProbes bounds how many tasks of a gang are placed only to find out how many of them a node takes, if it
	// cannot be computed from resources.
	maxPlanProbes = 5_000
	// furtherAtOnce bounds how many members beyond the minimum are placed in one attempt. Placing them one by one would
	// make the plans again for each member.
	furtherAtOnce = 64
)

// planRun places a job in one scope, by the plans of its TopologyPlanner.
type planRun struct {
	part    *trial.Part
	attempt *state.Attempt
	run     *state.Run
	// atOnce bounds how many tasks beyond the minimum are placed.
	atOnce int
	// queueRefused reports whether the queue had no room for a task of a trial.
	queueRefused bool
	// may reports whether the session's search budget (crosssession.Budget) has allowed the job probes (method probe)
	// and trials beyond the first.
	may bool
	// tried counts the tasks that were placed and taken back, in probes and in trials after the first.
	tried int
}

// placeByTopology places the job's tasks by the plans of its TopologyPlanner. If another plugin names node groups for
// the job, each plan is inside one of these groups. If the job only prefers these groups, plans on all nodes are tried
// after that.
func placeByTopology(r *state.Attempt) trial.Result {
	if r.Groups == nil {
		return tryInOrder(r, func(opts state.Options) trial.Result {
			scope := r.Run.Anywhere(opts)
			scope.ChosenBy = r.Planner.Plugin
			return placeByTopologyIn(r, scope, opts)
		})
	}
	d, err := r.DemandOf()
	if err != nil {
		r.Job.JobFitErrors = err.Error()
		return trial.Result{}
	}
	ways := []func(state.Options) trial.Result{func(opts state.Options) trial.Result {
		for _, c := range candidates(r, r.Groups.Candidates, d, opts) {
			if result := placeByTopologyIn(r, r.Run.GroupScope(c.group, opts.Within, r.Groups.Plugin), opts); result.Outcome != trial.NotPlaced {
				return result
			}
		}
		return trial.Result{}
	}}
	if !r.Groups.Required {
		ways = append(ways, func(opts state.Options) trial.Result { return placeByTopologyIn(r, r.Run.Anywhere(opts), opts) })
	}
	return tryInOrder(r, ways...)
}

// placeByTopologyIn places the job's tasks by plans in the scope. If the minimum needs members without requests,
// placeByTopologyIn succeeds only if action backfill can place these members.
func placeByTopologyIn(r *state.Attempt, scope state.Scope, opts state.Options) trial.Result {
	uid := r.Job.DefaultSubJobID()
	tasks := slices.SortedStableFunc(slices.Values(r.Pending.Tasks[uid]), r.Planner.Compare)
	return withBestEffort(r, opts, func() trial.Result {
		g := &planRun{part: trial.NewPart(r, r.Job.SubJobs[uid], tasks, scope, opts.IdleOnly), attempt: r, run: r.Run, atOnce: furtherAtOnce}
		placed := g.place()
		r.Run.Observe(placed.Outcome.String())
		result := trial.Result{Outcome: placed.Outcome, Rest: map[api.SubJobID][]*api.TaskInfo{uid: placed.Rest}}
		if placed.Outcome != trial.NotPlaced {
			result.Changes = []*trial.Changes{placed.Changes}
		}
		return result
	})
}

// place tries plans until one succeeds. Plans are based on slots: how many tasks each node takes. After each failure,
// the slots of nodes that took fewer tasks than planned are set to the number of tasks that they took.
func (g *planRun) place() trial.PartResult {
	failed := trial.PartResult{Rest: g.part.Tasks}
	if len(g.part.Tasks) == 0 || len(g.part.Scope.Set.Nodes) == 0 {
		return failed
	}
	g.attempt.Job.ResetSubJobFitErr(g.part.SubJob.UID)
	classes, exact, err := g.plannedClasses()
	if err != nil {
		g.attempt.Found.NoPlanText = err.Error()
		return failed
	}
	slots := g.slots(classes)
	plans := g.attempt.Planner.On(slots, len(g.part.Tasks))
	tasks, plan := g.nextPlan(plans)
	// The numbers in slots are upper bounds of the tasks that each node takes. If they allow no plan, none exists, and
	// no probe is needed.
	if plan != nil && !exact && g.acquirePlans() {
		g.probe(slots)
		plans = g.attempt.Planner.On(slots, len(g.part.Tasks))
		tasks, plan = g.nextPlan(plans)
	}
	for trials := 0; trials < maxPlanTrials && g.tried <= crosssession.MaxFurtherLooks && (trials == 0 || g.acquirePlans()); trials++ {
		if trials > 0 {
			plans = g.attempt.Planner.On(slots, len(g.part.Tasks))
			tasks, plan = g.nextPlan(plans)
		}
		if plan == nil {
			g.attempt.Found.NoPlanText = plans.Explain(min(max(g.attempt.NeededByJob(), 1), len(g.part.Tasks)))
			return failed
		}
		result, took := g.placeByShares(tasks, plan)
		if result.Outcome != trial.NotPlaced {
			return result
		}
		if trials > 0 {
			g.charge(len(tasks))
		}
		if g.queueRefused {
			if g.attempt.NeededByJob() > 0 || g.atOnce == 0 {
				break
			}
			g.queueRefused = false
			continue
		}
		if !lower(slots, took) {
			break
		}
		klog.V(4).InfoS("Nodes fit fewer members than computed; planning the gang again", "podGroup", klog.KRef(g.attempt.Job.Namespace, g.attempt.Job.Name))
	}
	return failed
}

// acquirePlans reports whether the session's search budget (crosssession.Budget) allows the job probes, or trials
// beyond the first. If the budget is used up, the searches of gangs take turns, one in each session.
func (g *planRun) acquirePlans() bool {
	if !g.may {
		g.may = g.run.CrossSession.Orders.AcquireAll(g.run.SearchOf(g.attempt.Job, "gathered "+g.part.Scope.Set.Name, g.part.IdleOnly), 0)
	}
	if !g.may {
		g.attempt.Found.Unfinished++
		g.attempt.Found.NoPlanText = "search not finished: the search budget of this cycle is exhausted; retrying in a later cycle"
	}
	return g.may
}

// charge subtracts, from the session's remaining search budget, the cost of the given number of tasks that were placed and
// then reverted.
func (g *planRun) charge(tasks int) {
	g.tried += tasks
	g.run.CrossSession.Orders.Left -= tasks * planLooks
}

// lower sets slots, how many tasks each node takes, to the number of tasks that the nodes took in a trial. took has
// only nodes that took fewer than planned; lower returns false if took is empty.
func lower(slots, took map[string]int) bool {
	maps.Copy(slots, took)
	return len(took) > 0
}

// nextPlan returns the best plan, and the tasks to place by the plan. For a job that is not ready, these are the tasks
// of its minimum, if possible in a domain that has room for all of its tasks. For a ready job, they are as many tasks
// as may be placed at once.
func (g *planRun) nextPlan(plans framework.TopologyPlans) ([]*api.TaskInfo, []framework.NodeShare) {
	all := len(g.part.Tasks)
	needed := g.attempt.NeededByJob()
	now := plans.Most(1, min(all, g.atOnce))
	if needed > 0 || !g.run.Progress.GangDecides {
		now = plans.Least(max(needed, 1), all)
	}
	if now == 0 {
		return nil, nil
	}
	tasks := g.chosen(now)
	for _, wanted := range []int{all, now} {
		for plan := range plans.Plans(wanted, now) {
			return tasks, plan
		}
	}
	return nil, nil
}

// chosen returns n of the tasks, sorted by rank. It chooses the tasks that the minima of roles need, and then other
// tasks. In both cases, tasks that come first in task order and by rank are preferred.
func (g *planRun) chosen(n int) []*api.TaskInfo {
	if n >= len(g.part.Tasks) {
		return g.part.Tasks
	}
	lacking := g.part.NeededByRole()
	left := n
	for _, needed := range lacking {
		left -= max(int(needed), 0)
	}
	order := func(l, r *api.TaskInfo) int {
		return cmp.Or(g.run.Session.TaskCompareFns(l, r), g.attempt.Planner.Compare(l, r))
	}
	var out []*api.TaskInfo
	for _, task := range slices.SortedFunc(slices.Values(g.part.Tasks), order) {
		switch {
		case lacking[task.TaskRole] > 0:
			lacking[task.TaskRole]--
		case left > 0:
			left--
		default:
			continue
		}
		out = append(out, task)
	}
	out = out[:min(n, len(out))]
	slices.SortStableFunc(out, g.attempt.Planner.Compare)
	return out
}

// placeByShares places the tasks by the plan. If a task finds no node, nothing is placed, and placeByShares also
// returns how many tasks each node took that took fewer than planned.
func (g *planRun) placeByShares(tasks []*api.TaskInfo, plan []framework.NodeShare) (trial.PartResult, map[string]int) {
	result, shortfall := trial.TryShares(g.part, tasks, plan)
	if shortfall.QueueRefused {
		g.queueRefused, g.atOnce = true, shortfall.Placed
	}
	return result, shortfall.Took
}

// plannedClass is a class of the gang's tasks, and the nodes that take its tasks.
type plannedClass struct {
	candidates *feasible.CandidateNodes
	request    *api.Resource
	count      int
}

// plannedClasses returns the classes of the tasks. exact reports whether the number of tasks that a node takes can be
// computed from resources alone.
func (g *planRun) plannedClasses() (classes []*plannedClass, exact bool, err error) {
	at := map[*feasible.TaskClass]*plannedClass{}
	exact = true
	for _, task := range g.part.Tasks {
		of := g.run.Finder.Class(task)
		if at[of] == nil {
			cache, err := g.run.Finder.Cache(task)
			if err != nil {
				return nil, false, err
			}
			at[of] = &plannedClass{candidates: g.run.Finder.Candidates(task, cache, g.part.Scope.Where), request: task.InitResreq}
			classes = append(classes, at[of])
			exact = exact && !of.OneByOne() && !state.HasHostPorts(task.Pod)
		}
		at[of].count++
	}
	return classes, exact, nil
}

// slots returns, for each node, an upper bound of how many of the tasks the node takes together, computed from
// resources. If all tasks are of one class, the number of tasks does not limit the bound.
func (g *planRun) slots(classes []*plannedClass) map[string]int {
	slots := map[string]int{}
	for place, node := range g.part.Scope.Set.Nodes {
		if n := g.slotsByNumbers(classes, place); n > 0 {
			slots[g.run.Index.Nodes[node].Name] = n
		}
	}
	return slots
}

// probe corrects slots, how many tasks each node takes, if that cannot be computed from resources. It places tasks on
// each node that has more than one slot, and takes them back. maxPlanProbes bounds the number of tasks.
func (g *planRun) probe(slots map[string]int) {
	for _, node := range g.part.Scope.Set.Nodes {
		name := g.run.Index.Nodes[node].Name
		if n := slots[name]; n > 1 && g.tried < maxPlanProbes {
			slots[name] = trial.CountOnNode(g.part, node, min(n, len(g.part.Tasks)))
			g.charge(slots[name] + 1)
		}
	}
}

// slotsByNumbers returns how many of the tasks the node at the index place of the scope's nodes takes, from cached filter
// results and the node's remaining resources.
func (g *planRun) slotsByNumbers(classes []*plannedClass, place int) (n int) {
	node := g.run.Index.Nodes[g.part.Scope.Set.Nodes[place]]
	free := node.Idle
	if !g.part.IdleOnly {
		free = feasible.FutureIdle(node)
	}
	pods := g.run.Finder.PodSlots(node)
	for i, c := range classes {
		if n >= pods || !c.candidates.Packs(place, g.part.IdleOnly) {
			continue
		}
		most := pods - n
		if len(classes) > 1 {
			most = min(most, c.count)
		}
		copies := feasible.CopiesIn(c.request, free, most)
		n += copies
		if copies > 0 && i+1 < len(classes) {
			free = free.Clone().SubWithoutAssert(c.request.Clone().Multi(float64(copies)))
		}
	}
	return n
}
