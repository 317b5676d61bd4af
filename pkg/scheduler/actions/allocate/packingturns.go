// SPDX-License-Identifier: Apache-2.0

package allocate

import "volcano.sh/volcano/pkg/scheduler/api"

// packingSearch is what a search for a plan is of: so many tasks of a job in a set of nodes. It is the same when the nodes change
// and its problem is another.
type packingSearch struct {
	job      api.JobID
	set      string
	tasks    int
	idleOnly bool
}

// packingTurns divides a session's steps between the searches for plans. A search has its share of what is left, as one of those
// of its job. Those for which that does not suffice wait, and one of them has all that a search may take in the next session,
// whoever asks before it: the one whose turn is longest ago. So each has its turn, however much the others take and whatever
// changes between the sessions.
type packingTurns struct {
	session int
	// left is how many steps searches may still take in the session.
	left int
	// next is whose turn it is in this session, if it is anybody's and has not been used.
	next *packingSearch
	// waiting are the searches of this session that wait, in the order in which they asked.
	waiting []packingSearch
	// turns are the sessions in which those that wait, in this session or the one before, had their last turn.
	turns map[packingSearch]int
}

func (t *packingTurns) beginSession() {
	t.session++
	t.left = sessionPackingSteps
	t.next = nil
	turns := map[packingSearch]int{}
	for i, search := range t.waiting {
		turns[search] = t.turns[search]
		if t.next == nil || turns[search] < turns[*t.next] {
			t.next = &t.waiting[i]
		}
	}
	t.waiting, t.turns = nil, turns
}

// grant says how many steps the search, which is one of so many that its job has still to make, may take.
func (t *packingTurns) grant(search packingSearch, searches int) int {
	left := t.left
	if t.next != nil {
		if *t.next == search {
			t.next, t.turns[search] = nil, t.session
			return maxPackingSteps
		}
		left -= maxPackingSteps
	}
	return max(0, min(maxPackingSteps, left/max(searches, 1)))
}

// wait notes that the search has not had steps enough.
func (t *packingTurns) wait(search packingSearch) { t.waiting = append(t.waiting, search) }

// finish gives up the search's turn, which it has no need of.
func (t *packingTurns) finish(search packingSearch) {
	if t.next != nil && *t.next == search {
		t.next = nil
	}
}
