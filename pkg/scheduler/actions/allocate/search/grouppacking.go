// SPDX-License-Identifier: Apache-2.0

package search

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// maxAssignments bounds how many packing plans are searched for a gang group, over all assignments of its gangs to node
// groups.
const maxAssignments = 64

// packedGang is a gang of a gang group, with its data for a packing plan of the whole gang group.
type packedGang struct {
	attempt *state.Attempt
	// scopes are the sets of nodes where the gang may be placed.
	scopes []state.Scope
	// scope is the set of nodes to which the current assignment assigns the gang.
	scope  state.Scope
	tasks  []*api.TaskInfo
	needed int
}

// placeByPlan places the gangs by one packing plan for all of them. It tries assignments of gangs to node groups, up to
// a bound. Trials that place one gang after the other miss such plans if gangs share nodes.
func (u *GroupSearch) placeByPlan() PlacedGangs {
	var all []*packedGang
	for _, job := range u.gangs {
		g := u.packedGang(job)
		if g == nil {
			return nil
		}
		all = append(all, g)
	}
	left := maxAssignments
	return u.assign(all, 0, &left)
}

// packedGang returns the gang with its data for a packing plan of the gang group; nil if arithmetic on resources alone
// does not decide where the gang fits.
func (u *GroupSearch) packedGang(job *api.JobInfo) *packedGang {
	r, err := state.NewAttempt(u.run, job, u.pending[job.UID], false)
	if err != nil || r.Planner != nil || r.DividesItself() || len(job.TaskStatusIndex[api.Pipelined]) > 0 {
		return nil
	}
	g := &packedGang{attempt: r, tasks: r.Pending.Tasks[job.DefaultSubJobID()], needed: r.NeededByJob()}
	if g.needed < 1 || g.needed > len(g.tasks) || g.needed < len(g.tasks) && len(r.NeededByRole()) > 0 {
		return nil
	}
	opts := state.Options{IdleOnly: u.idleOnly}
	if r.Groups == nil {
		g.scopes = []state.Scope{u.run.Anywhere(opts)}
		return g
	}
	for _, group := range r.Groups.Candidates {
		if !r.Refuted(r.Run.GroupSet(group, nil), opts) {
			g.scopes = append(g.scopes, r.Run.GroupScope(group, nil, r.Groups.Plugin))
		}
	}
	if !r.Groups.Required {
		g.scopes = append(g.scopes, u.run.Anywhere(opts))
	}
	return g
}

// assign tries ways to assign each gang from index next on to one of the sets of nodes where the gang may be placed
// (packedGang.scopes). Once the last gang is assigned, it places all gangs. left is how many more plans may be searched.
func (u *GroupSearch) assign(all []*packedGang, next int, left *int) PlacedGangs {
	if next == len(all) {
		return u.placePacked(all, left)
	}
	for _, scope := range all[next].scopes {
		if *left == 0 {
			return nil
		}
		all[next].scope = scope
		if placed := u.assign(all, next+1, left); placed != nil {
			return placed
		}
	}
	return nil
}

// gangClass is a class of tasks in a packing problem: tasks of one gang and one task class.
type gangClass struct {
	gang  *packedGang
	tasks []*api.TaskInfo
}

// placePacked places the gangs in the scopes to which they are assigned, if a packing plan for all of them exists and
// every plugin accepts it. Each further plan leaves out the pair of node and class that was refused in the last one.
func (u *GroupSearch) placePacked(all []*packedGang, left *int) PlacedGangs {
	*left--
	problem, classes, nodes := u.problemOf(all)
	if problem == nil {
		return nil
	}
	for plans := 0; plans == 0 || plans < maxPlans && *left > 0; plans++ {
		if plans > 0 {
			*left--
		}
		found, done := u.run.CrossSession.Solve(problem, u.run.SearchOf(u.gangs[0], "packed", u.idleOnly), maxAssignments)
		u.incomplete = u.incomplete || !done
		if found.Answer != packing.Fits {
			return nil
		}
		planned := plannedNodes(found.Plan, classes, nodes)
		placed, refused := u.placeAs(all, planned)
		if refused == nil {
			return placed
		}
		class := slices.IndexFunc(classes, func(c gangClass) bool { return slices.Contains(c.tasks, refused) })
		problem = problem.Without(slices.Index(nodes, planned[refused.UID]), class)
	}
	return nil
}

// plannedNodes returns the node of each task that the plan places. nodes are the plan's nodes, by node number.
func plannedNodes(plan packing.Plan, classes []gangClass, nodes []int32) map[api.TaskID]int32 {
	planned := map[api.TaskID]int32{}
	next := make([]int, len(classes))
	for n, taken := range plan {
		for k, count := range taken {
			for _, task := range classes[k].tasks[next[k] : next[k]+count] {
				planned[task.UID] = nodes[n]
			}
			next[k] += count
		}
	}
	return planned
}

// placeAs places the gangs' tasks on their planned nodes. It places all gangs or none. If plugins refuse a task on its
// node, it returns the task.
func (u *GroupSearch) placeAs(all []*packedGang, planned map[api.TaskID]int32) (placed PlacedGangs, refused *api.TaskInfo) {
	for _, g := range all {
		u.run.Session.SetCurrentJob(g.attempt.Job.UID)
		r := *g.attempt
		r.Found = state.Findings{}
		opts := state.Options{IdleOnly: u.idleOnly, Places: 1}
		result := withBestEffort(&r, opts, func() trial.Result {
			subJob := r.Job.SubJobs[r.Job.DefaultSubJobID()]
			part := trial.NewPart(&r, subJob, r.Pending.Tasks[subJob.UID], g.scope, u.idleOnly)
			var done trial.PartResult
			done, refused = trial.TryPlanned(part, planned)
			return trial.ResultOf(subJob, done)
		})
		if result.Outcome == trial.NotPlaced {
			u.incomplete = true // the plan fits the resources, so this failure has a cause outside of the fingerprint of the gang group (explain.GangGroup)
			placed.discard()
			return nil, refused
		}
		u.run.Failed.NotePlaced()
		placed = append(placed, PlacedGang{&r, result})
	}
	return placed, nil
}

// problemOf returns the packing problem of the gangs in the scopes to which they are assigned, the problem's classes,
// and its nodes; nil if the gangs cannot be described as a packing problem.
func (u *GroupSearch) problemOf(all []*packedGang) (*packing.Problem, []gangClass, []int32) {
	var tasks []*api.TaskInfo
	for _, g := range all {
		tasks = append(tasks, g.tasks...)
	}
	in := &state.PackingInput{Run: u.run, Names: state.ResourceNames(tasks)}
	var classes []gangClass
	var candidates []*feasible.CandidateNodes
	for role, g := range all {
		at := map[*feasible.TaskClass]int{}
		for _, task := range g.tasks {
			class := u.run.Finder.Class(task)
			k, known := at[class]
			if !known {
				cache, err := u.run.Finder.Cache(task)
				u.incomplete = u.incomplete || err != nil // the fingerprint of the gang group does not cover why a pre-predicate fails
				if err != nil || len(classes) == state.MaxPackingClasses || state.HasHostPorts(task.Pod) {
					return nil, nil, nil
				}
				k = len(classes)
				at[class] = k
				classes = append(classes, gangClass{gang: g})
				candidates = append(candidates, u.run.Finder.Candidates(task, cache, g.scope.Where))
				in.Classes, in.Tasks = append(in.Classes, class), append(in.Tasks, nil)
				in.Problem.Classes = append(in.Problem.Classes, packing.TaskClass{Request: state.Vector(task.InitResreq, in.Names), Role: role})
			}
			classes[k].tasks = append(classes[k].tasks, task)
			in.Tasks[k] = append(in.Tasks[k], task)
			in.Problem.Classes[k].Count++
		}
		in.Problem.Roles = append(in.Problem.Roles, g.needed)
		in.Problem.Wanted += g.needed
	}
	set := u.run.Index.All
	problem, nodes := in.ProblemOn(set, u.idleOnly, func(k, place int) bool {
		at, within := classes[k].gang.scope.Set.Place(set.Nodes[place])
		return within && candidates[k].Packs(int(at), u.idleOnly)
	})
	return problem, classes, nodes
}
