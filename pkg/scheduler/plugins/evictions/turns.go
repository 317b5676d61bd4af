// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"errors"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// searchTime bounds how long one action looks for victims for the gangs of a namespace in a cycle, beside those of other namespaces. The
// search for a gang, or for the gangs of a group, is not cut short.
const searchTime = 100 * time.Millisecond

const waitsForTurn = "WaitingForTurnToEvict"

var errWaitsForTurn = errors.New("the search for pods to evict goes on with this gang in a later cycle: it took its time for other gangs of the namespace")

// round is an action's search for the gangs of a namespace, over as many cycles as it takes.
type round struct{ action, namespace string }

// turns let the gangs of a namespace take turns: those whose search has to wait for the next cycle go before those that were searched for.
type turns struct {
	// searched are the gangs, and groups, for which rounds that go on have searched.
	searched map[round]map[string]bool
}

func newTurns() *turns { return &turns{searched: map[round]map[string]bool{}} }

// had reports whether the round that goes on has searched for the gang.
func (t *turns) had(ssn *framework.Session, job *api.JobInfo) bool {
	return t.searched[round{ssn.Action, job.Namespace}][searchKey(ssn, job)]
}

// searchKey is the same for gangs that are placed together.
func searchKey(ssn *framework.Session, job *api.JobInfo) string {
	if unit := ssn.Placement.Unit(job); unit != nil {
		return unit.ID
	}
	return string(job.UID)
}

// searches are a session's. Those of a round end when the session does, or go on in the next one.
type searches struct {
	ssn   *framework.Session
	turns *turns
	// alone is true if all gangs are of one namespace.
	alone bool
	// spent is the time of each round; running, zero when none is, goes on since then.
	spent   map[round]time.Duration
	running round
	since   time.Time
	// admitted says which gangs and groups are searched for, left which rounds have some that are not.
	admitted map[round]map[string]bool
	left     map[round]bool
}

func newSearches(ssn *framework.Session, t *turns) *searches {
	return &searches{
		ssn: ssn, turns: t, alone: inOneNamespace(ssn), spent: map[round]time.Duration{},
		admitted: map[round]map[string]bool{}, left: map[round]bool{},
	}
}

func inOneNamespace(ssn *framework.Session) bool {
	first := ""
	for _, job := range ssn.Jobs {
		if first == "" {
			first = job.Namespace
		}
		if job.Namespace != first {
			return false
		}
	}
	return true
}

// admit refuses the task for whose gang there is no time left. It is called before each search.
func (s *searches) admit(task *api.TaskInfo) error {
	job := s.ssn.Jobs[task.Job]
	if s.alone || job == nil || !evicts(s.ssn.Action) {
		return nil
	}
	r, now := round{s.ssn.Action, task.Namespace}, time.Now()
	if s.running.action == r.action {
		s.spent[s.running] += now.Sub(s.since)
	}
	s.running, s.since = r, now
	key := searchKey(s.ssn, job)
	admitted, known := s.admitted[r][key]
	if !known {
		admitted = s.spent[r] < searchTime
		note(s.admitted, r, key, admitted)
	}
	if !admitted {
		s.left[r] = true
		return errWaitsForTurn
	}
	note(s.turns.searched, r, key, true)
	return nil
}

// end ends the rounds that have searched for all gangs.
func (s *searches) end() {
	for r := range s.turns.searched {
		if !s.left[r] {
			delete(s.turns.searched, r)
		}
	}
}

func note(of map[round]map[string]bool, r round, key string, value bool) {
	if of[r] == nil {
		of[r] = map[string]bool{}
	}
	of[r][key] = value
}

func evicts(action string) bool { return action == preempt || action == reclaim }
