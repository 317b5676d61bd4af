// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// estimateIn computes how many members of the gang fit into the set of nodes, the smallest members first, and the
// reasons that stop the next member. It makes no trial: it assigns each task to the node that has the most resources
// left. Once a task class has no room, other classes of the same role are not tried, as in a trial. in is the gang's
// demand.
func estimateIn(r *state.Attempt, in *state.PackingInput, set *nodeset.Set) state.Shortfall {
	if found, full := queueShortfall(r, in); full {
		return found
	}
	e := &estimate{in: in, set: set, room: make([][]float64, len(set.Nodes)), members: map[int32]bool{}, alone: map[int][]int{}}
	for place, node := range set.Nodes {
		e.room[place] = state.Vector(r.Run.Index.Nodes[node].Idle, e.in.Names)
	}
	e.slots = make([]int, len(set.Nodes))
	for place, node := range set.Nodes {
		e.slots[place] = r.Run.Finder.PodSlots(r.Run.Index.Nodes[node])
	}
	stopped := -1
	failed := map[string]bool{}
	placed := 0
	for _, class := range e.in.BySize() {
		role := e.in.Tasks[class][0].TaskRole
		if failed[role] {
			continue
		}
		n := e.place(class)
		placed += n
		if n < len(e.in.Tasks[class]) {
			if role != "" {
				failed[role] = true
			}
			if stopped < 0 {
				stopped = class
			}
		}
	}
	found := state.Shortfall{Placed: placed}
	if stopped < 0 {
		return found
	}
	if results, err := e.results(stopped); err != nil {
		found.Reason = err.Error()
	} else {
		found.Refusals = e.refusals(stopped, results, r.Members)
	}
	return found
}

// queueShortfall returns the reason why the gang's queue refuses the gang's first task; false if the queue takes the
// task, or if the gang has packing plans. Without packing plans, a gang was excluded before the queue was asked.
func queueShortfall(r *state.Attempt, in *state.PackingInput) (state.Shortfall, bool) {
	queue, task := r.Run.Session.Queues[r.Job.Queue], in.Tasks[0][0]
	if r.Packing != nil || r.Run.Session.Allocatable(queue, task) {
		return state.Shortfall{}, false
	}
	reason := r.Run.Session.QueueUse.PendingReason(queue, task.InitResreq, func() bool { return !r.Run.Session.Allocatable(queue, task) })
	return state.Shortfall{Reason: reason.Message, Queue: reason.Reason}, true
}

type estimate struct {
	in  *state.PackingInput
	set *nodeset.Set
	// room and slots are the remaining resources and pod slots of each node, by its index in set.Nodes. members are the
	// nodes on which the estimate has put tasks.
	room    [][]float64
	slots   []int
	members map[int32]bool
	// alone counts the tasks that the estimate has put on each node, by the node's index in set.Nodes and by class. It
	// has only classes with host ports, because only these exclude other tasks.
	alone map[int][]int
}

// results returns the class's filter results. A demand of many classes does not keep them, because they would take too much
// memory. An error is the error of the pre-predicate of a task of the class.
func (e *estimate) results(class int) (*feasible.ClassResults, error) {
	if e.in.Caches != nil {
		return e.in.Caches[class].Results, nil
	}
	cache, err := e.in.Run.Finder.Cache(e.in.Tasks[class][0])
	if err != nil {
		return nil, err
	}
	return cache.Results, nil
}

// place adds to the estimate as many tasks of the class as fit on the nodes, and returns their number.
func (e *estimate) place(class int) int {
	kind := &e.in.Problem.Classes[class]
	results, err := e.results(class)
	if err != nil {
		return 0
	}
	for placed := range e.in.Tasks[class] {
		best, most := -1, 0.0
		for place, node := range e.set.Nodes {
			if e.slots[place] < 1 || !kind.FitsInto(e.room[place]) || e.in.Problem.Excluded(class, e.alone[place]) {
				continue
			}
			left := 0.0
			for r, value := range kind.Request {
				if room := e.room[place][r]; room > 0 && value > 0 {
					left += (room - value) / room
				}
			}
			if (best < 0 || left > most) && results.FilterResult(node).Copies > 0 {
				best, most = place, left
			}
		}
		if best < 0 {
			return placed
		}
		e.put(class, best)
	}
	return len(e.in.Tasks[class])
}

func (e *estimate) put(class, place int) {
	e.slots[place]--
	for r, value := range e.in.Problem.Classes[class].Request {
		e.room[place][r] -= value
	}
	if e.in.Problem.Classes[class].Alone { // only classes with host ports exclude tasks, and each of them also its own
		if e.alone[place] == nil {
			e.alone[place] = make([]int, len(e.in.Classes))
		}
		e.alone[place][class]++
	}
	e.members[e.set.Nodes[place]] = true
}

// refusals counts the nodes of the set by the reason why they do not take the next task of the class. results are
// the filter results of the class. already are the nodes with members of the gang that were placed before the estimate.
func (e *estimate) refusals(class int, results *feasible.ClassResults, already *state.MemberNodes) *feasible.Refusals {
	request := e.in.Problem.Classes[class].Request
	member := func(node int32) bool { return e.members[node] || already.Known[node] }
	return results.RefusalsBeside(e.set, member, func(place int) []string {
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

// short returns the names of the resources of which a node has too little left for the request. place is the node's
// index in the set. If the node has enough of all resources, short returns "host ports", because only these can be
// missing.
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
			out = append(out, string(e.in.Names[r-2]))
		}
	}
	if len(out) == 0 {
		return []string{"host ports"}
	}
	return out
}

// Together returns a text that says how many members of several gangs fit into the set together, and the reasons that
// stop the next member. in is the demand of the gangs, and r the attempt to place one of them.
func Together(r *state.Attempt, in *state.PackingInput, set *nodeset.Set) string {
	found := estimateIn(r, in, set)
	e := framework.NodeGroupExplanation{Nodes: len(set.Nodes), Fits: min(found.Placed, in.Problem.Wanted), Stopped: found.Reason, Queue: found.Queue}
	if found.Refusals != nil {
		e.Reasons, e.Filled, e.FilledOf = found.Refusals.Reasons, found.Refusals.Filled, found.Refusals.FilledOf()
	}
	return shortMessage(framework.GangExplanation{Needed: in.Problem.Wanted, Groups: []framework.NodeGroupExplanation{e}}, 0)
}
