// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"time"

	"k8s.io/utils/lru"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
)

const (
	// mostTried is the number of gangs whose last tries are kept.
	mostTried = 10_000
	// mostVictims is the maximum number of evicted pods that are named for a gang.
	mostVictims = 20
)

// EvictionTry is a gang's last try to get room by evictions.
type EvictionTry struct {
	Action string `json:"action"`
	// Result is evicted, not_needed or refused.
	Result string    `json:"result"`
	Why    string    `json:"why,omitempty"`
	At     time.Time `json:"at"`
	// Places are where members wait for the evicted pods: node groups, HyperNodes, or the cluster. Gang groups may have several.
	Places []string `json:"places,omitempty"`
	// Pods is the number of evicted pods, and Victims names some of them. PutBack is the number of pods that were chosen, too, until
	// they were found not to be needed.
	Pods    int      `json:"pods"`
	Victims []Victim `json:"victims,omitempty"`
	PutBack int      `json:"putBack"`
	// LostSeconds is the work that the evicted pods lose.
	LostSeconds float64 `json:"lostSeconds"`
	TookSeconds float64 `json:"tookSeconds"`
}

// Victim is an evicted pod.
type Victim struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node"`
	Priority  int32  `json:"priority"`
}

// EvictionTries has the last tries of gangs to get room by evictions, of a limited number of gangs. It is safe for concurrent use.
type EvictionTries struct{ last *lru.Cache }

// NewEvictionTries returns EvictionTries without any try.
func NewEvictionTries() *EvictionTries { return &EvictionTries{lru.New(mostTried)} }

// Note keeps the try, which has just ended, for its gangs.
func (e *EvictionTries) Note(t preempt.Try) {
	last := &EvictionTry{
		Action: t.Action, Result: t.Result, Why: brief.Text(t.Why), At: time.Now().UTC(), Places: t.Places, Pods: len(t.Evicted),
		PutBack: t.PutBack, LostSeconds: t.Lost.Seconds(), TookSeconds: t.Took.Seconds(),
	}
	for _, task := range t.Evicted[:min(len(t.Evicted), mostVictims)] {
		last.Victims = append(last.Victims, Victim{task.Namespace, task.Name, task.NodeName, task.Priority})
	}
	for _, gang := range t.Gangs {
		e.last.Add(gang, last)
	}
}

// of returns the gang's last try; nil if none is known.
func (e *EvictionTries) of(gang api.JobID) *EvictionTry {
	if last, known := e.last.Get(gang); known {
		return last.(*EvictionTry)
	}
	return nil
}
