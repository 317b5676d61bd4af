// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
)

// reasonFor returns the short form of err, a cached filter result that refuses a node.
func (c *ClassResults) reasonFor(err error) string {
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
func (c *ClassResults) Refusals(set *nodeset.Set, members map[int32]bool) *Refusals {
	r := c.Room(set)
	shared := len(members) == 0
	if shared && r.refusals != nil {
		return r.refusals
	}
	counted := c.RefusalsBeside(set, func(node int32) bool { return members[node] }, func(place int) []string {
		node := set.Nodes[place]
		if copies := c.FilterResult(node).Copies; copies > 0 { // the node takes this many tasks, and is then full
			return c.shortAfter(c.evaluator.index.Nodes[node], copies)
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
func (c *ClassResults) RefusalsBeside(set *nodeset.Set, member func(node int32) bool, short func(place int) []string) *Refusals {
	counted := newRefusals()
	for place, node := range set.Nodes {
		if err := c.FilterResult(node).err; err != nil {
			counted.add(c.reasonFor(err), c.evaluator.index.Nodes[node], member(node))
		} else if filled := short(place); filled != nil {
			counted.fill(filled)
		} else {
			counted.add(c.releasedLater(c.evaluator.index.Nodes[node]), c.evaluator.index.Nodes[node], false)
		}
	}
	return counted.addFragmentation(c.task.InitResreq, c.evaluator.index)
}

// releasedLater returns the reason of a node that has room for the task only once resources are released.
func (c *ClassResults) releasedLater(node *api.NodeInfo) string {
	_, missing := c.task.InitResreq.LessEqualWithResourcesName(node.Idle, api.Zero)
	slices.Sort(missing)
	return "without enough idle " + strings.Join(missing, " and ") + " until pods terminate"
}

// shortAfter returns the resources that the node lacks for one more task of the class, once it has taken the given
// number of copies (tasks of the class).
func (c *ClassResults) shortAfter(node *api.NodeInfo, copies int32) []string {
	left := node.Idle.Clone()
	for range copies {
		left.SubWithoutAssert(c.task.InitResreq)
	}
	if _, short := c.task.InitResreq.LessEqualWithResourcesName(left, api.Zero); len(short) > 0 {
		return short
	}
	return []string{string(v1.ResourcePods)}
}
