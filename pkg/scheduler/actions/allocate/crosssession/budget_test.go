// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestASearchGetsItsShareOfTheRemainingTime checks that a search that does not use all of its share leaves the rest
// to the following searches.
func TestASearchGetsItsShareOfTheRemainingTime(t *testing.T) {
	turns := Budget{}
	turns.beginSession(sessionPackingSteps)
	var got []int
	for places := 4; places > 0; places-- {
		granted := turns.fairShare(Search{Set: strconv.Itoa(places)}, places)
		got = append(got, granted)
		if places < 4 {
			turns.Left -= granted
		}
	}
	want := []int{500_000, 666_666, 666_667, 666_667}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps granted to four places, of which the first uses none (-want +got):\n%s", diff)
	}
}

// TestEachSearchHasItsTurn checks that waiting searches take turns, one in each session: in its turn, a search gets the
// steps of a complete search. A search that comes later waits for the searches that came before it.
func TestEachSearchHasItsTurn(t *testing.T) {
	turns := Budget{}
	searches := []Search{{Set: "a"}, {Set: "b"}, {Set: "c"}}
	whole := map[string][]int{}
	for session := range 8 {
		turns.beginSession(sessionPackingSteps)
		if session == 4 {
			searches = append([]Search{{Set: "new"}}, searches...)
		}
		for i, of := range searches {
			granted := turns.fairShare(of, len(searches)-i)
			turns.Left -= granted
			turns.Enqueue(of)
			if granted == maxPackingSteps {
				whole[of.Set] = append(whole[of.Set], session)
			}
		}
	}
	want := map[string][]int{"a": {1, 4}, "b": {2, 5}, "c": {3, 6}, "new": {7}}
	if diff := cmp.Diff(want, whole); diff != "" {
		t.Errorf("sessions in which each had a whole search (-want +got):\n%s", diff)
	}
}

// TestFinishedSearchReleasesItsSteps checks that a finished search leaves its steps to other searches.
func TestFinishedSearchReleasesItsSteps(t *testing.T) {
	turns := Budget{}
	turns.Enqueue(Search{Set: "a"})
	turns.beginSession(sessionPackingSteps)
	if got, want := turns.fairShare(Search{Set: "b"}, 1), sessionPackingSteps-maxPackingSteps; got != want {
		t.Errorf("%d steps beside one whose turn it is, want %d", got, want)
	}
	turns.Finish(Search{Set: "a"})
	if got := turns.fairShare(Search{Set: "b"}, 1); got != maxPackingSteps {
		t.Errorf("%d steps after that turn was given up, want %d", got, maxPackingSteps)
	}
}

// TestSearchesThatCannotBeDividedAreMadeWhileStepsAreLeft checks that searches that need all their steps at once are
// made while steps are left. The searches that come too late take turns, one in each session.
func TestSearchesThatCannotBeDividedAreMadeWhileStepsAreLeft(t *testing.T) {
	turns := Budget{}
	made := map[string][]int{}
	for session := range 5 {
		turns.beginSession(10)
		for _, set := range []string{"a", "b", "c", "d"} {
			if turns.AcquireAll(Search{Set: set}, 6) {
				made[set] = append(made[set], session)
			}
		}
	}
	want := map[string][]int{"a": {0, 1, 2, 3, 4}, "b": {0, 1, 2, 3, 4}, "c": {1, 3}, "d": {2, 4}}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("sessions in which each search was made (-want +got):\n%s", diff)
	}
}

// TestRepeatedSearchesTakeTurns checks that a search that had its turn, and is repeated because its nodes have
// changed, waits for the searches that have not had theirs.
func TestRepeatedSearchesTakeTurns(t *testing.T) {
	turns := Budget{}
	had := map[string]int{}
	for range 31 {
		turns.beginSession(0)
		for _, set := range []string{"a", "b", "c"} {
			if turns.AcquireAll(Search{Set: set}, 1) {
				had[set]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 10, "c": 10}, had); diff != "" {
		t.Errorf("turns that each had in 30 sessions after the first (-want +got):\n%s", diff)
	}
}

// TestAllThatWaitHaveTurnsInOrder checks that many waiting searches have their turns in the order in which they began
// to wait, one in each session.
func TestAllThatWaitHaveTurnsInOrder(t *testing.T) {
	const waiting = 1100
	turns := Budget{}
	for session := range 2*waiting + 1 {
		turns.beginSession(0)
		for i := range waiting {
			if turns.AcquireAll(Search{GangGroup: strconv.Itoa(i)}, 1) && session > 0 && i != (session-1)%waiting {
				t.Fatalf("session %d is the turn of %d, want %d", session, i, (session-1)%waiting)
			}
		}
	}
}

// TestOneGangGroupOfManySearchesDoesNotKeepOthersWaiting checks that a gang group with many searches does not delay
// others. Each gang group has one turn in as many sessions as there are gang groups, and its searches share its turns
// one after the other.
func TestOneGangGroupOfManySearchesDoesNotKeepOthersWaiting(t *testing.T) {
	searches := []Search{{"large", "", "a", false}, {"large", "", "b", false}, {"large", "job", "b", false}, {"large", "", "b", true}, {"small", "", "a", false}, {"other", "", "a", false}}
	turns := Budget{}
	had := map[Search][]int{}
	for session := range 31 {
		turns.beginSession(0)
		for _, of := range searches {
			if turns.AcquireAll(of, 1) {
				had[of] = append(had[of], session)
			}
		}
	}
	for i, of := range searches {
		want, most := 3, 4*3
		if i > 3 {
			want, most = 7, 4
		}
		last := 0
		for _, session := range had[of] {
			if session-last > most {
				t.Errorf("%+v waits for %d sessions, want at most %d", of, session-last, most)
			}
			last = session
		}
		if len(had[of]) < want {
			t.Errorf("%+v has had turns in sessions %v, want %d turns", of, had[of], want)
		}
	}
}

// TestASearchKeepsItsPlaceWhileItDoesNotAsk checks that a search keeps its place for a few sessions without a
// request, and is then forgotten.
func TestASearchKeepsItsPlaceWhileItDoesNotAsk(t *testing.T) {
	away, others := Search{GangGroup: "away"}, []Search{{GangGroup: "a"}, {GangGroup: "b"}, {GangGroup: "c"}, {GangGroup: "d"}, {GangGroup: "e"}, {GangGroup: "f"}}
	for name, tc := range map[string]struct{ before, want int }{"a few": {5, 6}, "many": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			turns := Budget{}
			turns.beginSession(0)
			for _, of := range others[:tc.before] {
				turns.Enqueue(of)
			}
			turns.Enqueue(away)
			got := 0
			for session := 1; session < 2*turnsKept && got == 0; session++ {
				turns.beginSession(0)
				for _, of := range others {
					turns.AcquireAll(of, 1)
				}
				if turns.Open(away) && tc.before > 0 {
					got = session
				}
			}
			if got != tc.want {
				t.Errorf("its turn is in session %d, want %d", got, tc.want)
			}
			if tc.want == 0 && len(turns.gangGroups) != len(others) {
				t.Errorf("%d gang groups are known, want %d", len(turns.gangGroups), len(others))
			}
		})
	}
}

// TestNamespacesHaveTurns checks that namespaces take turns. Without that, a tenant with 1,000 waiting gang groups
// had 1,000 turns before another tenant's single gang group.
func TestNamespacesHaveTurns(t *testing.T) {
	turns := Budget{}
	of := func(namespace string, i int) Search {
		name := namespace + "/" + strconv.Itoa(i)
		return Search{GangGroup: name, Job: api.JobID(name)}
	}
	var got []string
	for session := range 12 {
		turns.beginSession(sessionPackingSteps)
		if turns.Next != nil {
			got = append(got, string(turns.Next.Job))
		}
		for i := range 1000 {
			turns.Enqueue(of("evil", i))
		}
		if session >= 3 {
			turns.Enqueue(of("good", 0))
			turns.Enqueue(of("good", 1))
		}
		if session >= 6 {
			turns.Enqueue(of("late", 0))
		}
	}
	want := []string{"evil/0", "evil/1", "evil/2", "evil/3", "good/0", "evil/4", "good/1", "evil/5", "late/0", "good/0", "evil/6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	if len(turns.served) != 3 {
		t.Errorf("%d namespaces are remembered", len(turns.served))
	}
	for range turnsKept + 2 {
		turns.beginSession(sessionPackingSteps)
	}
	if len(turns.served)+len(turns.gangGroups) > 0 {
		t.Errorf("%d namespaces and %d gang groups are remembered though none waits", len(turns.served), len(turns.gangGroups))
	}
}

// TestARecreatedNamespaceGetsNoMoreTurns checks that a search that had its turn, was forgotten and is enqueued again
// does not precede a waiting search.
func TestARecreatedNamespaceGetsNoMoreTurns(t *testing.T) {
	turns := Budget{}
	of := func(name string) Search { return Search{GangGroup: name, Job: api.JobID(name)} }
	good := 0
	for range 30 {
		turns.beginSession(0)
		if turns.useTurn(of("good/0")) {
			good++
		}
		turns.Enqueue(of("good/0")) // Its turn is not long enough.
		for _, evil := range []string{"evil/0", "evil-too/0"} {
			if turns.gangGroups[evil] == nil { // It has had its turn and was forgotten.
				turns.Enqueue(of(evil))
			}
		}
	}
	if good < 8 {
		t.Errorf("%d turns in 30 sessions beside two namespaces, want a third of them", good)
	}
}
