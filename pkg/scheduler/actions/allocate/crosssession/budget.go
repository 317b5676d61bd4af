// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"cmp"
	"maps"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
)

const (
	// maxPackingSteps bounds one search for a plan. A step is a look at one class of tasks on one node. The bound takes
	// about 150 ms.
	maxPackingSteps = 1_500_000
	// sessionPackingSteps bounds all searches for plans in a session (Budget).
	sessionPackingSteps = 2_000_000
	// MaxFurtherLooks bounds the cost of further tries for one gang: each placed task costs one look at a node for each
	// class. The bound allows one further try of the largest gangs in the random tests, 1,000 tasks of 8 classes;
	// smaller gangs get more tries.
	MaxFurtherLooks = 8_000
	// sessionLooks bounds trials of other orders in a session, in the looks of MaxFurtherLooks. It takes about 200 ms.
	sessionLooks = 3 * MaxFurtherLooks
)

// turnsKept is for how many sessions a waiting search keeps its place without asking again.
const turnsKept = 10

// Search identifies a search for room for tasks of a job in a set of nodes, on behalf of the job's gang group, or of its gang alone. It stays the
// same when the nodes or the tasks change.
type Search struct {
	GangGroup string
	Job       api.JobID
	Set       string
	IdleOnly  bool
}

// Budget divides the steps that searches may take in a session. Searches that need more steps wait. In each session one of them
// has its turn, with all the steps of a search, whatever other searches use: first by namespace, the one whose last turn was
// longest ago; then by gang group, the one that has waited longest for a turn; then the search that has waited longest. So each
// namespace has a turn after as many sessions as other namespaces wait, and each of its gang groups after as many of these turns as
// gang groups waited before it, regardless of the number of searches and of changes between sessions.
type Budget struct {
	session int
	// Left is how many steps searches may still use in the session.
	Left int
	// Next is the search whose turn it is in this session; nil if there is none, or it was used.
	Next *Search
	// gangGroups are the groups with waiting searches, by name: gang groups, and gangs without one. asked is a logical clock of the starts of waits.
	gangGroups map[string]*waitingGangGroup
	asked      int
	// served is when each namespace with waiting gang groups had its last turn, or began to wait since, by the clock asked. A
	// namespace that returns is behind the others.
	served map[string]int
}

// waitingGangGroup is a gang group, or a gang without one, that waits for a turn.
type waitingGangGroup struct {
	since     int
	namespace string
	searches  map[Search]*waitingSearch
}

// waitingSearch holds when the search began to wait, and the session in which it last asked.
type waitingSearch struct{ since, asked int }

// beginSession starts a session with the given number of steps. The search whose turn it is no longer waits, even if it
// does not ask. If its turn does not suffice, it waits again, behind the others.
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

// forgetAbsent forgets searches that no longer ask, gang groups without searches, and namespaces without gang groups.
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

// fairShare returns how many steps a search for a plan may use: its share of the remaining steps, given the number of
// searches that its job still has to make.
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

// Open reports whether AcquireAll would succeed.
func (b *Budget) Open(of Search) bool { return b.Left > 0 || b.Next != nil && *b.Next == of }

// AcquireAll takes the steps of a search that cannot be divided. It succeeds while steps remain, or if it is the
// search's turn; otherwise the search waits.
func (b *Budget) AcquireAll(of Search, steps int) bool {
	if !b.useTurn(of) && b.Left <= 0 {
		b.Enqueue(of)
		return false
	}
	b.Left -= steps
	return true
}

// useTurn uses the search's turn, and reports whether it was that search's turn.
func (b *Budget) useTurn(of Search) bool {
	if b.Next == nil || *b.Next != of {
		return false
	}
	b.Next = nil
	return true
}

// Enqueue records that the search needs more steps.
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

// Finish ends the search's turn, because it needs no further steps.
func (b *Budget) Finish(of Search) { b.useTurn(of) }
