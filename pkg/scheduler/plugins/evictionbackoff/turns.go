// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"errors"
	"maps"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// searchTime limits how long one of upstream's actions searches for victims for the gangs of one namespace in a cycle. It
// applies only if the session has gangs of several namespaces. A search that has begun for a gang is not ended early. This
// project's actions limit their searches themselves, in steps.
const searchTime = 100 * time.Millisecond

const waitsForTurn = "WaitingForTurnToEvict"

var errWaitsForTurn = errors.New("the search budget of this cycle for pods to evict is exhausted by other gangs of the namespace; retrying in a later cycle")

// round identifies a series of searches: the given action searches once for each gang of the namespace. A round may
// take several cycles.
type round struct{ action, namespace string }

// turns lets the gangs of a namespace take turns. A gang whose search was postponed to the next cycle searches before
// gangs that have already had their search in the same round, which has one search for each gang.
type turns struct {
	// searched has, for each unfinished round, the gangs that have had their search for victims. postponed has the gangs that
	// still wait for their search in the round.
	searched, postponed map[round]map[api.JobID]bool
}

func newTurns() *turns { return &turns{searched: map[round]map[api.JobID]bool{}} }

// had reports whether the running action has already searched for victims for the gang, and still has to search for
// other gangs of the namespace.
func (t *turns) had(ssn *framework.Session, job *api.JobInfo) bool {
	return t.searched[round{ssn.Action, job.Namespace}][job.UID]
}

// searches limits the time of searches for victims in one session. Gangs that do not get a search in this session get
// it in a later session.
type searches struct {
	ssn   *framework.Session
	turns *turns
	// alone reports whether all gangs of the session are in one namespace. The time of searches is then not limited.
	alone bool
	// spent is the time used by each round. running is the round of the latest search for victims, and since is when
	// that search began. running is zero before the first search.
	spent   map[round]time.Duration
	running round
	since   time.Time
	// admitted has, for each round and gang, whether the gang may search for victims in this session.
	admitted map[round]map[api.JobID]bool
}

func newSearches(ssn *framework.Session, t *turns) *searches {
	return &searches{
		ssn: ssn, turns: t, alone: inOneNamespace(ssn), spent: map[round]time.Duration{},
		admitted: map[round]map[api.JobID]bool{},
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

// admit is called before each search for victims. It returns an error if one of upstream's actions searches, and the namespace
// of the task's gang has used up its time in this cycle.
func (s *searches) admit(task *api.TaskInfo) error {
	job := s.ssn.Jobs[task.Job]
	if s.alone || job == nil || !evicts(s.ssn.Action) || framework.MakesRoom(s.ssn) {
		return nil
	}
	r, now := round{s.ssn.Action, task.Namespace}, time.Now()
	if s.running.action == r.action {
		s.spent[s.running] += now.Sub(s.since)
	}
	s.running, s.since = r, now
	admitted, known := s.admitted[r][job.UID]
	if !known {
		admitted = s.spent[r] < searchTime
		setIn(s.admitted, r, job.UID, admitted)
	}
	if !admitted {
		return errWaitsForTurn
	}
	setIn(s.turns.searched, r, job.UID, true)
	return nil
}

// end removes finished rounds: rounds without a postponed gang. A gang is postponed if this session refused it a
// search. It stays postponed while allocate does not try it, because it then cannot ask for a search. end also removes
// gangs that no longer exist from the other rounds. Otherwise a namespace that always gets new gangs would never finish
// its round.
func (s *searches) end() {
	postponed := map[round]map[api.JobID]bool{}
	for r, gangs := range s.admitted {
		for gang, admitted := range gangs {
			if !admitted {
				setIn(postponed, r, gang, true)
			}
		}
	}
	for r, gangs := range s.turns.postponed {
		for gang := range gangs {
			if s.ssn.Placements.IsUntried(gang) {
				setIn(postponed, r, gang, true)
			}
		}
	}
	s.turns.postponed = postponed
	maps.DeleteFunc(s.turns.searched, func(r round, _ map[api.JobID]bool) bool { return len(postponed[r]) == 0 })
	for _, gangs := range s.turns.searched {
		maps.DeleteFunc(gangs, func(gang api.JobID, _ bool) bool { return s.ssn.Jobs[gang] == nil })
	}
}

func setIn(of map[round]map[api.JobID]bool, r round, gang api.JobID, value bool) {
	if of[r] == nil {
		of[r] = map[api.JobID]bool{}
	}
	of[r][gang] = value
}
