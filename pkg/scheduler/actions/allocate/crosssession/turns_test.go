// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asksEachSession runs sessions in which the gangs ask for a turn in the order given, and fail. costs has the looks of an
// attempt, by gang; a gang is given as namespace/name. It returns the gangs that were tried in each session.
func asksEachSession(t *Turns, sessions int, costs map[string]int, order ...string) (tried [][]string) {
	for range sessions {
		t.beginSession()
		var now []string
		for _, gang := range order {
			if namespace := gang[:1]; t.Has(namespace, gang) {
				now = append(now, gang)
				t.Failed(namespace, gang, costs[gang])
			}
		}
		tried = append(tried, now)
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
			if diff := cmp.Diff(tt.want, asksEachSession(turns, len(tt.want), tt.costs, tt.order...)); diff != "" {
				t.Errorf("gangs that were tried, by session (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTurnsAllowFurtherAttemptsInASession: a gang that failed in this session may be tried for other tasks in the same
// session.
func TestTurnsAllowFurtherAttemptsInASession(t *testing.T) {
	turns := &Turns{}
	turns.beginSession()
	turns.Failed("a", "a/1", 1)
	if !turns.Has("a", "a/1") {
		t.Error("the second attempt in the session is refused")
	}
}

// TestTurnsForgetGangs: gangs that are gone take no memory, also while their namespace never ends a round.
func TestTurnsForgetGangs(t *testing.T) {
	turns := &Turns{}
	for i := range 100 {
		turns.beginSession()
		turns.Failed("a", fmt.Sprint("a/", i), namespaceLooks)
		turns.Has("a", "a/waits")
	}
	if got := len(turns.tried["a"]); got > turnsKept+2 {
		t.Errorf("%d gangs are remembered, want at most %d", got, turnsKept+2)
	}
	asksEachSession(turns, 200, nil)
	if len(turns.tried)+len(turns.looks)+len(turns.left) > 0 {
		t.Errorf("after sessions without gangs, there are still %v, %v and %v", maps.Keys(turns.tried), turns.looks, turns.left)
	}
}
