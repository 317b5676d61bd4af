// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"maps"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// turnsKept is for how many sessions a search keeps its place among those that wait while it does not ask.
const turnsKept = 10

// search is a search for room for tasks of a job in a set of nodes, on behalf of the unit of gangs that the job is placed with. It is the same
// when the nodes or the tasks change.
type search struct {
	unit     string
	job      api.JobID
	set      string
	idleOnly bool
}

// searchOf is the search for room for tasks of the job in the named set.
func (s *solver) searchOf(job *api.JobInfo, set string, idleOnly bool) search {
	of := search{unit: string(job.UID), job: job.UID, set: set, idleOnly: idleOnly}
	if unit := s.ssn.Unit(job); unit != nil && len(unit.Gangs) > 1 {
		of.unit = unit.ID
	}
	return of
}

// turns divide the steps that searches may take in a session. Searches for which the steps do not suffice wait, and in each session one of
// them has all the steps of a search, whatever searches before it take: one of the namespace whose last turn was longest ago, of its units the one that
// has waited longest for a turn, and of this unit the search that has waited longest. So each namespace has its turn after as many sessions as
// others wait, and each of its units after as many of these turns as units waited before it, however many searches it makes and whatever
// changes between the sessions.
type turns struct {
	session int
	// left is how many steps searches may still take in the session.
	left int
	// next is whose turn it is in this session, if it is anybody's and has not been used.
	next *search
	// units are those that wait, by name. asked counts what began to wait, and so orders it.
	units map[string]*waitingUnit
	asked int
	// served is when namespaces of which units wait had their last turn, or began to wait since, counted as asked is. A namespace that comes and goes
	// is behind the others each time.
	served map[string]int
}

// waitingUnit is a unit that waits for a turn.
type waitingUnit struct {
	since     int
	namespace string
	searches  map[search]*waitingSearch
}

// waitingSearch is when the search began to wait, and in which session it asked last.
type waitingSearch struct{ since, asked int }

// beginSession begins a session of so many steps. The search that has its turn waits no longer, whether or not it asks: if its turn does not
// suffice it waits again, behind the others.
func (t *turns) beginSession(steps int) {
	t.session++
	t.left = steps
	t.next = nil
	t.forgetAbsent()
	var first *waitingUnit
	for _, unit := range t.units {
		if first == nil || cmp.Or(cmp.Compare(t.served[unit.namespace], t.served[first.namespace]), cmp.Compare(unit.since, first.since)) < 0 {
			first = unit
		}
	}
	if first == nil {
		return
	}
	for of, waiting := range first.searches {
		if t.next == nil || waiting.since < first.searches[*t.next].since {
			t.next = &of
		}
	}
	delete(first.searches, *t.next)
	t.asked++
	first.since = t.asked
	t.served[first.namespace] = t.asked
}

// forgetAbsent forgets searches that no longer ask, units without searches, and namespaces without units.
func (t *turns) forgetAbsent() {
	maps.DeleteFunc(t.units, func(_ string, unit *waitingUnit) bool {
		maps.DeleteFunc(unit.searches, func(_ search, waiting *waitingSearch) bool { return t.session-waiting.asked > turnsKept })
		return len(unit.searches) == 0
	})
	served := map[string]int{}
	for _, unit := range t.units {
		served[unit.namespace] = t.served[unit.namespace]
	}
	t.served = served
}

// share says how many steps a search for a plan may take, which is one of so many that its job has still to make: its share of what is
// left.
func (t *turns) share(of search, searches int) int {
	left := t.left
	if t.next != nil {
		if t.take(of) {
			return maxPackingSteps
		}
		left -= maxPackingSteps
	}
	return max(0, min(maxPackingSteps, left/max(searches, 1)))
}

// open is true if whole will be.
func (t *turns) open(of search) bool { return t.left > 0 || t.next != nil && *t.next == of }

// whole is true if a search may be made that cannot be made in part and takes so many steps: while there are steps left.
func (t *turns) whole(of search, steps int) bool {
	if !t.take(of) && t.left <= 0 {
		t.wait(of)
		return false
	}
	t.left -= steps
	return true
}

// take takes the search's turn, if it is that.
func (t *turns) take(of search) bool {
	if t.next == nil || *t.next != of {
		return false
	}
	t.next = nil
	return true
}

// wait notes that the search has not had steps enough.
func (t *turns) wait(of search) {
	t.asked++
	unit := t.units[of.unit]
	if unit == nil {
		if t.units == nil {
			t.units, t.served = map[string]*waitingUnit{}, map[string]int{}
		}
		namespace, _, _ := strings.Cut(string(of.job), "/")
		unit = &waitingUnit{since: t.asked, namespace: namespace, searches: map[search]*waitingSearch{}}
		t.units[of.unit] = unit
		if _, known := t.served[namespace]; !known {
			t.served[namespace] = t.asked
		}
	}
	if unit.searches[of] == nil {
		unit.searches[of] = &waitingSearch{since: t.asked}
	}
	unit.searches[of].asked = t.session
}

// finish gives up the search's turn, which it has no need of.
func (t *turns) finish(of search) { t.take(of) }
