// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// decidedByNumbers is true if numbers and the cached verdicts are all that decides on where the tasks go, in groups that the
// plugin has named: no task is asked about one by one, has claims or devices, or is nominated to a node, and no pod that was
// placed in the session keeps it away.
func (in *packingInput) decidedByNumbers(chosenBy string) bool {
	return in.decidedBy(in.solver.finder.DecidedByNumbers, chosenBy)
}

// decidedBy is the same for all that decides on a task of each class.
func (in *packingInput) decidedBy(decided func(task *api.TaskInfo, chosenBy string) bool, chosenBy string) bool {
	for _, tasks := range in.tasks {
		if !decided(tasks[0], chosenBy) || framework.HasClaims(tasks[0].Pod) || in.solver.asksDevices(tasks[0]) {
			return false
		}
		if slices.ContainsFunc(tasks, func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }) {
			return false
		}
	}
	return true
}

// asksDevices is true if the task asks for devices of a make that some node has.
func (s *solver) asksDevices(task *api.TaskInfo) bool {
	if s.devicesOn == nil {
		s.devicesOn = map[string]*api.NodeInfo{}
		for _, node := range s.index.Nodes {
			for _, name := range api.RegisteredDevices {
				if _, ok := node.Others[name].(api.Devices); ok {
					s.devicesOn[name] = node
				}
			}
		}
	}
	for _, node := range s.devicesOn {
		if len(devices(task, node)) > 0 {
			return true
		}
	}
	return false
}

// estimate finds how many members of the gang the set takes, the smallest first, and what stops the next: in numbers, each task
// on the node that has the most left. After a class that finds no room no other of its role is tried, as in a trial.
func (r *jobRun) estimate(set *nodeset.Set) shortfall {
	e := &estimate{packingInput: r.packing, set: set, room: make([][]float64, len(set.Nodes)), members: map[int32]bool{}}
	for place, node := range set.Nodes {
		e.room[place] = vector(r.index.Nodes[node].Idle, e.names)
	}
	e.slots = make([]int, len(set.Nodes))
	for place, node := range set.Nodes {
		e.slots[place] = r.finder.PodSlots(r.index.Nodes[node])
	}
	stopped := -1
	failed := map[string]bool{}
	placed := 0
	for _, class := range e.bySize() {
		role := e.tasks[class][0].TaskRole
		if failed[role] {
			continue
		}
		n := e.place(class)
		placed += n
		if n < len(e.tasks[class]) {
			if role != "" {
				failed[role] = true
			}
			if stopped < 0 {
				stopped = class
			}
		}
	}
	found := shortfall{placed: placed}
	if stopped >= 0 {
		found.refusals = e.refusals(stopped, r.members)
	}
	return found
}

type estimate struct {
	*packingInput
	set *nodeset.Set
	// room and slots are what is left of each node, by place in the set, and members the nodes that tasks were put on.
	room    [][]float64
	slots   []int
	ports   map[int]map[string]bool
	members map[int32]bool
}

// place puts as many tasks of the class on nodes as fit.
func (e *estimate) place(class int) int {
	kind, cache := &e.problem.Kinds[class], e.caches[class]
	for placed := range e.tasks[class] {
		best, most := -1, 0.0
		for place, node := range e.set.Nodes {
			if e.slots[place] < 1 || !kind.FitsInto(e.room[place]) || e.taken(place, kind.Ports) {
				continue
			}
			left := 0.0
			for r, value := range kind.Request {
				if room := e.room[place][r]; room > 0 && value > 0 {
					left += (room - value) / room
				}
			}
			if (best < 0 || left > most) && cache.Verdict(node).Copies > 0 {
				best, most = place, left
			}
		}
		if best < 0 {
			return placed
		}
		e.put(kind.Request, kind.Ports, best)
	}
	return len(e.tasks[class])
}

func (e *estimate) put(request []float64, ports []string, place int) {
	e.slots[place]--
	for r, value := range request {
		e.room[place][r] -= value
	}
	for _, port := range ports {
		if e.ports == nil {
			e.ports = map[int]map[string]bool{}
		}
		if e.ports[place] == nil {
			e.ports[place] = map[string]bool{}
		}
		e.ports[place][port] = true
	}
	e.members[e.set.Nodes[place]] = true
}

func (e *estimate) taken(place int, ports []string) bool {
	return slices.ContainsFunc(ports, func(port string) bool { return e.ports[place][port] })
}

// refusals count the nodes by what stops the next task of the class, beside members that lie there already.
func (e *estimate) refusals(class int, already *memberNodes) *feasible.Refusals {
	request := e.problem.Kinds[class].Request
	member := func(node int32) bool { return e.members[node] || already.known[node] }
	return e.caches[class].RefusalsBeside(e.set, member, func(place int) []string {
		switch {
		case !e.members[e.set.Nodes[place]]:
			return nil
		case e.slots[place] < 1:
			return []string{"pods"}
		default:
			return e.short(request, place)
		}
	})
}

// short are the resources that a node has too little left of; host ports when it is none.
func (e *estimate) short(request []float64, place int) []string {
	var out []string
	for r, value := range request {
		if value <= 0 || value <= e.room[place][r]+packing.Tolerance {
			continue
		}
		switch r {
		case 0:
			out = append(out, "cpu")
		case 1:
			out = append(out, "memory")
		default:
			out = append(out, string(e.names[r-2]))
		}
	}
	if len(out) == 0 {
		return []string{"host ports"}
	}
	return out
}
