// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"iter"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Gathering is how a gang's tasks are divided over the domains of a network, such as blocks and spines: the answer of a Gatherer.
type Gathering struct {
	// Plugin is the one that answers; Placement.Gathering sets it. Its predicate must accept every node of every plan for the gang, for as
	// long as all members placed in the session lie in that plan: allocate does not ask it there.
	Plugin string
	// On is the gathering on nodes with so many slots each, of at most so many tasks.
	On func(slots map[string]int, most int) GatherPlans
	// Compare orders the gang's tasks by rank: they are dealt out to the nodes of a plan in this order.
	Compare func(l, r *api.TaskInfo) int
}

// GatherPlans are the ways to divide a gang's tasks over nodes, as their slots are.
type GatherPlans interface {
	// Plans yields the ways to place now so many tasks where wanted have slots, the best first. Nodes that are neighbours in a plan
	// are close to each other.
	Plans(wanted, now int) iter.Seq[[]NodeShare]
	// Least and Most are the smallest and the largest number of tasks, from least up to most, for which there is a plan; 0 for none.
	Least(least, most int) int
	Most(least, most int) int
	// Explain says, of the domains, why there is no plan for so many tasks.
	Explain(wanted int) string
}

// NodeShare is how many tasks of a gang go to a node.
type NodeShare struct {
	Node    string
	Members int
}
