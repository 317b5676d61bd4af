// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A gang that a plugin gathers (framework.Gathering) is placed by the plugin's plans. They are made of numbers: how many members each
// node takes. A trial tells whether every plugin agrees; where a node takes fewer after all, plans are made anew with what it took.

const (
	// maxGatherTrials bounds how many plans of a gang are tried in one place, beside maxFurtherLooks tasks in all of them.
	maxGatherTrials = 64
	// maxGatherProbes bounds how many tasks of a gang are placed to find out what nodes take where numbers do not tell.
	maxGatherProbes = 5_000
	// furtherAtOnce is how many members beyond the minimum a gathered gang is given in one turn: plans are made anew in each.
	furtherAtOnce = 64
)

// gatherRun is the gathering of a job in one scope.
type gatherRun struct {
	part    *Part
	attempt *state.Attempt
	run     *state.Run
	// atOnce is how many tasks beyond the minimum are placed at the most.
	atOnce int
	// queueRefused is true if the queue had no room for a task of a trial.
	queueRefused bool
	// may is true if the session has the steps for probes, and for trials beyond the first.
	may bool
	// tried counts the tasks that were placed in vain.
	tried int
}

// placeGathered places the job's tasks by the plans of the plugin that gathers it, within the node groups of the plugin that names them.
func placeGathered(r *state.Attempt) jobResult {
	if r.Groups == nil {
		return tryInOrder(r, func(opts state.Options) jobResult {
			scope := r.Run.Anywhere(opts)
			scope.ChosenBy = r.Gathering.Plugin
			return gatherIn(r, scope, opts)
		})
	}
	d, err := r.DemandOf()
	if err != nil {
		r.Job.JobFitErrors = err.Error()
		return jobResult{}
	}
	ways := []func(state.Options) jobResult{func(opts state.Options) jobResult {
		for _, c := range candidates(r, r.Groups.Candidates, d, opts) {
			if result := gatherIn(r, r.Run.GroupScope(c.group, opts.Within, r.Groups.Plugin), opts); result.outcome != notPlaced {
				return result
			}
		}
		return jobResult{}
	}}
	if !r.Groups.Required {
		ways = append(ways, func(opts state.Options) jobResult { return gatherIn(r, r.Run.Anywhere(opts), opts) })
	}
	return tryInOrder(r, ways...)
}

// gatherIn places the job's tasks in the scope, if backfill can place the rest of its minimum.
func gatherIn(r *state.Attempt, scope state.Scope, opts state.Options) jobResult {
	uid := r.Job.DefaultSubJobID()
	tasks := slices.SortedStableFunc(slices.Values(r.Pending.Tasks[uid]), r.Gathering.Compare)
	return withBestEffort(r, opts, func() jobResult {
		g := &gatherRun{part: newPart(r, r.Job.SubJobs[uid], tasks, scope, opts.IdleOnly), attempt: r, run: r.Run, atOnce: furtherAtOnce}
		placed := g.place()
		r.Run.Observe(placed.outcome.String())
		result := jobResult{outcome: placed.outcome, rest: map[api.SubJobID][]*api.TaskInfo{uid: placed.rest}}
		if placed.outcome != notPlaced {
			result.trials = []*trial{placed.trial}
		}
		return result
	})
}

// place tries plans, with what nodes turn out to take, until one holds.
func (g *gatherRun) place() subJobResult {
	failed := subJobResult{rest: g.part.tasks}
	if len(g.part.tasks) == 0 || len(g.part.scope.Set.Nodes) == 0 {
		return failed
	}
	g.attempt.Job.ResetSubJobFitErr(g.part.subJob.UID)
	classes, exact, err := g.classesToGather()
	if err != nil {
		g.attempt.Found.GatherText = err.Error()
		return failed
	}
	slots := g.slots(classes)
	plans := g.attempt.Gathering.On(slots, len(g.part.tasks))
	tasks, plan := g.nextPlan(plans)
	if plan != nil && !exact && g.granted() { // without a plan by numbers, which are the most that nodes take, there is none
		g.probe(slots)
		plans = g.attempt.Gathering.On(slots, len(g.part.tasks))
		tasks, plan = g.nextPlan(plans)
	}
	for trials := 0; trials < maxGatherTrials && g.tried <= memory.MaxFurtherLooks && (trials == 0 || g.granted()); trials++ {
		if trials > 0 {
			plans = g.attempt.Gathering.On(slots, len(g.part.tasks))
			tasks, plan = g.nextPlan(plans)
		}
		if plan == nil {
			g.attempt.Found.GatherText = plans.Explain(min(max(g.attempt.NeededByJob(), 1), len(g.part.tasks)))
			return failed
		}
		result, took := g.placeByShares(tasks, plan)
		if result.outcome != notPlaced {
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
		klog.V(4).InfoS("Nodes take fewer members than counted, the gang is gathered anew", "podGroup", klog.KRef(g.attempt.Job.Namespace, g.attempt.Job.Name))
	}
	return failed
}

// granted is true if the session has the steps to find out more than the first trial tells. Gangs for which it has not take turns (memory.Budget).
func (g *gatherRun) granted() bool {
	if !g.may {
		g.may = g.run.Memory.Orders.AcquireAll(g.run.SearchOf(g.attempt.Job, "gathered "+g.part.scope.Set.Name, g.part.idleOnly), 0)
	}
	if !g.may {
		g.attempt.Found.Unfinished++
		g.attempt.Found.GatherText = "other gangs used up what trials may take in this session: it has its turn in one of the next"
	}
	return g.may
}

// charge takes the tasks that were placed in vain from the steps that are left.
func (g *gatherRun) charge(tasks int) {
	g.tried += tasks
	g.run.Memory.Orders.Left -= tasks * planLooks
}

// lower writes down what nodes took of their shares; false when they took all.
func lower(slots, took map[string]int) bool {
	maps.Copy(slots, took)
	return len(took) > 0
}

// nextPlan is the best plan, and the tasks that are placed by it: the job's minimum, in a domain for all its tasks if there is one; of a
// job that is ready as many as may be placed.
func (g *gatherRun) nextPlan(plans framework.GatherPlans) ([]*api.TaskInfo, []framework.NodeShare) {
	all := len(g.part.tasks)
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

// chosen are so many of the tasks, by rank: those that the minima of roles need, and the first of the others, in task order and by rank.
func (g *gatherRun) chosen(n int) []*api.TaskInfo {
	if n >= len(g.part.tasks) {
		return g.part.tasks
	}
	lacking := g.part.neededByRole()
	left := n
	for _, needed := range lacking {
		left -= max(int(needed), 0)
	}
	order := func(l, r *api.TaskInfo) int {
		return cmp.Or(g.run.Session.TaskCompareFns(l, r), g.attempt.Gathering.Compare(l, r))
	}
	var out []*api.TaskInfo
	for _, task := range slices.SortedFunc(slices.Values(g.part.tasks), order) {
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
	slices.SortStableFunc(out, g.attempt.Gathering.Compare)
	return out
}

// placeByShares places the tasks by the plan: on each node the first by rank that it takes. Where some find no place nothing is placed,
// and it says what nodes took that took fewer than their share.
func (g *gatherRun) placeByShares(tasks []*api.TaskInfo, plan []framework.NodeShare) (subJobResult, map[string]int) {
	p := newPlacer(g.part)
	p.minimum = len(tasks)
	took := map[string]int{}
	left := tasks
	for _, share := range plan {
		node, known := g.run.Index.Number(share.Node)
		if !known {
			continue
		}
		before := len(left)
		left = g.fillNode(p, left, node, share.Members)
		if n := before - len(left); n < share.Members {
			took[share.Node] = n
		}
		if g.queueRefused {
			g.atOnce = len(tasks) - len(left)
			break
		}
	}
	if len(left) > 0 {
		p.noteShortfall()
		p.trial.discard()
		return subJobResult{rest: g.part.tasks}, took
	}
	return p.end(stillPending(g.attempt.Pending.Tasks[g.part.subJob.UID])), nil
}

// fillNode places up to so many of the tasks on the node, and returns the others.
func (g *gatherRun) fillNode(p *placer, tasks []*api.TaskInfo, node int32, most int) (left []*api.TaskInfo) {
	refused := map[*feasible.TaskClass]bool{}
	for i, task := range tasks {
		if most == 0 || g.queueRefused {
			return append(left, tasks[i:]...)
		}
		class := g.run.Finder.Class(task)
		if !refused[class] && g.placeOn(p, task, node) {
			most--
			continue
		}
		refused[class] = true
		left = append(left, task)
	}
	return left
}

func (g *gatherRun) placeOn(p *placer, task *api.TaskInfo, node int32) bool {
	if !p.wanted(task) {
		g.queueRefused = true
		return false
	}
	cache, err := g.run.Finder.Cache(task)
	if err == nil {
		err = g.run.Finder.PrePredicate(task)
	}
	return err == nil && p.placeOnNode(task, cache, node)
}

// gatherClass is tasks of a gang that are alike.
type gatherClass struct {
	candidates *feasible.CandidateNodes
	request    *api.Resource
	count      int
}

// classesToGather are the classes of the tasks. exact is true if numbers tell how many of them a node takes.
func (g *gatherRun) classesToGather() (classes []*gatherClass, exact bool, err error) {
	at := map[*feasible.TaskClass]*gatherClass{}
	exact = true
	for _, task := range g.part.tasks {
		of := g.run.Finder.Class(task)
		if at[of] == nil {
			cache, err := g.run.Finder.Cache(task)
			if err != nil {
				return nil, false, err
			}
			at[of] = &gatherClass{candidates: g.run.Finder.Candidates(task, cache, g.part.scope.Where), request: task.InitResreq}
			classes = append(classes, at[of])
			exact = exact && !of.OneByOne() && !state.HasHostPorts(task.Pod)
		}
		at[of].count++
	}
	return classes, exact, nil
}

// slots counts by numbers how many of the tasks each node takes at the most, one after the other; of tasks that are alike, how many it
// would take if there were more.
func (g *gatherRun) slots(classes []*gatherClass) map[string]int {
	slots := map[string]int{}
	for place, node := range g.part.scope.Set.Nodes {
		if n := g.slotsByNumbers(classes, place); n > 0 {
			slots[g.run.Index.Nodes[node].Name] = n
		}
	}
	return slots
}

// probe finds out what nodes take where numbers do not tell.
func (g *gatherRun) probe(slots map[string]int) {
	for _, node := range g.part.scope.Set.Nodes {
		name := g.run.Index.Nodes[node].Name
		if n := slots[name]; n > 1 && g.tried < maxGatherProbes {
			slots[name] = g.probeNode(node, min(n, len(g.part.tasks)))
			g.charge(slots[name] + 1)
		}
	}
}

// slotsByNumbers counts them for the node at the place, by what is cached of it and what is left of its resources.
func (g *gatherRun) slotsByNumbers(classes []*gatherClass, place int) (n int) {
	node := g.run.Index.Nodes[g.part.scope.Set.Nodes[place]]
	free := node.Idle
	if !g.part.idleOnly {
		free = feasible.FutureIdle(node)
	}
	pods := g.run.Finder.PodSlots(node)
	for i, c := range classes {
		if n >= pods || !c.candidates.Packs(place, g.part.idleOnly) {
			continue
		}
		most := pods - n
		if len(classes) > 1 {
			most = min(most, c.count)
		}
		copies := copiesIn(c.request, free, most)
		n += copies
		if copies > 0 && i+1 < len(classes) {
			free = free.Clone().SubWithoutAssert(c.request.Clone().Multi(float64(copies)))
		}
	}
	return n
}

// copiesIn is how many such requests fit into what is free, up to most.
func copiesIn(request, free *api.Resource, most int) int {
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

// probeNode places up to so many of the tasks on the node and takes them back: plugins tell how many it takes that look at what else is
// on it.
func (g *gatherRun) probeNode(node int32, most int) int {
	p := newPlacer(g.part)
	left := g.fillNode(p, g.part.tasks, node, most)
	p.trial.discard()
	g.queueRefused = false
	return len(g.part.tasks) - len(left)
}
