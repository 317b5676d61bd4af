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
	*subJobRun
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
func (r *jobRun) placeGathered() jobResult {
	if r.groups == nil {
		return r.tryInOrder(func(opts trialOptions) jobResult {
			scope := r.anywhere(opts)
			scope.ChosenBy = r.gathering.Plugin
			return r.gatherIn(scope, opts)
		})
	}
	d, err := r.demandOf()
	if err != nil {
		r.job.JobFitErrors = err.Error()
		return jobResult{}
	}
	ways := []func(trialOptions) jobResult{func(opts trialOptions) jobResult {
		for _, c := range r.candidates(r.groups.Candidates, d, opts) {
			if result := r.gatherIn(r.groupScope(c.group, opts.within, r.groups.Plugin), opts); result.outcome != notPlaced {
				return result
			}
		}
		return jobResult{}
	}}
	if !r.groups.Required {
		ways = append(ways, func(opts trialOptions) jobResult { return r.gatherIn(r.anywhere(opts), opts) })
	}
	return r.tryInOrder(ways...)
}

// gatherIn places the job's tasks in the scope, if backfill can place the rest of its minimum.
func (r *jobRun) gatherIn(scope placementScope, opts trialOptions) jobResult {
	uid := r.job.DefaultSubJobID()
	tasks := slices.SortedStableFunc(slices.Values(r.pending.tasks[uid]), r.gathering.Compare)
	return r.withBestEffort(opts, func() jobResult {
		g := &gatherRun{subJobRun: r.subJobRun(r.job.SubJobs[uid], tasks, scope, opts), atOnce: furtherAtOnce}
		placed := g.place()
		r.observe(placed.outcome.String())
		result := jobResult{outcome: placed.outcome, rest: map[api.SubJobID][]*api.TaskInfo{uid: placed.rest}}
		if placed.outcome != notPlaced {
			result.trials = []*trial{placed.trial}
		}
		return result
	})
}

// place tries plans, with what nodes turn out to take, until one holds.
func (g *gatherRun) place() subJobResult {
	failed := subJobResult{rest: g.tasks}
	if len(g.tasks) == 0 || len(g.scope.Set.Nodes) == 0 {
		return failed
	}
	g.job.ResetSubJobFitErr(g.subJob.UID)
	classes, exact, err := g.classesToGather()
	if err != nil {
		g.gatherText = err.Error()
		return failed
	}
	slots := g.slots(classes)
	plans := g.gathering.On(slots, len(g.tasks))
	tasks, plan := g.nextPlan(plans)
	if plan != nil && !exact && g.granted() { // without a plan by numbers, which are the most that nodes take, there is none
		g.probe(slots)
		plans = g.gathering.On(slots, len(g.tasks))
		tasks, plan = g.nextPlan(plans)
	}
	for trials := 0; trials < maxGatherTrials && g.tried <= memory.MaxFurtherLooks && (trials == 0 || g.granted()); trials++ {
		if trials > 0 {
			plans = g.gathering.On(slots, len(g.tasks))
			tasks, plan = g.nextPlan(plans)
		}
		if plan == nil {
			g.gatherText = plans.Explain(min(max(g.neededByJob(), 1), len(g.tasks)))
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
			if g.neededByJob() > 0 || g.atOnce == 0 {
				break
			}
			g.queueRefused = false
			continue
		}
		if !lower(slots, took) {
			break
		}
		klog.V(4).InfoS("Nodes take fewer members than counted, the gang is gathered anew", "podGroup", klog.KRef(g.job.Namespace, g.job.Name))
	}
	return failed
}

// granted is true if the session has the steps to find out more than the first trial tells. Gangs for which it has not take turns (memory.Budget).
func (g *gatherRun) granted() bool {
	if !g.may {
		g.may = g.memory.Orders.AcquireAll(g.searchOf(g.job, "gathered "+g.scope.Set.Name, g.idleOnly), 0)
	}
	if !g.may {
		g.unfinished++
		g.gatherText = "other gangs used up what trials may take in this session: it has its turn in one of the next"
	}
	return g.may
}

// charge takes the tasks that were placed in vain from the steps that are left.
func (g *gatherRun) charge(tasks int) {
	g.tried += tasks
	g.memory.Orders.Left -= tasks * planLooks
}

// lower writes down what nodes took of their shares; false when they took all.
func lower(slots, took map[string]int) bool {
	maps.Copy(slots, took)
	return len(took) > 0
}

// nextPlan is the best plan, and the tasks that are placed by it: the job's minimum, in a domain for all its tasks if there is one; of a
// job that is ready as many as may be placed.
func (g *gatherRun) nextPlan(plans framework.GatherPlans) ([]*api.TaskInfo, []framework.NodeShare) {
	all := len(g.tasks)
	needed := g.neededByJob()
	now := plans.Most(1, min(all, g.atOnce))
	if needed > 0 || !g.gangDecides {
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
	if n >= len(g.tasks) {
		return g.tasks
	}
	lacking := g.neededByRole()
	left := n
	for _, needed := range lacking {
		left -= max(int(needed), 0)
	}
	order := func(l, r *api.TaskInfo) int { return cmp.Or(g.ssn.TaskCompareFns(l, r), g.gathering.Compare(l, r)) }
	var out []*api.TaskInfo
	for _, task := range slices.SortedFunc(slices.Values(g.tasks), order) {
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
	slices.SortStableFunc(out, g.gathering.Compare)
	return out
}

// placeByShares places the tasks by the plan: on each node the first by rank that it takes. Where some find no place nothing is placed,
// and it says what nodes took that took fewer than their share.
func (g *gatherRun) placeByShares(tasks []*api.TaskInfo, plan []framework.NodeShare) (subJobResult, map[string]int) {
	p := g.newTaskPlacer()
	p.minimum = len(tasks)
	took := map[string]int{}
	left := tasks
	for _, share := range plan {
		node, known := g.index.Number(share.Node)
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
		p.discard()
		return subJobResult{rest: g.tasks}, took
	}
	return p.end(slices.DeleteFunc(slices.Clone(g.pending.tasks[g.subJob.UID]), func(task *api.TaskInfo) bool { return task.Status != api.Pending })), nil
}

// fillNode places up to so many of the tasks on the node, and returns the others.
func (g *gatherRun) fillNode(p *taskPlacer, tasks []*api.TaskInfo, node int32, most int) (left []*api.TaskInfo) {
	refused := map[*feasible.TaskClass]bool{}
	for i, task := range tasks {
		if most == 0 || g.queueRefused {
			return append(left, tasks[i:]...)
		}
		class := g.finder.Class(task)
		if !refused[class] && g.placeOn(p, task, node) {
			most--
			continue
		}
		refused[class] = true
		left = append(left, task)
	}
	return left
}

func (g *gatherRun) placeOn(p *taskPlacer, task *api.TaskInfo, node int32) bool {
	if !p.wanted(task) {
		g.queueRefused = true
		return false
	}
	cache, err := g.finder.Cache(task)
	if err == nil {
		err = g.finder.PrePredicate(task)
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
	for _, task := range g.tasks {
		of := g.finder.Class(task)
		if at[of] == nil {
			cache, err := g.finder.Cache(task)
			if err != nil {
				return nil, false, err
			}
			at[of] = &gatherClass{candidates: g.finder.Candidates(task, cache, g.scope.Where), request: task.InitResreq}
			classes = append(classes, at[of])
			exact = exact && !of.OneByOne() && len(hostPorts(task.Pod)) == 0
		}
		at[of].count++
	}
	return classes, exact, nil
}

// slots counts by numbers how many of the tasks each node takes at the most, one after the other; of tasks that are alike, how many it
// would take if there were more.
func (g *gatherRun) slots(classes []*gatherClass) map[string]int {
	slots := map[string]int{}
	for place, node := range g.scope.Set.Nodes {
		if n := g.slotsByNumbers(classes, place); n > 0 {
			slots[g.index.Nodes[node].Name] = n
		}
	}
	return slots
}

// probe finds out what nodes take where numbers do not tell.
func (g *gatherRun) probe(slots map[string]int) {
	for _, node := range g.scope.Set.Nodes {
		name := g.index.Nodes[node].Name
		if n := slots[name]; n > 1 && g.tried < maxGatherProbes {
			slots[name] = g.probeNode(node, min(n, len(g.tasks)))
			g.charge(slots[name] + 1)
		}
	}
}

// slotsByNumbers counts them for the node at the place, by what is cached of it and what is left of its resources.
func (g *gatherRun) slotsByNumbers(classes []*gatherClass, place int) (n int) {
	node := g.index.Nodes[g.scope.Set.Nodes[place]]
	free := node.Idle
	if !g.idleOnly {
		free = feasible.FutureIdle(node)
	}
	pods := g.finder.PodSlots(node)
	for i, c := range classes {
		if n >= pods || !c.candidates.Packs(place, g.idleOnly) {
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
	p := g.newTaskPlacer()
	left := g.fillNode(p, g.tasks, node, most)
	p.discard()
	g.queueRefused = false
	return len(g.tasks) - len(left)
}

// explainGathered tells what the domains take, and what stops members on nodes if these are too few in all.
func (r *jobRun) explainGathered(e *framework.GangExplanation) {
	queue := func(g framework.NodeGroupExplanation) bool { return g.Queue != "" }
	enough := func(g framework.NodeGroupExplanation) bool { return g.Fits >= e.Needed }
	switch {
	case r.gatherText == "" || slices.ContainsFunc(e.Groups, queue):
	case slices.ContainsFunc(e.Groups, enough):
		e.Message = r.gatherText
	default:
		e.Message = r.gatherText + "; " + e.Message
	}
}
