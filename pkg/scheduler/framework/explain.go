// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"
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
	// Required reports whether the gang must be placed in one group.
	Required bool `json:"required"`
	// Message is the short form that the PodGroup shows.
	Message string                 `json:"message"`
	Groups  []NodeGroupExplanation `json:"groups"`
}

// NodeGroupExplanation describes how much of a gang a node group can take.
type NodeGroupExplanation struct {
	Group string `json:"group"`
	// Fits is how many of the needed members the group takes now before one fits nowhere in it. AtMost reports that it is an
	// upper bound, computed from each node separately.
	Fits   int  `json:"fits"`
	AtMost bool `json:"atMost,omitempty"`
	Nodes  int  `json:"nodes"`
	// Filled is how many nodes take no further member because of members of this gang already there. FilledOf are the
	// resources that these nodes then lack.
	Filled   int      `json:"filled,omitempty"`
	FilledOf []string `json:"filledOf,omitempty"`
	// Refused is why the group was not a candidate; empty if it was tried.
	Refused string `json:"refused,omitempty"`
	// Stopped is why a trial placement in the group stopped, if it was not because of its nodes.
	Stopped string `json:"stopped,omitempty"`
	// Queue is the reason if the gang's queue stopped the trial: QueueFull or QueueNotOpen.
	Queue string `json:"queue,omitempty"`
	// Reasons counts the other nodes that do not take the next member by reason, each node once.
	Reasons map[string]int `json:"reasons,omitempty"`
}

// Explanations holds the last explanation of every gang that fits nowhere. It is safe for concurrent use.
type Explanations struct {
	mu   sync.Mutex
	gang map[api.JobID]GangExplanation
}

// List returns the explanations, in no order.
func (e *Explanations) List() []GangExplanation {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]GangExplanation, 0, len(e.gang))
	for _, explanation := range e.gang {
		out = append(out, explanation)
	}
	return out
}

func (e *Explanations) replace(explained map[api.JobID]GangExplanation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gang = explained
}

// Explain records the explanation of a gang that was not placed in this session.
func (ssn *Session) Explain(job api.JobID, explanation GangExplanation) {
	ssn.explained[job] = explanation
}

// Explanation returns the explanation of a gang that was not placed in this session; nil when there is none.
func (ssn *Session) Explanation(job api.JobID) *GangExplanation {
	if e, ok := ssn.explained[job]; ok {
		return &e
	}
	return nil
}

// Placed drops the explanation by an earlier action of the session, because the gang is placed after all.
func (ssn *Session) Placed(job api.JobID) {
	delete(ssn.explained, job)
	delete(ssn.pendingReasons, job)
}
