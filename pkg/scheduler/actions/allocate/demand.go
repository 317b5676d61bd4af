// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// demand is what unlike tasks ask for, in numbers: so many of each kind, of which so many are wanted. What numbers refuse
// no attempt can place, as plugins only refuse more.
type demand struct {
	kinds []*kind
	// tasks are those of each kind.
	tasks [][]*api.TaskInfo
	names []v1.ResourceName
	// problem has no nodes yet.
	problem packing.Problem
}

// maxDemandKinds bounds of how many kinds a demand is.
const maxDemandKinds = 64

// demandOf returns the demand of the tasks of which so many are wanted; nil when they are alike, or of too many kinds.
func (a *allocation) demandOf(job *api.JobInfo, tasks []*api.TaskInfo, wanted int) *demand {
	dm := &demand{names: resourceNames(tasks)}
	at := map[*kind]int{}
	for _, task := range tasks {
		k := a.kindOf(task)
		i, ok := at[k]
		if !ok {
			if i = len(dm.kinds); i == min(maxDemandKinds, a.maxShapes) {
				return nil
			}
			at[k] = i
			dm.kinds = append(dm.kinds, k)
			dm.tasks = append(dm.tasks, nil)
		}
		dm.tasks[i] = append(dm.tasks[i], task)
	}
	if len(dm.kinds) < 2 {
		return nil
	}
	var roles []string
	if wanted < len(tasks) && a.gang {
		lacking := lackingRoles(job)
		for role := range lacking {
			roles = append(roles, role)
		}
		slices.Sort(roles)
		for _, role := range roles {
			dm.problem.Roles = append(dm.problem.Roles, int(lacking[role]))
		}
	}
	dm.problem.Wanted = wanted
	for _, of := range dm.tasks {
		dm.problem.Kinds = append(dm.problem.Kinds, packing.Kind{
			Request: vector(of[0].InitResreq, dm.names), Count: len(of), Ports: hostPorts(of[0].Pod), Role: slices.Index(roles, of[0].TaskRole),
		})
	}
	return dm
}

// takes says whether the node, by its place in a domain, may take tasks of the kind.
type takes func(k int, place int) bool

// on returns the demand's problem on the domain, and the nodes it is on: those that take a task of some kind, and of nodes
// that are alike no more than there are tasks.
func (dm *demand) on(a *allocation, d *domain, now bool, takes takes) (*packing.Problem, []int32) {
	problem := dm.problem
	var nodes []int32
	alike := map[string]int{}
	most := 0
	for _, of := range dm.tasks {
		most += len(of)
	}
	for place, node := range d.nodes {
		info := a.board.nodes[node]
		room := futureIdle(info)
		if now {
			room = info.Idle
		}
		n := packing.Node{Room: vector(room, dm.names), Slots: min(a.slotsOf(info), most), Takes: make([]bool, len(dm.kinds))}
		some := false
		for k := range dm.kinds {
			n.Takes[k] = problem.Kinds[k].FitsInto(n.Room) && takes(k, place)
			some = some || n.Takes[k]
		}
		if key := n.Key(); some && n.Slots > 0 && alike[key] < most {
			alike[key]++
			problem.Nodes = append(problem.Nodes, n)
			nodes = append(nodes, node)
		}
	}
	return &problem, nodes
}

// anyNode takes all that there is room for.
func anyNode(int, int) bool { return true }

// keptTakes asks the kept verdicts, but not those that are the job's.
func (a *allocation) keptTakes(dm *demand, d *domain) takes {
	return func(k, place int) bool { return a.ask(dm.kinds[k].shape, d.nodes[place]).fits }
}

// shaped makes sure that all kinds have their shapes.
func (dm *demand) shaped(a *allocation) error {
	for k, tasks := range dm.tasks {
		if dm.kinds[k].shape == nil {
			if _, err := a.shapeOf(tasks[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// bySize are the places of the kinds, the smallest first.
func (dm *demand) bySize(a *allocation) []int {
	order := make([]int, len(dm.kinds))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(l, r int) int {
		return cmp.Compare(a.dominantShare(dm.tasks[l][0]), a.dominantShare(dm.tasks[r][0]))
	})
	return order
}

// gaugeJob finds what the job demands, for as long as it is being placed in groups. Jobs that divide themselves over
// HyperNodes or are ready are not gauged.
func (a *allocation) gaugeJob(job *api.JobInfo, sheet *sheet) *demand {
	if !a.gang || job.ContainsSubJobPolicy() || job.ContainsHardTopology() || a.jobReady(job) {
		return nil
	}
	uid := job.DefaultSubJobID()
	tasks := sheet.tasks[uid]
	if len(tasks) == 0 {
		return nil
	}
	return a.demandOf(job, tasks, min(a.lacking(job, job.SubJobs[uid], len(tasks)), len(tasks)))
}

// refuted says that idle resources alone leave no room in the domain for what the job demands.
func (a *allocation) refuted(d *domain) bool {
	if a.demand == nil {
		return false
	}
	problem, _ := a.demand.on(a, d, true, anyNode)
	return a.memory.answer(problem, 'r', func() packing.Answer { answer, _ := problem.Refute(); return answer }) == packing.Impossible
}

// packs says whether there is room in the domain for what the job demands, on nodes that the kept verdicts leave.
func (a *allocation) packs(d *domain) packing.Answer {
	if a.demand == nil || a.demand.shaped(a) != nil {
		return packing.Unknown
	}
	problem, _ := a.demand.on(a, d, true, a.keptTakes(a.demand, d))
	return a.memory.answer(problem, 's', func() packing.Answer {
		_, answer, _ := problem.Solve(maxPackingSteps)
		return answer
	})
}
