// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// NodeGroups are the groups of nodes where a gang may be placed.
type NodeGroups struct {
	// Plugin is the plugin that returned these NodeGroups; Placements.Of sets it. As long as all members placed in the
	// session are in one candidate, the plugin's predicate must accept every node of that candidate for the gang.
	// allocate does not call the predicate for these nodes.
	Plugin string
	// Required reports whether all of the gang's tasks must be placed in the same candidate. Otherwise the candidates
	// are only preferred. A gang that fits whole into no candidate is spread over as few candidates as possible. Nodes
	// outside of all candidates are used last.
	Required bool
	// Candidates are the node groups that may hold the gang, disjoint and sorted by path. Within a candidate, allocate
	// prefers the narrowest descendant group that holds the gang.
	Candidates []*topology.Group
	// Refused maps the path of each node group that is not a candidate to the reason. It is used to explain why a gang
	// fits nowhere.
	Refused map[string]string
	// Compare orders the gang's tasks by rank. allocate places neighbors in this order close to each other where
	// possible. Compare may be nil.
	Compare func(l, r *api.TaskInfo) int
}

// NodeGroupTrial is one candidate group of a gang, as PlacementScorers score it.
type NodeGroupTrial struct {
	// Group is the candidate, or the group inside it in which the gang would be placed.
	Group *topology.Group
	// Fill is the part of the node group's free capacity that the tasks to be placed take, in [0, 1]. The size of a task
	// is the largest fraction that it requests of any of the cluster's resources. The free capacity is the largest sum of
	// sizes that tasks of one class can reach in the node group. It respects every plugin's filter result on each node.
	// Fill is 1 for a node group with less capacity than the tasks need, and 0 for a node group without any capacity.
	Fill float64
	// Placement is the node of each task placed in the trial. It is nil for PlacementScorers whose BeforeTrial returns
	// true.
	Placement map[api.TaskID]string
}

// Reach holds the only nodes that a plugin's predicate can accept for a task, regardless of other placements. It also
// holds the reason why the plugin refuses all other nodes.
type Reach struct {
	Nodes   []string
	Refusal *api.FitError
}
