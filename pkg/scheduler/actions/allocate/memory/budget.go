// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"maps"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
)

const (
	// maxPackingSteps bounds a search for a plan: looks at a class of tasks on a node. It takes about 150 ms.
	maxPackingSteps = 1_500_000
	// sessionPackingSteps bounds all of them in a session (Budget).
	sessionPackingSteps = 2_000_000
	// MaxFurtherLooks bounds what further tries for one gang may cost: each task that is placed is a look at a node for each class. It is
	// one further try of the largest gangs the random suites place, 1,000 tasks of 8 classes; smaller ones get more.
	MaxFurtherLooks = 8_000
	// sessionLooks bounds what trials of other orders may take in a session: looks as MaxFurtherLooks counts
	// them. It takes about 200 ms.
	sessionLooks = 3 * MaxFurtherLooks
)

// turnsKept is for how many sessions a search keeps its place among those that wait while it does not ask.
const turnsKept = 10

// Search is a search for room for tasks of a job in a set of nodes, on behalf of the unit of gangs that the job is placed with. It is the same
// when the nodes or the tasks change.
type Search struct {
	Unit     string
	Job      api.JobID
	Set      string
	IdleOnly bool
}

// Budget divides the steps that searches may take in a session. Searches for which the steps do not suffice wait, and in each session one of
// them has all the steps of a search, whatever searches before it take: one of the namespace whose last turn was longest ago, of its units the one that
// has waited longest for a turn, and of this unit the search that has waited longest. So each namespace has its turn after as many sessions as
// others wait, and each of its units after as many of these turns as units waited before it, however many searches it makes and whatever
// changes between the sessions.
type Budget struct {
	session int
	// Left is how many steps searches may still take in the session.
	Left int
	// Next is whose turn it is in this session, if it is anybody's and has not been used.
	Next *Search
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
	searches  map[Search]*waitingSearch
}

// waitingSearch is when the search began to wait, and in which session it asked last.
type waitingSearch struct{ since, asked int }

// beginSession begins a session of so many steps. The search that has its turn waits no longer, whether or not it asks: if its turn does not
// suffice it waits again, behind the others.
func (b *Budget) beginSession(steps int) {
	b.session++
	b.Left = steps
	b.Next = nil
	b.forgetAbsent()
	var first *waitingUnit
	for _, unit := range b.units {
		if first == nil || cmp.Or(cmp.Compare(b.served[unit.namespace], b.served[first.namespace]), cmp.Compare(unit.since, first.since)) < 0 {
			first = unit
		}
	}
	if first == nil {
		return
	}
	for of, waiting := range first.searches {
		if b.Next == nil || waiting.since < first.searches[*b.Next].since {
			b.Next = &of
		}
	}
	delete(first.searches, *b.Next)
	b.asked++
	first.since = b.asked
	b.served[first.namespace] = b.asked
}

// forgetAbsent forgets searches that no longer ask, units without searches, and namespaces without units.
func (b *Budget) forgetAbsent() {
	maps.DeleteFunc(b.units, func(_ string, unit *waitingUnit) bool {
		maps.DeleteFunc(unit.searches, func(_ Search, waiting *waitingSearch) bool { return b.session-waiting.asked > turnsKept })
		return len(unit.searches) == 0
	})
	served := map[string]int{}
	for _, unit := range b.units {
		served[unit.namespace] = b.served[unit.namespace]
	}
	b.served = served
}

// fairShare is how many steps a search for a plan may take, which is one of so many that its job has still to make: its share of what is
// left.
func (b *Budget) fairShare(of Search, searches int) int {
	left := b.Left
	if b.Next != nil {
		if b.take(of) {
			return maxPackingSteps
		}
		left -= maxPackingSteps
	}
	return max(0, min(maxPackingSteps, left/max(searches, 1)))
}

// Open is true if AcquireAll will be.
func (b *Budget) Open(of Search) bool { return b.Left > 0 || b.Next != nil && *b.Next == of }

// AcquireAll is true if a search may be made that cannot be made in part and takes so many steps: while there are steps left.
func (b *Budget) AcquireAll(of Search, steps int) bool {
	if !b.take(of) && b.Left <= 0 {
		b.Wait(of)
		return false
	}
	b.Left -= steps
	return true
}

// take takes the search's turn, if it is that.
func (b *Budget) take(of Search) bool {
	if b.Next == nil || *b.Next != of {
		return false
	}
	b.Next = nil
	return true
}

// Wait notes that the search has not had steps enough.
func (b *Budget) Wait(of Search) {
	b.asked++
	unit := b.units[of.Unit]
	if unit == nil {
		if b.units == nil {
			b.units, b.served = map[string]*waitingUnit{}, map[string]int{}
		}
		namespace, _, _ := strings.Cut(string(of.Job), "/")
		unit = &waitingUnit{since: b.asked, namespace: namespace, searches: map[Search]*waitingSearch{}}
		b.units[of.Unit] = unit
		if _, known := b.served[namespace]; !known {
			b.served[namespace] = b.asked
		}
	}
	if unit.searches[of] == nil {
		unit.searches[of] = &waitingSearch{since: b.asked}
	}
	unit.searches[of].asked = b.session
}

// Finish gives up the search's turn, which it has no need of.
func (b *Budget) Finish(of Search) { b.take(of) }
