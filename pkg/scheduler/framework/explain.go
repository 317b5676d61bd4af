// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// GangExplanation says why a gang was placed into none of its node groups.
type GangExplanation struct {
	Namespace string    `json:"namespace"`
	PodGroup  string    `json:"podGroup"`
	Time      time.Time `json:"time"`
	// Needed is how many members the gang lacks to its minimum.
	Needed int `json:"needed"`
	// Required is true if the gang must lie in one group.
	Required bool `json:"required"`
	// Message is the compact form that the PodGroup shows.
	Message string                 `json:"message"`
	Groups  []NodeGroupExplanation `json:"groups"`
}

// NodeGroupExplanation says what one node group can take of a gang.
type NodeGroupExplanation struct {
	Group string `json:"group"`
	// Fits is how many of the needed members the group takes now before one fits nowhere in it. AtMost says that it is an
	// upper bound, by what each node takes.
	Fits   int  `json:"fits"`
	AtMost bool `json:"atMost,omitempty"`
	Nodes  int  `json:"nodes"`
	// Filled is how many of the nodes take no further member for what members of this very gang have there, and FilledOf the
	// resources they are then short of.
	Filled   int      `json:"filled,omitempty"`
	FilledOf []string `json:"filledOf,omitempty"`
	// Refused says why the group was no candidate; empty when it was tried.
	Refused string `json:"refused,omitempty"`
	// Stopped is what stopped a trial placement in the group, where that is not for nodes to say.
	Stopped string `json:"stopped,omitempty"`
	// Queue is the reason when it is the gang's queue that stopped it: QueueFull or QueueNotOpen.
	Queue string `json:"queue,omitempty"`
	// Reasons counts the other nodes that do not take the next member by what stops it, each node once.
	Reasons map[string]int `json:"reasons,omitempty"`
}

// Explanations keeps the last explanation of every gang that fits nowhere. It is safe for concurrent use.
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

// Explain keeps the explanation of a gang that was not placed in this session.
func (ssn *Session) Explain(job api.JobID, explanation GangExplanation) {
	ssn.explained[job] = explanation
}

// Explanation is the explanation of a gang that was not placed in this session; nil when there is none.
func (ssn *Session) Explanation(job api.JobID) *GangExplanation {
	if e, ok := ssn.explained[job]; ok {
		return &e
	}
	return nil
}

// Placed drops what a former action of the session has explained: the gang is placed after all.
func (ssn *Session) Placed(job api.JobID) {
	delete(ssn.explained, job)
	delete(ssn.waits, job)
}
