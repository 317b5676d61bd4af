// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// NodeGroups are the groups of nodes where a gang may be placed.
type NodeGroups struct {
	// Plugin is the plugin that answered; Placements.Of sets it. Its predicate must accept every node of every
	// candidate for the gang, as long as all members placed in the session are in that candidate: allocate does not
	// call it for these nodes.
	Plugin string
	// Required reports whether all of the gang's tasks must be placed in the same candidate. Otherwise the candidates
	// are preferred: a gang that fits whole into none of them is spread over as few of them as possible, and over nodes
	// outside of them last.
	Required bool
	// Candidates are the groups that may hold the gang, disjoint and sorted by path. Within a candidate allocate
	// prefers one of its descendants that holds the gang, the narrowest level first.
	Candidates []*topology.Group
	// Refused is the reason for each group, by path, that is not a candidate. It is used to explain a gang that fits
	// nowhere.
	Refused map[string]string
	// Compare orders the gang's tasks by rank: neighbors in this order are placed close to each other where possible. It may be
	// nil.
	Compare func(l, r *api.TaskInfo) int
}

// NodeGroupTrial is one candidate group of a gang, as PlacementScorers score it.
type NodeGroupTrial struct {
	// Group is the candidate, or the group inside it in which the gang would be placed.
	Group *topology.Group
	// Fill is the part of the group's current room that the tasks to be placed take, in [0, 1]. Room is measured in dominant
	// shares of the cluster, for the task class that the group can take most of, with every plugin's filter result on each node. It
	// is 1 for a group with less room than the tasks need, and 0 for a group without any room for them.
	Fill float64
	// Placement is the node of each task placed in the trial. It is nil for scorers that are BeforeTrial.
	Placement map[api.TaskID]string
}

// Reach holds the only nodes that a plugin's predicate can accept for a task, regardless of other placements, and its
// refusal of all other nodes.
type Reach struct {
	Nodes   []string
	Refusal *api.FitError
}
