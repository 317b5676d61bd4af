// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/crosssession"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// PackingInput describes tasks of different classes by their requests: how many tasks each class has, and how many of
// all tasks are wanted. If the resources allow no plan, no trial can place the tasks, because plugins only refuse more
// nodes.
type PackingInput struct {
	Run     *Run
	Classes []*feasible.TaskClass
	// Caches are the caches of the classes; nil until FillCaches is called.
	Caches []*feasible.ClassCache
	// Tasks are the tasks of each class.
	Tasks [][]*api.TaskInfo
	Names []v1.ResourceName
	// Problem is the packing problem without nodes, which ProblemOn adds.
	Problem packing.Problem
}

const (
	// MaxPackingClasses bounds the number of classes of a problem that is to be solved.
	MaxPackingClasses = 64
	// maxRefutedClasses bounds the number of classes of a problem that is only to be proved impossible. Similar classes
	// of an input with more classes are merged for the proof.
	maxRefutedClasses = 1024
)

// NewPackingInput returns the input for a packing problem that is to be solved. wanted is how many of the tasks are to be
// placed, and minima at least how many of each role. The input is nil if the tasks are of one class, or of too many
// classes.
func (r *Attempt) NewPackingInput(tasks []*api.TaskInfo, wanted int, minima map[string]int32) *PackingInput {
	return r.packingInputOf(r.maxPackingClasses(), tasks, wanted, minima)
}

// NewRefutableInput is like NewPackingInput, but for a problem that is only to be proved impossible, so the tasks may be
// of any number of classes.
func (r *Attempt) NewRefutableInput(tasks []*api.TaskInfo, wanted int, minima map[string]int32) *PackingInput {
	return r.packingInputOf(len(tasks), tasks, wanted, minima)
}

// maxPackingClasses returns how many classes a problem may have that is to be solved.
func (r *Attempt) maxPackingClasses() int { return min(MaxPackingClasses, r.Run.Finder.MaxCaches()) }

// packingInputOf returns the input for a packing problem. wanted is how many of the tasks are to be placed, and minima
// at least how many of each role. The input is nil if the tasks are of one class, or of more classes than the parameter
// most.
func (r *Attempt) packingInputOf(most int, tasks []*api.TaskInfo, wanted int, minima map[string]int32) *PackingInput {
	in := &PackingInput{Run: r.Run, Names: ResourceNames(tasks)}
	at := map[*feasible.TaskClass]int{}
	for _, task := range tasks {
		class := r.Run.Finder.Class(task)
		i, ok := at[class]
		if !ok {
			if i = len(in.Classes); i == most {
				return nil
			}
			at[class] = i
			in.Classes = append(in.Classes, class)
			in.Tasks = append(in.Tasks, nil)
		}
		in.Tasks[i] = append(in.Tasks[i], task)
	}
	if len(in.Classes) < 2 {
		return nil
	}
	var roles []string
	if wanted < len(tasks) {
		roles = slices.Sorted(maps.Keys(minima))
		for _, role := range roles {
			in.Problem.Roles = append(in.Problem.Roles, int(minima[role]))
		}
	}
	in.Problem.Wanted = wanted
	for _, of := range in.Tasks {
		in.Problem.Classes = append(in.Problem.Classes, packing.TaskClass{
			Request: Vector(of[0].InitResreq, in.Names), Count: len(of), Role: slices.Index(roles, of[0].TaskRole),
		})
	}
	if r.Run.Finder.ChecksPorts() {
		in.excludeByPorts()
	}
	return in
}

// InputOfGangs returns the input for all pending tasks of several gangs, for a proof that the gangs have no room together.
// It leaves out ready gangs, and the minima of roles.
func InputOfGangs(gangs []*Attempt) *PackingInput {
	var tasks []*api.TaskInfo
	wanted := 0
	for _, r := range gangs {
		if of := r.tasksOfMinimum(); len(of) > 0 {
			tasks, wanted = append(tasks, of...), wanted+min(r.leastNeeded(), len(of))
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	return gangs[0].NewRefutableInput(tasks, wanted, nil)
}

// jobInput returns the input for all pending tasks of the job, of any number of classes. The number of wanted tasks is the
// smallest number that the job's minimum needs. The input is nil for a ready job.
func (r *Attempt) jobInput() *PackingInput {
	tasks := r.tasksOfMinimum()
	if len(tasks) == 0 {
		return nil
	}
	return r.NewRefutableInput(tasks, min(r.leastNeeded(), len(tasks)), r.NeededByRole())
}

// tasksOfMinimum returns the pending tasks from which the job's minimum is to be placed; none for a ready job.
func (r *Attempt) tasksOfMinimum() (tasks []*api.TaskInfo) {
	if !r.Run.Progress.GangDecides || r.Run.Progress.JobReady(r.Job) {
		return nil
	}
	for _, subJob := range r.Pending.SubJobs {
		tasks = append(tasks, r.Pending.Tasks[subJob.UID]...)
	}
	return tasks
}

// TakesFn reports whether a node may take tasks of a class. class is an index in PackingInput.Problem.Classes, and place an index
// in the nodes of a set.
type TakesFn func(class int, place int) bool

// anyNode is a TakesFn that accepts every node.
func anyNode(int, int) bool { return true }

// ByCachedFilterResults returns a TakesFn for the set that accepts nodes by cached filter results, but ignores results
// that apply to some jobs only (framework.PerJob).
func (in *PackingInput) ByCachedFilterResults(set *nodeset.Set) TakesFn {
	return func(class, place int) bool { return in.Caches[class].Results.FilterResult(set.Nodes[place]).Fits }
}

// ProblemOn returns the packing problem on the set, and the numbers of the problem's nodes: the nodes that take a task
// of some class. Equal nodes are adjacent. Of many equal nodes, only as many are used as there are tasks.
func (in *PackingInput) ProblemOn(set *nodeset.Set, idleOnly bool, takes TakesFn) (*packing.Problem, []int32) {
	type keyed struct {
		packing.Node
		key   string
		index int32
	}
	var found []keyed
	equal := map[string]int{}
	most := in.Problem.Tasks()
	for place, node := range set.Nodes {
		info := in.Run.Index.Nodes[node]
		room := feasible.FutureIdle(info)
		if idleOnly {
			room = info.Idle
		}
		n := packing.Node{Room: Vector(room, in.Names), Slots: min(in.Run.Finder.PodSlots(info), most), Takes: make([]bool, len(in.Problem.Classes))}
		some := false
		for class := range in.Problem.Classes {
			n.Takes[class] = in.Problem.Classes[class].FitsInto(n.Room) && takes(class, place)
			some = some || n.Takes[class]
		}
		if key := n.Key(); some && n.Slots > 0 && equal[key] < most {
			equal[key]++
			found = append(found, keyed{n, key, node})
		}
	}
	slices.SortStableFunc(found, func(l, r keyed) int { return cmp.Compare(l.key, r.key) })
	problem, nodes := in.Problem, make([]int32, len(found))
	problem.Nodes = make([]packing.Node, len(found))
	for i, n := range found {
		problem.Nodes[i], nodes[i] = n.Node, n.index
	}
	return &problem, nodes
}

// FillCaches makes sure that Caches has the caches of filter results of all classes. Caches keeps them, because the
// session's feasible.Finder drops its caches when it has too many.
func (in *PackingInput) FillCaches() error {
	if in.Caches != nil {
		return nil
	}
	var caches []*feasible.ClassCache
	for _, tasks := range in.Tasks {
		cache, err := in.Run.Finder.Cache(tasks[0])
		if err != nil {
			return err
		}
		caches = append(caches, cache)
	}
	in.Caches = caches
	return nil
}

// BySize returns the indexes of the classes, the smallest tasks first.
func (in *PackingInput) BySize() []int {
	order := make([]int, len(in.Classes))
	for class := range order {
		order[class] = class
	}
	slices.SortStableFunc(order, func(l, r int) int {
		return cmp.Compare(in.Run.DominantShare(in.Tasks[l][0]), in.Run.DominantShare(in.Tasks[r][0]))
	})
	return order
}

// Refuted reports whether arithmetic on resources proves that the set has no room for the job's demand.
func (r *Attempt) Refuted(set *nodeset.Set, opts Options) bool {
	return r.RefutedAs(r.Refutable, set, opts.IdleOnly)
}

// RefutedAs reports whether arithmetic on resources proves that the set has no room for the wanted tasks of the input,
// which are tasks of the job. It returns false for a job with members that already wait for resources being released,
// unless idleOnly is set.
func (r *Attempt) RefutedAs(in *PackingInput, set *nodeset.Set, idleOnly bool) bool {
	if in == nil || !idleOnly && len(r.Job.TaskStatusIndex[api.Pipelined]) > 0 {
		return false
	}
	problem, _ := in.merged().ProblemOn(set, idleOnly, anyNode)
	return r.Run.CrossSession.Refute(problem) == packing.Impossible
}

// merged returns an easier input for the proof of RefutedAs, with at most maxRefutedClasses classes: if its tasks have no
// room, the original tasks have none. Its requests may be smaller, and it has no tasks, so it is not for plans and
// explanations.
func (in *PackingInput) merged() *PackingInput {
	scale := Vector(in.Run.Index.LargestNode(), in.Names)
	return &PackingInput{Run: in.Run, Names: in.Names, Problem: *in.Problem.Merged(maxRefutedClasses, scale)}
}

// Packable reports whether the set has room for the job's demand on nodes that the cached filter results accept. places
// is how many node sets the job still has to try, including this one: they share the search steps that the session has
// left. The answer is Unknown for a job with sub-groups.
func (r *Attempt) Packable(set *nodeset.Set, places int) packing.Answer {
	if r.Packing == nil || r.Job.ContainsSubJobPolicy() || r.Packing.FillCaches() != nil {
		return packing.Unknown
	}
	problem, _ := r.Packing.ProblemOn(set, true, r.Packing.ByCachedFilterResults(set))
	return r.FindPlan(problem, set, true, places).Answer
}

// FindPlan looks for a packing plan for a problem that was made for the set of nodes. The search shares the session's
// budget of search steps (crosssession.Cache.Packing) with the job's searches in other sets. places is the number of
// sets that are still to be tried, including this one.
func (r *Attempt) FindPlan(problem *packing.Problem, set *nodeset.Set, idleOnly bool, places int) crosssession.Solution {
	found, done := r.Run.CrossSession.Solve(problem, r.Run.SearchOf(r.Job, set.Name, idleOnly), places)
	if !done {
		r.Found.Unfinished++
	}
	return found
}

// ResourceNames returns the scalar resources that the tasks request.
func ResourceNames(tasks []*api.TaskInfo) []v1.ResourceName {
	var names []v1.ResourceName
	for _, task := range tasks {
		for name := range task.InitResreq.ScalarResources {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Vector returns the amounts of cpu, memory and the named resources, in this order.
func Vector(r *api.Resource, names []v1.ResourceName) []float64 {
	out := []float64{r.MilliCPU, r.Memory}
	for _, name := range names {
		out = append(out, r.ScalarResources[name])
	}
	return out
}

// DecidedByNumbers reports whether only resources and the cached filter results decide where the tasks are placed, in
// node groups named by plugin chosenBy. That is so if no task is placed one by one, has claims or devices, or is
// nominated to a node, and no pod placed in the session excludes a task.
func (in *PackingInput) DecidedByNumbers(chosenBy string) bool {
	return in.decidedBy(in.Run.Finder.DecidedByNumbers, chosenBy)
}

// decidedBy reports whether the parameter decided (such as Finder.DecidedByNumbers) returns true for the first task of
// each class, and no task has claims, requests devices, or is nominated to a node. chosenBy is the plugin that chose the
// node group.
func (in *PackingInput) decidedBy(decided func(task *api.TaskInfo, chosenBy string) bool, chosenBy string) bool {
	for _, tasks := range in.Tasks {
		if !decided(tasks[0], chosenBy) || framework.HasClaims(tasks[0].Pod) || in.Run.asksDevices(tasks[0]) {
			return false
		}
		if slices.ContainsFunc(tasks, func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }) {
			return false
		}
	}
	return true
}

// Exclude makes plans keep classes apart that exclude each other by anti-affinity. It is not called before a proof that
// no plan exists (Refuted), because a node without the topology label of an anti-affinity term takes both
// tasks that the term keeps apart.
func (in *PackingInput) Exclude() {
	for i := range in.Classes {
		for j := range i + 1 {
			if in.Run.Finder.Exclude(in.Tasks[i][0], in.Tasks[j][0]) {
				in.Problem.Exclude(i, j)
			}
		}
	}
}
