// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"maps"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// turnsKept is for how many sessions it is known who had a turn: more searches than that wait one more for theirs.
const turnsKept = 1000

// search is a search for room for so many tasks of a job in a set of nodes. It is the same when the nodes change and what is found is
// another.
type search struct {
	job      api.JobID
	set      string
	tasks    int
	idleOnly bool
}

// turns divide what searches may take in a session. Those for which it does not suffice wait, and one of them has all that a search may
// take in the next session, whoever asks before it: the one whose turn is longest ago. So each has its turn, however much the others take
// and whatever changes between the sessions.
type turns struct {
	session int
	// left is how many steps searches may still take in the session.
	left int
	// next is whose turn it is in this session, if it is anybody's and has not been used.
	next *search
	// waiting are the searches of this session that wait, in the order in which they asked.
	waiting []search
	// last are the sessions in which searches had their last turn.
	last map[search]int
}

// beginSession begins a session of so many steps.
func (t *turns) beginSession(steps int) {
	t.session++
	t.left = steps
	t.next = nil
	for i, waiting := range t.waiting {
		if t.next == nil || t.last[waiting] < t.last[*t.next] {
			t.next = &t.waiting[i]
		}
	}
	t.waiting = nil
	maps.DeleteFunc(t.last, func(_ search, had int) bool { return t.session-had > turnsKept })
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
	if t.last == nil {
		t.last = map[search]int{}
	}
	t.next, t.last[of] = nil, t.session
	return true
}

// wait notes that the search has not had steps enough.
func (t *turns) wait(of search) { t.waiting = append(t.waiting, of) }

// finish gives up the search's turn, which it has no need of.
func (t *turns) finish(of search) {
	if t.next != nil && *t.next == of {
		t.next = nil
	}
}
