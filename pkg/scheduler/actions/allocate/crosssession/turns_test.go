// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tryInSessions runs sessions in which the gangs ask for their turn in the given order, and find no room. costs has the
// looks of an attempt, by gang; a gang is given as namespace/name. It returns the gangs that were tried in each session.
func tryInSessions(t *Turns, sessions int, costs map[string]int, order ...string) (tried [][]string) {
	for range sessions {
		t.beginSession()
		tried = append(tried, tryNow(t, costs, order...))
	}
	return tried
}

func tryNow(t *Turns, costs map[string]int, order ...string) (tried []string) {
	for _, gang := range order {
		if namespace := gang[:1]; t.Has(namespace, gang) {
			tried = append(tried, gang)
			t.Charge(namespace, gang, costs[gang])
		}
	}
	return tried
}

// TestTurnsLimitFailedAttempts checks in which sessions gangs are tried that always fail.
func TestTurnsLimitFailedAttempts(t *testing.T) {
	const limit = namespaceLooks
	tests := map[string]struct {
		costs map[string]int
		order []string
		alone bool
		want  [][]string
	}{
		"within the limit, all are tried in each session": {
			costs: map[string]int{"a/1": limit / 2, "a/2": limit / 4}, order: []string{"a/1", "a/2"},
			want: [][]string{{"a/1", "a/2"}, {"a/1", "a/2"}, {"a/1", "a/2"}},
		},
		"beyond the limit, gangs that were not tried come first": {
			costs: map[string]int{"a/1": limit, "a/2": limit, "a/3": limit}, order: []string{"a/1", "a/2", "a/3"},
			want: [][]string{{"a/1"}, {"a/2"}, {"a/3"}, {"a/1"}},
		},
		"the costs of a round are spread over sessions": {
			costs: map[string]int{"a/1": limit / 2, "a/2": limit / 2, "a/3": limit / 2, "a/4": 1}, order: []string{"a/1", "a/2", "a/3", "a/4"},
			want: [][]string{{"a/1", "a/2"}, {"a/3", "a/4"}, {"a/1", "a/2"}, {"a/3", "a/4"}},
		},
		"a huge attempt delays others by four sessions": {
			costs: map[string]int{"a/1": 100 * limit, "a/2": 1}, order: []string{"a/1", "a/2"},
			want: [][]string{{"a/1"}, nil, nil, nil, nil, {"a/2"}, {"a/1"}},
		},
		"another namespace has a limit of its own": {
			costs: map[string]int{"a/1": limit, "a/2": limit, "b/1": limit}, order: []string{"a/1", "a/2", "b/1"},
			want: [][]string{{"a/1", "b/1"}, {"a/2", "b/1"}},
		},
		"an attempt beyond the limit is paid in the next sessions": {
			costs: map[string]int{"a/1": 3 * limit, "b/1": 1}, order: []string{"a/1", "b/1"},
			want: [][]string{{"a/1", "b/1"}, {"b/1"}, {"b/1"}, {"a/1", "b/1"}},
		},
		"without other namespaces there is no limit": {
			costs: map[string]int{"a/1": 3 * limit, "a/2": limit}, order: []string{"a/1", "a/2"}, alone: true,
			want: [][]string{{"a/1", "a/2"}, {"a/1", "a/2"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			turns := &Turns{}
			turns.SetAlone(tt.alone)
			if diff := cmp.Diff(tt.want, tryInSessions(turns, len(tt.want), tt.costs, tt.order...)); diff != "" {
				t.Errorf("gangs that were tried, by session (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTurnsAllowFurtherAttempts checks that a gang that had its turn may be tried again in the same session, for other
// tasks, also in an unfinished round and beyond the limit.
func TestTurnsAllowFurtherAttempts(t *testing.T) {
	turns := &Turns{}
	tryInSessions(turns, 1, map[string]int{"a/1": namespaceLooks}, "a/1", "a/2")
	turns.beginSession()
	if got := tryNow(turns, map[string]int{"a/2": namespaceLooks}, "a/2", "a/2"); !slices.Equal(got, []string{"a/2", "a/2"}) {
		t.Errorf("the gang was tried %d times, want 2", len(got))
	}
}

// TestTurnsEndRounds checks that gangs that come or go do not keep the other gangs of their namespace from their turns.
func TestTurnsEndRounds(t *testing.T) {
	turns, tried := &Turns{}, 0
	for i := range 100 {
		turns.beginSession()
		comes, goes := fmt.Sprint("a/comes-", i), fmt.Sprint("a/goes-", i)
		now := tryNow(turns, map[string]int{comes: namespaceLooks}, comes, "a/old", goes)
		if slices.Contains(now, "a/old") {
			tried++
		}
		if got := len(turns.waiting["a"]); got > 3 {
			t.Fatalf("session %d remembers %d gangs that wait, want at most 3", i, got)
		}
	}
	if tried < 25 {
		t.Errorf("the old gang was tried in %d of 100 sessions, want 25 at least", tried)
	}
	tryInSessions(turns, 10, nil)
	if len(turns.waiting)+len(turns.looks)+len(turns.unfinished) > 0 {
		t.Errorf("without gangs, turns still has %v, %v and %v", turns.waiting, turns.looks, turns.unfinished)
	}
}

// TestTurnsWithoutDebtOfANamespaceThatWasAlone checks that attempts in sessions without gangs of other namespaces do not
// count later.
func TestTurnsWithoutDebtOfANamespaceThatWasAlone(t *testing.T) {
	turns := &Turns{}
	turns.SetAlone(true)
	tryInSessions(turns, 60, map[string]int{"a/1": 10 * namespaceLooks}, "a/1")
	turns.beginSession()
	turns.SetAlone(false)
	if got := tryNow(turns, nil, "a/new"); len(got) == 0 {
		t.Error("a gang is not tried when gangs of another namespace come")
	}
}

// TestTurnsOfGangsThatHold checks that a gang that held resources in the last session may be tried whatever its namespace
// has used, and that a gang of the same name in another namespace may not.
func TestTurnsOfGangsThatHold(t *testing.T) {
	turns := &Turns{}
	tryInSessions(turns, 1, map[string]int{"a/1": 3 * namespaceLooks}, "a/1")
	turns.Charge("b", "1", 3*namespaceLooks)
	turns.Hold("a", "group")
	for session, want := range []bool{true, false} {
		turns.beginSession()
		if got := turns.Has("a", "group"); got != want {
			t.Errorf("session %d after the hold, the gang may be tried: %t, want %t", session+1, got, want)
		}
		if turns.Has("b", "group") {
			t.Error("the gang of another namespace may be tried")
		}
	}
}

// TestTurnsBesideGangsThatHold checks that a gang that holds resources in each session does not use up the limit of its
// namespace.
func TestTurnsBesideGangsThatHold(t *testing.T) {
	turns := &Turns{}
	for session := range 20 {
		turns.beginSession()
		tryNow(turns, map[string]int{"a/holds": 3 * namespaceLooks}, "a/holds")
		turns.Hold("a", "a/holds")
		if tried := tryNow(turns, nil, "a/other"); session > 4 && len(tried) == 0 {
			t.Errorf("in session %d, the other gang of the namespace is not tried", session)
		}
	}
}

// TestTurnsOfGangsThatMissSessions checks that a gang that asks only in every second session is tried, however large its
// cost and that of the other gangs of its namespace.
func TestTurnsOfGangsThatMissSessions(t *testing.T) {
	for _, cost := range []int{1, namespaceLooks} {
		for parity := range 2 {
			turns, tried := &Turns{}, 0
			costs := map[string]int{"a/1": namespaceLooks, "a/2": namespaceLooks, "a/3": namespaceLooks, "a/some": cost}
			for session := range 1000 {
				order := []string{"a/1", "a/2", "a/3"}
				if session%2 == parity {
					order = append(order, "a/some")
				}
				turns.beginSession()
				if slices.Contains(tryNow(turns, costs, order...), "a/some") {
					tried++
				}
			}
			if tried < 100 {
				t.Errorf("with cost %d and in sessions of parity %d, the gang is tried in %d of 1000 sessions, want 100 at least", cost, parity, tried)
			}
		}
	}
}
