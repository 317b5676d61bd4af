// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// ClassCache holds the cached results on nodes for the tasks of a class.
type ClassCache struct {
	finder *Finder
	layers *layers
	// task is a task that represents the class. Its pre-predicate has run, so predicates called for it have their cycle
	// state.
	task *api.TaskInfo
	// affinity is the node selector and required node affinity of the pod of the field task, and so of all pods of the
	// class.
	affinity nodeaffinity.RequiredNodeAffinity
	// expected is how many tasks of the class the session is to place; 0 when unknown.
	expected int
	// results are the filter results and scores of the cached plugins, by node number.
	results []NodeFilterResult
	// reached marks, by node number, the only nodes that the tasks can be placed on (Signer.Reach); nil if they can be placed on
	// all. unreached is the filter result on all other nodes.
	reached    []bool
	unreached  *NodeFilterResult
	candidates map[candidatesKey]*CandidateNodes
	// representatives are the tasks that are passed to plugins whose results apply to some jobs only (PerJob), by the
	// key of the jobs that share these results.
	representatives map[string]*representative
	// refusedForGood are the nodes that an uncached plugin refuses to all tasks of the class, regardless of placements.
	refusedForGood map[int32]error
	rooms          map[*nodeset.Set]*Room
	// reasons caches short forms of filter results, for explanations.
	reasons map[*api.FitError]string
}

func newClassCache(f *Finder, class *TaskClass, task *api.TaskInfo) *ClassCache {
	c := &ClassCache{
		finder: f, layers: class.layers, task: task, expected: class.expected,
		affinity:        nodeaffinity.GetRequiredNodeAffinity(task.Pod),
		results:         make([]NodeFilterResult, len(f.index.Nodes)),
		candidates:      map[candidatesKey]*CandidateNodes{},
		representatives: map[string]*representative{},
		refusedForGood:  map[int32]error{},
		rooms:           map[*nodeset.Set]*Room{},
		reasons:         map[*api.FitError]string{},
	}
	if reach := f.ssn.Signers.Reach(task); reach != nil && !f.layering.nothingCached {
		c.reached, c.unreached = make([]bool, len(f.index.Nodes)), &NodeFilterResult{err: reach.Refusal}
		for _, name := range reach.Nodes {
			if node, ok := f.index.In(f.index.All, name); ok {
				c.reached[node] = true
			}
		}
	}
	return c
}

// Task returns a task that represents the class.
func (c *ClassCache) Task() *api.TaskInfo { return c.task }

// OneByOne reports whether some plugin must be called for every task of the class, because its results cannot be cached.
func (c *ClassCache) OneByOne() bool { return c.layers.oneByOne }

// NodeFilterResult is the result of the cached plugins for a task of the class on one node.
type NodeFilterResult struct {
	// version is 1 + the number of changes of the node (nodeset.Index.Version) when the filter result was requested; 0
	// if it was not requested. scored is the value of version for which the score was computed.
	version, scored uint32
	// Copies is how many tasks of the class fit into the node's idle resources, 0 if a predicate refuses the node.
	Copies int32
	// Fits reports whether the predicates accept the node, and at least one task of the class fits on it now or once
	// resources are released.
	Fits  bool
	score float64
	err   error
}

// FilterResult returns the current result of the cached plugins for the node.
func (c *ClassCache) FilterResult(node int32) *NodeFilterResult {
	if c.reached != nil && !c.reached[node] {
		return c.unreached
	}
	v, f := &c.results[node], c.finder
	if v.version == f.index.Version(node)+1 {
		return v
	}
	info := f.index.Nodes[node]
	*v = NodeFilterResult{version: f.index.Version(node) + 1}
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

// shortage returns the filter result on a node that has too little of the named resources. The result is the plugins'
// own if plugins explain shortages of all these resources (PluginSpec.ExplainsShortages), or if the node would not take
// the tasks even with enough resources, so that its free resources are of no use to them.
func (c *ClassCache) shortage(of []string, node *api.NodeInfo) error {
	unexplained := slices.ContainsFunc(of, func(name string) bool { return !c.finder.ssn.Signers.IsShortageExplained(name) })
	if !unexplained || c.excluded(node.Node) {
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

// excluded reports whether the node is cordoned, or its labels or taints exclude the tasks of the class. If the conf disables
// such a check, the plugins accept the node nevertheless.
func (c *ClassCache) excluded(node *v1.Node) bool {
	if node == nil {
		return false
	}
	matches, err := c.affinity.Match(node)
	_, tainted := corev1.FindMatchingUntoleratedTaint(node.Spec.Taints, c.task.Pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect != v1.TaintEffectPreferNoSchedule
	})
	return err != nil || !matches || tainted || node.Spec.Unschedulable
}

// score returns the cached plugins' score of the node. The node must be feasible.
func (c *ClassCache) score(node int32) float64 {
	v := c.FilterResult(node)
	if v.scored != v.version {
		v.scored = v.version
		v.score = c.finder.nodeScore(c.layers.cached, c.task, c.finder.index.Nodes[node])
	}
	return v.score
}

// Room is how many tasks of a class a set of nodes takes now. It counts each node by itself, and ignores plugins that are
// called for every task, or whose results apply to some jobs only. So it is an upper bound.
type Room struct {
	Total int
	// Copies is how many tasks each node takes, by the node's index in Set.Nodes.
	Copies []int32
	// state is the number of changes of nodes (nodeset.Index.State) when the tasks were counted.
	state int
	// refusals counts the nodes by the reason that stops the next task of the class; nil before the first use.
	refusals *Refusals
}

// Room returns the set's current room for tasks of the class.
func (c *ClassCache) Room(set *nodeset.Set) *Room {
	r, index := c.rooms[set], c.finder.index
	if r == nil {
		r = &Room{Copies: make([]int32, len(set.Nodes))}
		c.rooms[set] = r
		for place, node := range set.Nodes {
			r.count(int32(place), c.FilterResult(node).Copies)
		}
	} else {
		for _, node := range index.Changed(r.state) {
			if place, ok := set.Place(node); ok {
				r.count(place, c.FilterResult(node).Copies)
			}
		}
	}
	r.state = index.State()
	return r
}

// count sets how many tasks the node at the index place takes, and updates the total.
func (r *Room) count(place, copies int32) {
	r.Total += int(copies - r.Copies[place])
	r.Copies[place] = copies
	r.refusals = nil
}

// FutureIdle returns the node's idle resources after all releases are done and all tasks waiting for them are placed.
func FutureIdle(node *api.NodeInfo) *api.Resource {
	if node.Releasing.IsEmpty() && node.Pipelined.IsEmpty() {
		return node.Idle
	}
	return node.FutureIdle()
}

// insufficient returns, sorted, the names of the resources of which the node has too little for the request, even once
// all releases are done.
func insufficient(request *api.Resource, node *api.NodeInfo) []string {
	idle := FutureIdle(node)
	if request.LessEqual(idle, api.Zero) {
		return nil
	}
	_, short := request.LessEqualWithResourcesName(idle, api.Zero)
	slices.Sort(short)
	return short
}

// copies returns how many times the request fits into the node's idle resources, by arithmetic.
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

// PodSlots returns how many more pods the node takes. As in the predicates plugin's check of the number of pods, pods
// that were evicted in the session do not count, although the node's tasks still include them.
func (f *Finder) PodSlots(node *api.NodeInfo) int {
	if !f.checks.podSlots {
		return math.MaxInt32
	}
	return node.Allocatable.MaxTaskNum - len(f.ssn.NodeMap[node.Name].GetPods())
}
