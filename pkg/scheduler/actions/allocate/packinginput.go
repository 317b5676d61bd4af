// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/memory"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// packingInput is what unlike tasks ask for, in numbers: so many of each class, of which so many are wanted. What numbers refuse
// no trial can place, as plugins only refuse more.
type packingInput struct {
	run     *Run
	classes []*feasible.TaskClass
	// caches are the classes', once they are filled.
	caches []*feasible.ClassCache
	// tasks are those of each class.
	tasks [][]*api.TaskInfo
	names []v1.ResourceName
	// problem has no nodes yet.
	problem packing.Problem
}

const (
	// maxPackingClasses bounds of how many classes a problem is that is to be solved.
	maxPackingClasses = 64
	// maxRefutedClasses bounds it for one that is only to be refuted, mostly with classes taken together.
	maxRefutedClasses = 256
)

// newPackingInput returns the input for the tasks of which so many are wanted, and of each role as many as minima has; nil when the tasks
// are alike, or of too many classes.
func (r *Attempt) newPackingInput(tasks []*api.TaskInfo, wanted int, minima map[string]int32) *packingInput {
	return r.packingInputOf(min(maxPackingClasses, r.run.finder.MaxCaches()), tasks, wanted, minima)
}

// packingInputOf is the same for tasks of so many classes at the most.
func (r *Attempt) packingInputOf(most int, tasks []*api.TaskInfo, wanted int, minima map[string]int32) *packingInput {
	in := &packingInput{run: r.run, names: resourceNames(tasks)}
	at := map[*feasible.TaskClass]int{}
	for _, task := range tasks {
		class := r.run.finder.Class(task)
		i, ok := at[class]
		if !ok {
			if i = len(in.classes); i == most {
				return nil
			}
			at[class] = i
			in.classes = append(in.classes, class)
			in.tasks = append(in.tasks, nil)
		}
		in.tasks[i] = append(in.tasks[i], task)
	}
	if len(in.classes) < 2 {
		return nil
	}
	var roles []string
	if wanted < len(tasks) {
		roles = slices.Sorted(maps.Keys(minima))
		for _, role := range roles {
			in.problem.Roles = append(in.problem.Roles, int(minima[role]))
		}
	}
	in.problem.Wanted = wanted
	var pods []*v1.Pod
	for _, of := range in.tasks {
		pods = append(pods, of[0].Pod)
	}
	for i, ports := range r.run.exclusivePorts(pods) {
		of := in.tasks[i]
		in.problem.Kinds = append(in.problem.Kinds, packing.Kind{
			Request: vector(of[0].InitResreq, in.names), Count: len(of), Ports: ports, Role: slices.Index(roles, of[0].TaskRole),
		})
	}
	return in
}

// jobInput is the input for the job, of which so many tasks are wanted as its minimum needs at the least. A job that is ready has none.
func (r *Attempt) jobInput() *packingInput {
	if !r.run.progress.gangDecides || r.run.progress.jobReady(r.job) {
		return nil
	}
	var tasks []*api.TaskInfo
	for _, subJob := range r.pending.subJobs {
		tasks = append(tasks, r.pending.tasks[subJob.UID]...)
	}
	if len(tasks) == 0 {
		return nil
	}
	return r.newPackingInput(tasks, min(r.leastNeeded(), len(tasks)), r.neededByRole())
}

// takesFn is true if the node at a place of a set may take tasks of a class, which is named by its place in the input.
type takesFn func(class int, place int) bool

// anyNode takes all that there is room for.
func anyNode(int, int) bool { return true }

// byCachedVerdicts asks the cached verdicts, but not those that are the job's.
func (in *packingInput) byCachedVerdicts(set *nodeset.Set) takesFn {
	return func(class, place int) bool { return in.caches[class].Verdict(set.Nodes[place]).Fits }
}

// problemOn returns the problem on the set, and the nodes it is on: those that take a task of some class, and of nodes that are
// alike no more than there are tasks. Nodes that are alike follow each other.
func (in *packingInput) problemOn(set *nodeset.Set, idleOnly bool, takes takesFn) (*packing.Problem, []int32) {
	type keyed struct {
		packing.Node
		key   string
		index int32
	}
	var found []keyed
	alike := map[string]int{}
	most := 0
	for _, of := range in.tasks {
		most += len(of)
	}
	for place, node := range set.Nodes {
		info := in.run.index.Nodes[node]
		room := feasible.FutureIdle(info)
		if idleOnly {
			room = info.Idle
		}
		n := packing.Node{Room: vector(room, in.names), Slots: min(in.run.finder.PodSlots(info), most), Takes: make([]bool, len(in.classes))}
		some := false
		for class := range in.classes {
			n.Takes[class] = in.problem.Kinds[class].FitsInto(n.Room) && takes(class, place)
			some = some || n.Takes[class]
		}
		if key := n.Key(); some && n.Slots > 0 && alike[key] < most {
			alike[key]++
			found = append(found, keyed{n, key, node})
		}
	}
	slices.SortStableFunc(found, func(l, r keyed) int { return cmp.Compare(l.key, r.key) })
	problem, nodes := in.problem, make([]int32, len(found))
	problem.Nodes = make([]packing.Node, len(found))
	for i, n := range found {
		problem.Nodes[i], nodes[i] = n.Node, n.index
	}
	return &problem, nodes
}

// fillCaches makes sure that all classes have their caches. These are kept here, as a class may lose its own to another that needs one.
func (in *packingInput) fillCaches() error {
	if in.caches != nil {
		return nil
	}
	var caches []*feasible.ClassCache
	for _, tasks := range in.tasks {
		cache, err := in.run.finder.Cache(tasks[0])
		if err != nil {
			return err
		}
		caches = append(caches, cache)
	}
	in.caches = caches
	return nil
}

// bySize are the places of the classes, the smallest first.
func (in *packingInput) bySize() []int {
	order := make([]int, len(in.classes))
	for class := range order {
		order[class] = class
	}
	slices.SortStableFunc(order, func(l, r int) int {
		return cmp.Compare(in.run.dominantShare(in.tasks[l][0]), in.run.dominantShare(in.tasks[r][0]))
	})
	return order
}

// refuted is true if numbers alone leave no room in the set for what the job asks for.
func (r *Attempt) refuted(set *nodeset.Set, opts trialOptions) bool {
	return r.refutedAs(r.packing, set, opts.idleOnly)
}

// refutedAs is true if numbers alone leave no room in the set for the input, of tasks of the job. Those that wait for resources being
// released already are not in it.
func (r *Attempt) refutedAs(in *packingInput, set *nodeset.Set, idleOnly bool) bool {
	if in == nil || !idleOnly && len(r.job.TaskStatusIndex[api.Pipelined]) > 0 {
		return false
	}
	problem, _ := in.problemOn(set, idleOnly, anyNode)
	return r.run.memory.Refute(problem) == packing.Impossible
}

// packable answers whether there is room in the set for what the job asks for, on nodes that the cached verdicts leave. Of a job that
// divides itself that is not known.
func (r *Attempt) packable(set *nodeset.Set, places int) packing.Answer {
	if r.packing == nil || r.job.ContainsSubJobPolicy() || r.packing.fillCaches() != nil {
		return packing.Unknown
	}
	problem, _ := r.packing.problemOn(set, true, r.packing.byCachedVerdicts(set))
	return r.findPlan(problem, set, true, places).Answer
}

// findPlan looks for a plan for the problem, which is on the set.
func (r *Attempt) findPlan(problem *packing.Problem, set *nodeset.Set, idleOnly bool, places int) memory.Solution {
	found, done := r.run.memory.Solve(problem, r.run.searchOf(r.job, set.Name, idleOnly), places)
	if !done {
		r.found.unfinished++
	}
	return found
}

// allAddresses is the host IP of ports that name none.
const allAddresses = "0.0.0.0"

func resourceNames(tasks []*api.TaskInfo) []v1.ResourceName {
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

// hostPort is a port of a protocol.
type hostPort struct {
	protocol v1.Protocol
	port     int32
}

// hostPorts are the host ports that the pod asks for, and the addresses that it asks for each of.
func hostPorts(pod *v1.Pod) map[hostPort][]string {
	ports := map[hostPort][]string{}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				key := hostPort{cmp.Or(port.Protocol, v1.ProtocolTCP), port.HostPort}
				ports[key] = append(ports[key], cmp.Or(port.HostIP, allAddresses))
			}
		}
	}
	return ports
}

// exclusivePorts names for each of the pods what no two tasks on a node can both have: its host ports by address. One that is asked for of
// all addresses is all that any of them asks for. There is none where no plugin looks at ports.
func (s *Run) exclusivePorts(pods []*v1.Pod) [][]string {
	if !s.finder.ChecksPorts() {
		return make([][]string, len(pods))
	}
	addresses := map[hostPort][]string{}
	for _, pod := range pods {
		for port, of := range hostPorts(pod) {
			addresses[port] = append(addresses[port], of...)
		}
	}
	out := make([][]string, len(pods))
	for i, pod := range pods {
		for port, of := range hostPorts(pod) {
			if slices.Contains(of, allAddresses) {
				of = append(slices.Clone(addresses[port]), allAddresses)
			}
			for _, address := range of {
				out[i] = append(out[i], fmt.Sprint(port.protocol, port.port, " ", address))
			}
		}
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}
	return out
}

// vector lists the amounts of cpu, memory and the named resources.
func vector(r *api.Resource, names []v1.ResourceName) []float64 {
	out := []float64{r.MilliCPU, r.Memory}
	for _, name := range names {
		out = append(out, r.ScalarResources[name])
	}
	return out
}

// decidedByNumbers is true if numbers and the cached verdicts are all that decides on where the tasks go, in groups that the
// plugin has named: no task is asked about one by one, has claims or devices, or is nominated to a node, and no pod that was
// placed in the session keeps it away.
func (in *packingInput) decidedByNumbers(chosenBy string) bool {
	return in.decidedBy(in.run.finder.DecidedByNumbers, chosenBy)
}

// decidedBy is the same for all that decides on a task of each class.
func (in *packingInput) decidedBy(decided func(task *api.TaskInfo, chosenBy string) bool, chosenBy string) bool {
	for _, tasks := range in.tasks {
		if !decided(tasks[0], chosenBy) || framework.HasClaims(tasks[0].Pod) || in.run.asksDevices(tasks[0]) {
			return false
		}
		if slices.ContainsFunc(tasks, func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }) {
			return false
		}
	}
	return true
}
