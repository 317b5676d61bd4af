// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// GangExplanation explains why a gang was not placed in any of its node groups.
type GangExplanation struct {
	Namespace string    `json:"namespace"`
	PodGroup  string    `json:"podGroup"`
	Time      time.Time `json:"time"`
	// Needed is how many more members the gang needs for its minimum.
	Needed int `json:"needed"`
	// Required reports whether the gang must be placed in one node group.
	Required bool `json:"required"`
	// Message is the short form of the explanation, as the PodGroup shows it.
	Message string                 `json:"message"`
	Groups  []NodeGroupExplanation `json:"groups"`
}

// NodeGroupExplanation describes how much of a gang a node group can take.
type NodeGroupExplanation struct {
	Group string `json:"group"`
	// Fits is how many of the needed members fit in the node group now, placed one after the other until the next member
	// fits on no node. If AtMost is set, Fits is only an upper bound, computed from each node separately.
	Fits   int  `json:"fits"`
	AtMost bool `json:"atMost,omitempty"`
	Nodes  int  `json:"nodes"`
	// Filled is how many nodes take no further member because members of this gang were placed on them. FilledOf are the
	// resources that these nodes then lack.
	Filled   int      `json:"filled,omitempty"`
	FilledOf []string `json:"filledOf,omitempty"`
	// Refused is why no member may be placed in the node group; empty if the node group was a candidate.
	Refused string `json:"refused,omitempty"`
	// Stopped is why a trial placement in the node group stopped, if the nodes were not the reason.
	Stopped string `json:"stopped,omitempty"`
	// Queue is QueueFull or QueueNotOpen if the gang's queue stopped the trial placement; otherwise empty.
	Queue string `json:"queue,omitempty"`
	// Reasons maps each reason why nodes do not take the next member to the number of these nodes. Each node counts
	// once. Nodes that Filled counts are left out.
	Reasons map[string]int `json:"reasons,omitempty"`
}

// Explain records the explanation of a gang that was not placed in this session.
func (ssn *Session) Explain(job api.JobID, explanation GangExplanation) {
	ssn.pending.explained[job] = explanation
}

// Explanation returns the explanation of a gang that was not placed in this session; nil when there is none.
func (ssn *Session) Explanation(job api.JobID) *GangExplanation {
	if e, ok := ssn.pending.explained[job]; ok {
		return &e
	}
	return nil
}

// Explanations returns the explanations of all gangs that were not placed in this session, in no order.
func (ssn *Session) Explanations() []GangExplanation {
	return slices.Collect(maps.Values(ssn.pending.explained))
}

// Placed drops the explanation and the pending reason that were recorded for the gang in this session, because the gang
// is now placed.
func (ssn *Session) Placed(job api.JobID) {
	delete(ssn.pending.explained, job)
	delete(ssn.pending.reasons, job)
}
