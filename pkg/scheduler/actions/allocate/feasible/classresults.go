// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// ClassResults holds the results of the cached plugins on single nodes for the tasks of a class.
type ClassResults struct {
	evaluator *evaluator
	layers    *layers
	// task is a task that represents the class. Its pre-predicate has run, so predicates called for it have their cycle
	// state.
	task *api.TaskInfo
	// affinity is the node selector and required node affinity of the pod of the field task, and so of all pods of the
	// class.
	affinity nodeaffinity.RequiredNodeAffinity
	// results are the filter results and scores of the cached plugins, by node number.
	results []NodeFilterResult
	// reached marks, by node number, the only nodes that the tasks can be placed on (Signer.Reach); nil if they can be placed on
	// all. unreached is the filter result on all other nodes.
	reached   []bool
	unreached *NodeFilterResult
	// refusedForGood are the nodes that an uncached plugin refuses to all tasks of the class, regardless of placements.
	refusedForGood map[int32]error
	rooms          map[*nodeset.Set]*Room
	// reasons caches short forms of filter results, for explanations.
	reasons map[*api.FitError]string
}

func newClassResults(e *evaluator, layers *layers, task *api.TaskInfo) *ClassResults {
	c := &ClassResults{
		evaluator: e, layers: layers, task: task,
		affinity:       nodeaffinity.GetRequiredNodeAffinity(task.Pod),
		results:        make([]NodeFilterResult, len(e.index.Nodes)),
		refusedForGood: map[int32]error{},
		rooms:          map[*nodeset.Set]*Room{},
		reasons:        map[*api.FitError]string{},
	}
	if reach := e.ssn.Signers.Reach(task); reach != nil && !layers.nothingCached {
		c.reached, c.unreached = make([]bool, len(e.index.Nodes)), &NodeFilterResult{err: reach.Refusal}
		for _, name := range reach.Nodes {
			if node, ok := e.index.In(e.index.All, name); ok {
				c.reached[node] = true
			}
		}
	}
	return c
}

// Task returns a task that represents the class.
func (c *ClassResults) Task() *api.TaskInfo { return c.task }

// OneByOne reports whether some plugin must be called for every task of the class, because its results cannot be cached.
func (c *ClassResults) OneByOne() bool { return c.layers.oneByOne }

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
func (c *ClassResults) FilterResult(node int32) *NodeFilterResult {
	if c.reached != nil && !c.reached[node] {
		return c.unreached
	}
	v, index := &c.results[node], c.evaluator.index
	if v.version == index.Version(node)+1 {
		return v
	}
	info := index.Nodes[node]
	*v = NodeFilterResult{version: index.Version(node) + 1}
	if short := insufficient(c.task.InitResreq, info); len(short) > 0 {
		v.err = c.shortage(short, info)
		return v
	}
	err := c.evaluator.predicate(c.layers.cached, c.task, info)
	if !c.layers.nothingCached {
		v.err = err
	}
	v.Fits = v.err == nil
	if err == nil {
		v.Copies = c.evaluator.copies(c.task.InitResreq, info)
	}
	return v
}

// shortage returns the filter result on a node that has too little of the named resources. The result is the plugins'
// own if plugins explain shortages of all these resources (PluginSpec.ExplainsShortages), or if the node would not take
// the tasks even with enough resources, so that its free resources are of no use to them.
func (c *ClassResults) shortage(of []string, node *api.NodeInfo) error {
	unexplained := slices.ContainsFunc(of, func(name string) bool { return !c.evaluator.ssn.Signers.IsShortageExplained(name) })
	if !unexplained || c.excluded(node.Node) {
		if err := c.evaluator.predicate(c.layers.cached, c.task, node); err != nil {
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
func (c *ClassResults) excluded(node *v1.Node) bool {
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
func (c *ClassResults) score(node int32) float64 {
	v := c.FilterResult(node)
	if v.scored != v.version {
		v.scored = v.version
		v.score = c.evaluator.nodeScore(c.layers.cached, c.task, c.evaluator.index.Nodes[node])
	}
	return v.score
}

// NeverTakes reports whether the node takes no task of the class whatever pods are evicted, because of its labels or
// taints. It may return false for other such nodes.
func (c *ClassResults) NeverTakes(node int32) bool {
	if c.reached != nil && !c.reached[node] || c.refusedForGood[node] != nil {
		return true
	}
	info, checks := c.evaluator.index.Nodes[node].Node, c.evaluator.checks
	if info == nil {
		return false
	}
	if checks.affinity {
		if matches, err := c.affinity.Match(info); err != nil || !matches {
			return true
		}
	}
	_, tainted := untolerated(c.task.Pod, info)
	return checks.taints && tainted
}
