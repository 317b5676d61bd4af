// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// plain says that numbers and the kept verdicts are all that decides on where the demand's tasks go: no task is asked about
// one by one, has claims or devices, or is nominated to a node, and no pod that was placed in the session keeps it away.
func (a *allocation) plain(dm *demand) bool {
	if a.layering.unbounded || a.layering.nothingKept {
		return false
	}
	for k, tasks := range dm.tasks {
		layers := dm.kinds[k].layers
		if len(layers.live) > 0 || slices.ContainsFunc(layers.jobPlugins, func(plugin string) bool { return plugin != a.inside }) {
			return false
		}
		if framework.HasClaims(tasks[0].Pod) || a.asksDevices(tasks[0]) || len(a.exclusions.against(tasks[0])) > 0 {
			return false
		}
		if slices.ContainsFunc(tasks, func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }) {
			return false
		}
	}
	return true
}

// asksDevices says whether the task asks for devices of a make that some node has.
func (a *allocation) asksDevices(task *api.TaskInfo) bool {
	if a.withDevices == nil {
		a.withDevices = map[string]*api.NodeInfo{}
		for _, node := range a.board.nodes {
			for _, name := range api.RegisteredDevices {
				if _, ok := node.Others[name].(api.Devices); ok {
					a.withDevices[name] = node
				}
			}
		}
	}
	for _, node := range a.withDevices {
		if len(devices(task, node)) > 0 {
			return true
		}
	}
	return false
}

// estimate says how many members of the gang the domain takes, the smallest first, and what stops the next: in numbers, each
// task on the node that has the most left. After a kind that finds no room no other of its role is tried, as in an attempt.
func (a *allocation) estimate(d *domain) stop {
	e := &estimate{a: a, demand: a.demand, domain: d, room: make([][]float64, len(d.nodes)), members: map[int32]bool{}}
	for place, node := range d.nodes {
		e.room[place] = vector(a.board.nodes[node].Idle, e.names)
	}
	e.slots = make([]int, len(d.nodes))
	for place, node := range d.nodes {
		e.slots[place] = a.slotsOf(a.board.nodes[node])
	}
	stopped := -1
	failed := map[string]bool{}
	placed := 0
	for _, k := range e.bySize(a) {
		role := e.tasks[k][0].TaskRole
		if failed[role] {
			continue
		}
		n := e.place(k)
		placed += n
		if n < len(e.tasks[k]) {
			if role != "" {
				failed[role] = true
			}
			if stopped < 0 {
				stopped = k
			}
		}
	}
	s := stop{placed: placed}
	if stopped >= 0 {
		s.refusals = e.refusals(stopped)
	}
	return s
}

type estimate struct {
	*demand
	a      *allocation
	domain *domain
	// room and slots are what is left of each node, by place in the domain, and members the nodes that tasks were put on.
	room    [][]float64
	slots   []int
	ports   map[int]map[string]bool
	members map[int32]bool
}

// place puts as many tasks of the kind on nodes as fit.
func (e *estimate) place(k int) int {
	kind := &e.problem.Kinds[k]
	for placed := range e.tasks[k] {
		best, most := -1, 0.0
		for place, node := range e.domain.nodes {
			if e.slots[place] < 1 || !kind.FitsInto(e.room[place]) || e.taken(place, kind.Ports) {
				continue
			}
			left := 0.0
			for r, value := range kind.Request {
				if room := e.room[place][r]; room > 0 && value > 0 {
					left += (room - value) / room
				}
			}
			if (best < 0 || left > most) && e.a.ask(e.kinds[k].shape, node).copies > 0 {
				best, most = place, left
			}
		}
		if best < 0 {
			return placed
		}
		e.put(kind.Request, kind.Ports, best)
	}
	return len(e.tasks[k])
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
	e.members[e.domain.nodes[place]] = true
}

func (e *estimate) taken(place int, ports []string) bool {
	return slices.ContainsFunc(ports, func(port string) bool { return e.ports[place][port] })
}

// refusals count the nodes by what stops the next task of the kind.
func (e *estimate) refusals(k int) *refusals {
	counted := newRefusals()
	kind, s := &e.problem.Kinds[k], e.kinds[k].shape
	for place, node := range e.domain.nodes {
		sm, info := e.a.ask(s, node), e.a.board.nodes[node]
		switch {
		case sm.err != nil:
			counted.add(e.a.refusedReason(s, node, sm.err), e.members[node] || e.a.members.known[node])
		case !e.members[node]:
			counted.add(releasedLater(s, info), false)
		case e.slots[place] < 1:
			counted.fill([]string{"pods"})
		default:
			counted.fill(e.short(kind.Request, place))
		}
	}
	return counted
}

// short are the resources that a node has too little left of; host ports when it is none.
func (e *estimate) short(request []float64, place int) []string {
	var out []string
	for r, value := range request {
		if value <= e.room[place][r]+0.01 {
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
