// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"cmp"
	"maps"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
)

const (
	// maxPackingSteps bounds the steps of one search for a packing plan, which says how many tasks of each class each
	// node gets. A step examines one task class on one node. 1,500,000 steps take about 150 ms.
	maxPackingSteps = 1_500_000
	// sessionPackingSteps bounds the steps of all searches for packing plans in one session (Budget).
	sessionPackingSteps = 2_000_000
	// MaxFurtherLooks bounds the cost of placing one gang again after its first trial has failed, for example in other
	// orders of its tasks. The cost is counted in looks: a look checks one node for one task class. A placed task
	// changes its node, so it costs one look for each task class of the gang. The bound allows one further trial of
	// 1,000 tasks of 8 classes, the largest gangs in the random tests. Smaller gangs get more trials.
	MaxFurtherLooks = 8_000
	// sessionLooks bounds the looks (MaxFurtherLooks) of further trials of all gangs in one session. 24,000 looks take
	// about 200 ms.
	sessionLooks = 3 * MaxFurtherLooks
)

// turnsKept is how many sessions a waiting search keeps its position among the waiting searches without asking the
// Budget for steps again. After that, the search is forgotten.
const turnsKept = 10

// Search identifies a search for nodes that have room for tasks of a job. GangGroup is the job's gang group, or the job
// itself if it has none. Set is the name of the set of nodes that is searched, or a name for the kind of search, such
// as "orders". A search in a later session has the same Search value, even if nodes or tasks have changed.
type Search struct {
	GangGroup string
	Job       api.JobID
	Set       string
	IdleOnly  bool
}

// Budget divides the steps that searches may take in a session. A search that gets too few steps waits for a turn. In
// each session, one waiting search has its turn: it gets the steps of a complete search, whatever other searches use.
//
// The turn goes to the namespace whose last turn was longest ago. In that namespace, it goes to the gang group that has
// waited longest for a turn, and in that gang group to the search that has waited longest. So a namespace or a gang
// group cannot get more turns by having more searches.
type Budget struct {
	session int
	// Left is how many steps searches may still use in the current session.
	Left int
	// Next is the search whose turn it is in this session; nil if no search waited, or if the turn was used.
	Next *Search
	// gangGroups are the gang groups with waiting searches, by the name in Search.GangGroup; a gang without a gang
	// group counts as one. asked is a logical clock: it advances when a search asks for more steps, and when a search
	// gets its turn.
	gangGroups map[string]*waitingGangGroup
	asked      int
	// served is when each namespace with waiting gang groups had its last turn, in the logical time asked. For a
	// namespace that had no turn yet, it is when the namespace began to wait. A namespace without waiting gang groups
	// is dropped, so it is behind all others when it waits again.
	served map[string]int
}

// waitingGangGroup is a gang group, or a gang without a gang group, that waits for a turn. since is when it began to
// wait or had its last turn, in the logical time Budget.asked.
type waitingGangGroup struct {
	since     int
	namespace string
	searches  map[Search]*waitingSearch
}

// waitingSearch is a search that waits for a turn. since is when the search began to wait, in the logical time
// Budget.asked. asked is the session in which the search last asked for steps.
type waitingSearch struct{ since, asked int }

// beginSession starts a session with the given number of steps, and chooses the search whose turn it is. That search no
// longer waits, even if it does not ask for steps in this session. If the steps of its turn are too few, the search
// waits again, behind the other searches.
func (b *Budget) beginSession(steps int) {
	b.session++
	b.Left = steps
	b.Next = nil
	b.forgetAbsent()
	var first *waitingGangGroup
	for _, gangGroup := range b.gangGroups {
		if first == nil || cmp.Or(cmp.Compare(b.served[gangGroup.namespace], b.served[first.namespace]), cmp.Compare(gangGroup.since, first.since)) < 0 {
			first = gangGroup
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

// forgetAbsent forgets searches that have not asked for steps for turnsKept sessions, gang groups without searches, and
// namespaces without gang groups.
func (b *Budget) forgetAbsent() {
	maps.DeleteFunc(b.gangGroups, func(_ string, gangGroup *waitingGangGroup) bool {
		maps.DeleteFunc(gangGroup.searches, func(_ Search, waiting *waitingSearch) bool { return b.session-waiting.asked > turnsKept })
		return len(gangGroup.searches) == 0
	})
	served := map[string]int{}
	for _, gangGroup := range b.gangGroups {
		served[gangGroup.namespace] = b.served[gangGroup.namespace]
	}
	b.served = served
}

// fairShare returns how many steps a search for a packing plan may use. In its turn, a search gets the steps of a
// complete search. Otherwise it gets an equal share of the remaining steps, from which the steps for the search whose
// turn it is are subtracted first. searches is how many searches the job still has to make, including this one.
func (b *Budget) fairShare(of Search, searches int) int {
	left := b.Left
	if b.Next != nil {
		if b.useTurn(of) {
			return maxPackingSteps
		}
		left -= maxPackingSteps
	}
	return max(0, min(maxPackingSteps, left/max(searches, 1)))
}

// Open reports whether the search may take steps now: steps remain in the session, or it is the search's turn.
func (b *Budget) Open(of Search) bool { return b.Left > 0 || b.Next != nil && *b.Next == of }

// AcquireAll takes the steps from the budget for a search that cannot be made with fewer steps. It succeeds while any
// steps remain in the session, or if it is the search's turn. Otherwise it returns false, and the search waits for a
// turn.
func (b *Budget) AcquireAll(of Search, steps int) bool {
	if !b.useTurn(of) && b.Left <= 0 {
		b.Enqueue(of)
		return false
	}
	b.Left -= steps
	return true
}

// useTurn reports whether it is the search's turn, and if so ends the turn.
func (b *Budget) useTurn(of Search) bool {
	if b.Next == nil || *b.Next != of {
		return false
	}
	b.Next = nil
	return true
}

// Enqueue records that the search needs more steps and waits for a turn.
func (b *Budget) Enqueue(of Search) {
	b.asked++
	gangGroup := b.gangGroups[of.GangGroup]
	if gangGroup == nil {
		if b.gangGroups == nil {
			b.gangGroups, b.served = map[string]*waitingGangGroup{}, map[string]int{}
		}
		namespace, _, _ := strings.Cut(string(of.Job), "/")
		gangGroup = &waitingGangGroup{since: b.asked, namespace: namespace, searches: map[Search]*waitingSearch{}}
		b.gangGroups[of.GangGroup] = gangGroup
		if _, known := b.served[namespace]; !known {
			b.served[namespace] = b.asked
		}
	}
	if gangGroup.searches[of] == nil {
		gangGroup.searches[of] = &waitingSearch{since: b.asked}
	}
	gangGroup.searches[of].asked = b.session
}

// Finish ends the search's turn, if it has one, because the search needs no further steps.
func (b *Budget) Finish(of Search) { b.useTurn(of) }
