// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"iter"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// TopologyPlanner divides a gang's tasks over the domains of a network, such as blocks and spines.
type TopologyPlanner struct {
	// Plugin is the plugin that returned this planner; Placements.Of sets it. As long as all members placed in the
	// session follow one plan, the plugin's predicate must accept every node of that plan for the gang. allocate does
	// not call the predicate for these nodes.
	Plugin string
	// On returns the plans for the session's nodes. slots is, for each node, the number of further tasks that the node
	// can take. most is the largest number of tasks for which a plan may be requested.
	On func(slots map[string]int, most int) TopologyPlans
	// Compare orders the gang's tasks by rank. Tasks are assigned to the nodes of a plan in this order.
	Compare func(l, r *api.TaskInfo) int
}

// TopologyPlans are the ways to divide a gang's tasks over nodes, each of which can take a known number of tasks.
type TopologyPlans interface {
	// Plans yields plans, the best plan first. A plan places as many tasks as the parameter now says. The domain that
	// it uses can take as many tasks in total as the parameter wanted says. Neighboring nodes in a plan are close to
	// each other.
	Plans(wanted, now int) iter.Seq[[]NodeShare]
	// Least and Most return the smallest and the largest number of tasks, from least to most, for which a plan exists;
	// 0 if no plan exists.
	Least(least, most int) int
	Most(least, most int) int
	// Explain describes, in terms of domains, why no plan exists for as many tasks as wanted says.
	Explain(wanted int) string
}

// NodeShare is the number of tasks of a gang that a plan places on a node.
type NodeShare struct {
	Node    string
	Members int
}
