// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"iter"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// TopologyPlanner divides a gang's tasks over the domains of a network, such as blocks and spines.
type TopologyPlanner struct {
	// Plugin is the plugin that answered; Placements.Of sets it. Its predicate must accept every node of every
	// plan for the gang, as long as all members placed in the session follow that plan: allocate does not call it for
	// these nodes.
	Plugin string
	// On returns the plans for nodes with the given numbers of slots, for at most most tasks.
	On func(slots map[string]int, most int) TopologyPlans
	// Compare orders the gang's tasks by rank: they are assigned to the nodes of a plan in this order.
	Compare func(l, r *api.TaskInfo) int
}

// TopologyPlans are the ways to divide a gang's tasks over nodes with given slots.
type TopologyPlans interface {
	// Plans yields plans that place now tasks in domains that have slots for wanted tasks, the best plan first. Nodes
	// that are neighbors in a plan are close to each other.
	Plans(wanted, now int) iter.Seq[[]NodeShare]
	// Least and Most return the smallest and the largest number of tasks in [least, most] that have a plan; 0 for none.
	Least(least, most int) int
	Most(least, most int) int
	// Explain says, in terms of domains, why no plan exists for that many tasks.
	Explain(wanted int) string
}

// NodeShare is how many tasks of a gang go to a node.
type NodeShare struct {
	Node    string
	Members int
}
