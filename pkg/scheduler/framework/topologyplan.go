// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"iter"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// TopologyPlanner divides a gang's tasks over the domains of a network, such as blocks and spines. A TopologyPlanGenerator returns it.
type TopologyPlanner struct {
	// Plugin is the plugin that returned the planner; Placement.TopologyPlanner sets it. Its predicate must accept every
	// node of every plan for the gang, as long as all members placed in the session follow that plan: allocate does not
	// call it for these nodes.
	Plugin string
	// On returns the plans for at most most tasks, on nodes that have these numbers of slots.
	On func(slots map[string]int, most int) TopologyPlans
	// Compare orders the gang's tasks by rank: they are assigned to the nodes of a plan in this order.
	Compare func(l, r *api.TaskInfo) int
}

// TopologyPlans are the ways to divide a gang's tasks over nodes that have given numbers of slots.
type TopologyPlans interface {
	// Plans yields plans for now tasks, the best plan first. Each plan uses only domains that have slots for wanted
	// tasks. Nodes that are neighbors in a plan are close to each other.
	Plans(wanted, now int) iter.Seq[[]NodeShare]
	// Least and Most return the smallest and the largest number of tasks, between least and most, that has a plan; 0 if
	// no number has one.
	Least(least, most int) int
	Most(least, most int) int
	// Explain returns a text, in terms of domains, on why no plan exists for this many tasks.
	Explain(wanted int) string
}

// NodeShare is how many tasks of a gang go to a node.
type NodeShare struct {
	Node    string
	Members int
}
