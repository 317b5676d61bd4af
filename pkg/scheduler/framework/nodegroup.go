// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// NodeGroups says where a gang may be placed: the answer of a PlacementGenerator.
type NodeGroups struct {
	// Plugin is the one that answers; Placement.NodeGroups sets it. Its predicate must accept every node of every candidate
	// for the gang, for as long as all members placed in the session lie in that candidate: allocate does not ask it there.
	Plugin string
	// Required is true if the gang's tasks may lie in one of the candidates only, all in the same. Otherwise the
	// candidates are preferred: a gang that fits into none of them whole is spread over the fewest of them, and over
	// nodes outside of them last.
	Required bool
	// Candidates are the groups that may hold the gang, disjoint and sorted by path. Within a candidate allocate
	// prefers one of its descendants that holds the gang, the narrowest level first.
	Candidates []*topology.Group
	// Refused says for groups that are no candidates why, by path, for the explanation of a gang that fits nowhere.
	Refused map[string]string
	// Compare orders the gang's tasks by rank: neighbours in this order are placed close to each other where that is
	// possible. It may be nil.
	Compare func(l, r *api.TaskInfo) int
}

// NodeGroupTrial is one candidate group of a gang, as PlacementScorers score it.
type NodeGroupTrial struct {
	// Group is the candidate, or the group in it the gang would be placed in.
	Group *topology.Group
	// Fill is the part of the group's room now that the tasks to be placed take, in [0, 1]. The room is that for the shape
	// of which the group takes most, in dominant shares of the cluster, by every plugin's verdict on each of its nodes. It is
	// 1 for a group that has less than they need, and 0 for one that has no room for them at all.
	Fill float64
	// Placement is the node of each task placed in the trial. It is nil for scorers that are BeforeTrial.
	Placement map[api.TaskID]string
}

// Reach is the only nodes that a plugin's predicate can accept for a task, whatever is placed where, and its refusal of all others.
type Reach struct {
	Nodes   []string
	Refusal *api.FitError
}
