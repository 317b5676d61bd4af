// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"math"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// ClassCache is what is known of nodes for the tasks of a class.
type ClassCache struct {
	finder *Finder
	layers *layers
	// task is one of the class. Its pre-predicate has run, so predicates asked for it have their cycle state.
	task *api.TaskInfo
	// expected is how many tasks of the class the session is to place; 0 when that is not known.
	expected int
	// verdicts are by node number.
	verdicts []NodeVerdict
	// reached are the only nodes that the tasks can go to, by node number, and unreached is the verdict on all others; nil for all.
	reached    []bool
	unreached  *NodeVerdict
	candidates map[candidatesKey]*CandidateNodes
	// representatives are by job key.
	representatives map[string]*representative
	// refusedForGood are the nodes that an uncached plugin refuses to all tasks of the class, whatever is placed where.
	refusedForGood map[int32]error
	rooms          map[*nodeset.Set]*Room
	// reasons are verdicts in few words, as far as explanations asked for them.
	reasons map[*api.FitError]string
}

func newClassCache(f *Finder, class *TaskClass, task *api.TaskInfo) *ClassCache {
	c := &ClassCache{
		finder: f, layers: class.layers, task: task, expected: class.expected,
		verdicts:        make([]NodeVerdict, len(f.index.Nodes)),
		candidates:      map[candidatesKey]*CandidateNodes{},
		representatives: map[string]*representative{},
		refusedForGood:  map[int32]error{},
		rooms:           map[*nodeset.Set]*Room{},
		reasons:         map[*api.FitError]string{},
	}
	if reach := f.ssn.Placement.Reach(task); reach != nil && !f.layering.nothingCached {
		c.reached, c.unreached = make([]bool, len(f.index.Nodes)), &NodeVerdict{err: reach.Refusal}
		for _, name := range reach.Nodes {
			if node, ok := f.index.In(f.index.All, name); ok {
				c.reached[node] = true
			}
		}
	}
	return c
}

// Task is one of the class.
func (c *ClassCache) Task() *api.TaskInfo { return c.task }

// OneByOne is true if a plugin is asked for every task of the class.
func (c *ClassCache) OneByOne() bool { return c.layers.oneByOne }

// NodeVerdict is what the cached plugins make of a task of the class on one node.
type NodeVerdict struct {
	// version is 1 + the node's when the verdict was asked, 0 for never; scored likewise for the score.
	version, scored uint32
	// Copies is how many tasks of the class the node takes by its idle resources, 0 when the predicates refuse it.
	Copies int32
	// Fits is true if the predicates accept the node and the task fits at least once what is being released is free.
	Fits  bool
	score float64
	err   error
}

// Verdict returns what the cached plugins make of the node, up to date.
func (c *ClassCache) Verdict(node int32) *NodeVerdict {
	if c.reached != nil && !c.reached[node] {
		return c.unreached
	}
	v, f := &c.verdicts[node], c.finder
	if v.version == f.index.Version(node)+1 {
		return v
	}
	info := f.index.Nodes[node]
	*v = NodeVerdict{version: f.index.Version(node) + 1}
	if short := insufficient(c.task.InitResreq, info); len(short) > 0 {
		v.err = c.shortage(short, info)
		return v
	}
	err := f.predicate(c.layers.cached, c.task, info)
	if !f.layering.nothingCached {
		v.err = err
	}
	v.Fits = v.err == nil
	if err == nil {
		v.Copies = f.copies(c.task.InitResreq, info)
	}
	return v
}

// shortage is the verdict on a node that is short of these resources: that of the plugins where one of them knows more of all of them.
func (c *ClassCache) shortage(of []string, node *api.NodeInfo) error {
	if !slices.ContainsFunc(of, func(name string) bool { return !c.finder.ssn.Verdicts.IsShortageExplained(name) }) {
		if err := c.finder.predicate(c.layers.cached, c.task, node); err != nil {
			return err
		}
	}
	var statuses []*api.Status
	for _, name := range of {
		statuses = append(statuses, &api.Status{Code: api.Unschedulable, Reason: api.WrapInsufficientResourceReason([]string{name})})
	}
	return api.NewFitErrWithStatus(c.task, node, statuses...)
}

// score returns the cached plugins' score of a node that fits.
func (c *ClassCache) score(node int32) float64 {
	v := c.Verdict(node)
	if v.scored != v.version {
		v.scored = v.version
		v.score = c.finder.nodeScore(c.layers.cached, c.task, c.finder.index.Nodes[node])
	}
	return v.score
}

// Room is how many tasks of a class a set of nodes takes now. It counts each node by itself and leaves out the verdicts of
// plugins that are asked for every task or job, so it is an upper bound.
type Room struct {
	Total int
	// Copies is what each node takes, by place in the set.
	Copies []int32
	// state is of the index when it was counted.
	state int
	// refusals count the nodes by what stops the next task; nil before they are asked for.
	refusals *Refusals
}

// Room returns the set's room for tasks of the class, up to date.
func (c *ClassCache) Room(set *nodeset.Set) *Room {
	r, index := c.rooms[set], c.finder.index
	if r == nil {
		r = &Room{Copies: make([]int32, len(set.Nodes))}
		c.rooms[set] = r
		for place, node := range set.Nodes {
			r.count(int32(place), c.Verdict(node).Copies)
		}
	} else {
		for _, node := range index.Changed(r.state) {
			if place, ok := set.Place(node); ok {
				r.count(place, c.Verdict(node).Copies)
			}
		}
	}
	r.state = index.State()
	return r
}

// count brings one place up to date.
func (r *Room) count(place, copies int32) {
	r.Total += int(copies - r.Copies[place])
	r.Copies[place] = copies
	r.refusals = nil
}

// FutureIdle is what the node has when all that is being released is free and all that waits for it is placed.
func FutureIdle(node *api.NodeInfo) *api.Resource {
	if node.Releasing.IsEmpty() && node.Pipelined.IsEmpty() {
		return node.Idle
	}
	return node.FutureIdle()
}

// insufficient returns the resources of which the node will not have enough, by name.
func insufficient(request *api.Resource, node *api.NodeInfo) []string {
	idle := FutureIdle(node)
	if request.LessEqual(idle, api.Zero) {
		return nil
	}
	_, short := request.LessEqualWithResourcesName(idle, api.Zero)
	slices.Sort(short)
	return short
}

// copies is how many such requests the node's idle resources take, by arithmetic.
func (f *Finder) copies(request *api.Resource, node *api.NodeInfo) int32 {
	if !request.LessEqual(node.Idle, api.Zero) {
		return 0
	}
	n := math.Inf(1)
	bound := func(request, idle float64) {
		if request > 0 {
			n = min(n, math.Floor((idle+0.5)/request))
		}
	}
	bound(request.MilliCPU, node.Idle.MilliCPU)
	bound(request.Memory, node.Idle.Memory)
	for name, value := range request.ScalarResources {
		bound(value, node.Idle.ScalarResources[name])
	}
	n = min(n, float64(f.PodSlots(node)))
	return int32(min(max(n, 1), math.MaxInt32))
}

// PodSlots is how many more pods the node takes. The predicate does not count those that were evicted in the session, which the node's tasks
// still have.
func (f *Finder) PodSlots(node *api.NodeInfo) int {
	if !f.checks.podSlots {
		return math.MaxInt32
	}
	return node.Allocatable.MaxTaskNum - len(f.ssn.NodeMap[node.Name].GetPods())
}
