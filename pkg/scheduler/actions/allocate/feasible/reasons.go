// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/internal/quantity"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// shortOf is the beginning of the reason why a node with too little of a resource refuses a task.
const shortOf = "short of "

// Refusals counts the nodes of a set by the reason why they do not take the next member of a gang. Each node counts
// once.
type Refusals struct {
	Reasons map[string]int
	// Filled is how many nodes are full because of members of the gang whose next member they refuse. filledOf are the
	// resources that these nodes are short of.
	Filled   int
	filledOf map[string]bool
	// Takes is how many nodes would take the next member of the gang.
	Takes int
	// free is the free amount of each resource on nodes that lack only that resource.
	free map[v1.ResourceName]free
}

// free is the free amount of a resource on nodes that lack only this resource: the largest amount on one of these
// nodes, and the total of all.
type free struct{ most, all float64 }

func newRefusals() *Refusals {
	return &Refusals{Reasons: map[string]int{}, filledOf: map[string]bool{}, free: map[v1.ResourceName]free{}}
}

// add counts the node by its reason. members reports whether the node has members of the gang: such a node counts as
// filled by the gang if it is short of a resource.
func (r *Refusals) add(reason string, node *api.NodeInfo, members bool) {
	if short, ok := strings.CutPrefix(reason, shortOf); ok {
		if members {
			r.fill(strings.Split(short, " and "))
			return
		}
		name := v1.ResourceName(short)
		here, has := max(0, FutureIdle(node).Get(name)), r.free[name]
		r.free[name] = free{most: max(has.most, here), all: has.all + here}
	}
	r.Reasons[reason]++
}

// addFragmentation adds the free amount of a resource to the reason of nodes that are short of it, if the total free
// amount would satisfy the request and the cluster has a node that is large enough.
func (r *Refusals) addFragmentation(request *api.Resource, index *nodeset.Index) *Refusals {
	for name, free := range r.free {
		reason, asked := shortOf+string(name), request.Get(name)
		if nodes := r.Reasons[reason]; nodes > 1 && asked > 0 && free.all >= asked && asked <= index.LargestNode().Get(name) {
			delete(r.Reasons, reason)
			r.Reasons[fmt.Sprintf("%s (at most %s free on a node, %s in all)", reason,
				quantity.Of(name, free.most), quantity.Of(name, free.all))] = nodes
		}
	}
	return r
}

func (r *Refusals) fill(resources []string) {
	r.Filled++
	for _, name := range resources {
		r.filledOf[name] = true
	}
}

// FilledOf returns, by name, the resources that nodes filled by the gang are short of.
func (r *Refusals) FilledOf() []string { return slices.Sorted(maps.Keys(r.filledOf)) }

// ShortReason returns the filter result err in few words.
func ShortReason(err error) string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return ofNodes(err.Error())
	}
	var short, other []string
	for _, reason := range fit.Reasons() {
		switch resource, isShort := strings.CutPrefix(reason, "Insufficient "); {
		case isShort:
			short = append(short, resource)
		case reason == nodeunschedulable.ErrReasonUnschedulable:
			return "cordoned"
		default:
			other = append(other, ofNodes(reason))
		}
	}
	slices.Sort(other)
	if len(short) > 0 {
		slices.Sort(short)
		other = append([]string{shortOf + strings.Join(short, " and ")}, other...)
	}
	return strings.Join(slices.Compact(other), ", ")
}

// ofNodes rewrites a reason so that it can follow a number of nodes: "without a free device for claim c", where the
// plugin says "claim c: node(s) without a free device". For a taint it keeps only the key, because values may differ from
// node to node.
func ofNodes(reason string) string {
	if _, taint, tainted := strings.Cut(reason, "untolerated taint"); tainted {
		_, key, _ := strings.Cut(taint, "{")
		key, _, _ = strings.Cut(key, ":")
		switch key = strings.TrimSpace(key); key {
		case "":
			return "tainted"
		case v1.TaintNodeNotReady:
			return "not ready"
		case v1.TaintNodeUnreachable:
			return "unreachable"
		default:
			return "tainted " + brief.Value(key)
		}
	}
	if subject, state, ok := strings.Cut(reason, ": node(s) "); ok {
		if state, ok := strings.CutSuffix(state, " for it"); ok {
			return state + " for " + subject
		}
		return state + ": " + subject
	}
	return strings.TrimPrefix(reason, "node(s) ")
}

// reasonFor returns the short form of err, a cached filter result that refuses a node.
func (c *ClassCache) reasonFor(err error) string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return ShortReason(err)
	}
	reason, ok := c.reasons[fit]
	if !ok {
		reason = ShortReason(err)
		c.reasons[fit] = reason
	}
	return reason
}

// Refusals counts the nodes of the set by the reason why they take no further task of the class after as many tasks as
// fit are placed. members are the nodes that already have members of the gang. Gangs without placed members share the
// result until a node of the set changes.
func (c *ClassCache) Refusals(set *nodeset.Set, members map[int32]bool) *Refusals {
	r := c.Room(set)
	shared := len(members) == 0
	if shared && r.refusals != nil {
		return r.refusals
	}
	counted := c.RefusalsBeside(set, func(node int32) bool { return members[node] }, func(place int) []string {
		node := set.Nodes[place]
		if copies := c.FilterResult(node).Copies; copies > 0 { // the node takes this many tasks, and is then full
			return c.shortAfter(c.finder.index.Nodes[node], copies)
		}
		return nil
	})
	if shared {
		r.refusals = counted
	}
	return counted
}

// RefusalsBeside counts the nodes of the set by the reason that stops the next task of the class, while members of its
// gang are being placed. member reports whether a node has members of the gang. short returns the resources that the node
// at an index of the set's Nodes lacks because of members being placed there; nil if it lacks none.
func (c *ClassCache) RefusalsBeside(set *nodeset.Set, member func(node int32) bool, short func(place int) []string) *Refusals {
	counted := newRefusals()
	for place, node := range set.Nodes {
		if err := c.FilterResult(node).err; err != nil {
			counted.add(c.reasonFor(err), c.finder.index.Nodes[node], member(node))
		} else if filled := short(place); filled != nil {
			counted.fill(filled)
		} else {
			counted.add(c.releasedLater(c.finder.index.Nodes[node]), c.finder.index.Nodes[node], false)
		}
	}
	return counted.addFragmentation(c.task.InitResreq, c.finder.index)
}

// RefusalsOf counts the nodes by the reason that stops the task in the current state of a trial. member reports whether a
// node has members of the task's gang. RefusalsOf returns nil if no nodes were checked yet for tasks of the task's class.
func (f *Finder) RefusalsOf(task *api.TaskInfo, where Where, member func(node int32) bool) *Refusals {
	c := f.Class(task).cache
	if c == nil {
		return nil
	}
	n := f.Candidates(task, c, where)
	asksUncached := len(c.layers.uncached) > 0 || len(f.antiAffinity.matching(task)) > 0
	counted := newRefusals()
	for _, node := range where.Set.Nodes {
		v := c.FilterResult(node)
		if v.err != nil {
			counted.add(c.reasonFor(v.err), f.index.Nodes[node], member(node))
			continue
		}
		err := n.filterResult(node)
		switch {
		case err != nil || !asksUncached:
		case c.layers.overNetwork && f.overNetwork.task == task:
			err = f.overNetwork.refused[node]
		default:
			err = f.uncachedFilterResult(task, c, node)
		}
		switch {
		case err != nil:
			counted.add(ShortReason(err), f.index.Nodes[node], member(node))
		case v.Copies == 0:
			counted.add(c.releasedLater(f.index.Nodes[node]), f.index.Nodes[node], false)
		default:
			counted.Takes++
		}
	}
	return counted.addFragmentation(task.InitResreq, f.index)
}

// releasedLater returns the reason of a node that has room for the task only once resources are released.
func (c *ClassCache) releasedLater(node *api.NodeInfo) string {
	_, missing := c.task.InitResreq.LessEqualWithResourcesName(node.Idle, api.Zero)
	slices.Sort(missing)
	return "without enough idle " + strings.Join(missing, " and ") + " until pods terminate"
}

// shortAfter returns the resources that the node lacks for one more task of the class, once it has taken the given
// number of copies (tasks of the class).
func (c *ClassCache) shortAfter(node *api.NodeInfo, copies int32) []string {
	left := node.Idle.Clone()
	for range copies {
		left.SubWithoutAssert(c.task.InitResreq)
	}
	if _, short := c.task.InitResreq.LessEqualWithResourcesName(left, api.Zero); len(short) > 0 {
		return short
	}
	return []string{string(v1.ResourcePods)}
}
