// SPDX-License-Identifier: Apache-2.0

package workbudget

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

// searches is the work of these tests. defaultSearch is the usual limit of slow searches in a session.
var searches = Work{Kind: "device ", One: "search", Many: "searches"}

const defaultSearch = time.Second

// TestSharesOfTheSearchGrowAgain checks that the shares of search time recover when namespaces that used up all time no
// longer search.
func TestSharesOfTheSearchGrowAgain(t *testing.T) {
	const nodes, sessions = 1000, 10
	synctest.Test(t, func(t *testing.T) {
		search := func(b *Budgets, namespace string, takes time.Duration) bool {
			ctx, end, err := b.Begin(namespace, time.Second)
			if err != nil {
				return false
			}
			defer end()
			return pause.For(ctx, takes)
		}
		var last *Budgets
		searched := 0
		for n := range sessions {
			b := New(searches, 5*time.Second, last)
			for greedy := range 5 {
				for range 5 {
					if n == 0 {
						search(b, fmt.Sprint("greedy-", greedy), 2*time.Second)
					}
				}
			}
			searched = 0
			for range nodes {
				if search(b, "large", time.Millisecond) {
					searched++
				}
			}
			for small := range 99 {
				search(b, fmt.Sprint("small-", small), time.Millisecond)
			}
			last = b
		}
		if searched != nodes {
			t.Errorf("in the last session a namespace searched %d of %d nodes, and all namespaces used %v of %v", searched, nodes, last.all, last.limitOfAll)
		}
	})
}

// TestSlowSearchesTakeAPartOfTheTime checks that a namespace whose searches use up their limit in one session does not
// get the same time in each further session.
func TestSlowSearchesTakeAPartOfTheTime(t *testing.T) {
	for _, namespaces := range []int{1, 3, 40} {
		t.Run(fmt.Sprint(namespaces, " namespaces"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last *Budgets
				var slow, first time.Duration
				refused := ""
				start, sessions := time.Now(), 0
				for ; time.Since(start) < time.Hour; sessions++ {
					b := New(searches, defaultSearch, last)
					before := slow
					for n := range namespaces {
						for range 10 {
							ctx, end, err := b.Begin(fmt.Sprint("slow-", n), time.Second)
							if err != nil {
								refused = err.Error()
								break
							}
							begun := time.Now()
							pause.For(ctx, time.Minute)
							slow += time.Since(begun)
							end()
						}
					}
					if sessions == 0 {
						first = slow
					} else if took := slow - before; took > first {
						t.Fatalf("session %d searched for %v, longer than the first one, which took %v", sessions, took, first)
					}
					if _, end, err := b.Begin("quick", time.Second); err != nil && slow == before {
						t.Fatalf("a quick search of another namespace was rejected: %v", err)
					} else if err == nil {
						pause.For(t.Context(), Free/2)
						end()
					}
					last = b
					pause.For(t.Context(), time.Second)
				}
				part := 1 / float64(slowPart)
				if namespaces > slowPart/slowPartOfAll {
					part = 1 / float64(slowPartOfAll)
				} else {
					part *= float64(namespaces)
				}
				if most := first + time.Duration(float64(time.Hour)*part*13/10); slow > most || slow < most/4 {
					t.Errorf("slow searches took %v of an hour, want up to %v", slow, most)
				}
				if want := `get only 1/20 of the time; retrying in a later cycle`; !strings.Contains(refused, want) {
					t.Errorf("the last refusal is %q, want %q", refused, want)
				}
			})
		})
	}
}

// TestSlowSearchesOfOneSession checks that slow searches take about one second of a session, and each further namespace
// at most Short, because other gangs wait for the session to end. Quick searches for other namespaces still
// succeed.
func TestSlowSearchesOfOneSession(t *testing.T) {
	for _, namespaces := range []int{1, 3, 40} {
		t.Run(fmt.Sprint(namespaces, " namespaces"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, begun := New(searches, defaultSearch, nil), time.Now()
				search := func(namespace string, takes time.Duration) error {
					ctx, end, err := b.Begin(namespace, time.Second)
					if err != nil {
						return err
					}
					defer end()
					if !pause.For(ctx, takes) {
						return context.Cause(ctx)
					}
					return nil
				}
				for n := range namespaces {
					for range 20 {
						_ = search(fmt.Sprint("slow-", n), 200*time.Millisecond)
					}
				}
				if took, most := time.Since(begun), time.Second+time.Duration(namespaces)*Short; took > most {
					t.Errorf("the session searched for %v, want at most %v", took, most)
				}
				if err := search("quick", Short/2); err != nil {
					t.Errorf("a quick search of another namespace failed: %v", err)
				}
			})
		})
	}
}

// TestSlowSearchesOfOthersLeaveATurn: in each session, gangs of other tenants use up the time for slow searches first.
// A namespace whose search takes a third of a second gets that time after at most as many sessions as namespaces wait.
func TestSlowSearchesOfOthersLeaveATurn(t *testing.T) {
	for _, others := range []int{2, 9} {
		t.Run(fmt.Sprint(others, " others"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const sessions = 60
				var last *Budgets
				found := 0
				for range sessions {
					b := New(searches, defaultSearch, last)
					search := func(namespace string, takes time.Duration) bool {
						ctx, end, err := b.Begin(namespace, time.Second)
						if err != nil {
							return false
						}
						defer end()
						return pause.For(ctx, takes)
					}
					begun := time.Now()
					for n := range others {
						for search(fmt.Sprint("others-", n), 200*time.Millisecond) {
						}
					}
					if search("patient", 333*time.Millisecond) {
						found++
					}
					if took, most := time.Since(begun), time.Second+time.Duration(others+1)*Short; took > most {
						t.Fatalf("a session searched for %v, want at most %v", took, most)
					}
					last = b
					pause.For(t.Context(), 15*time.Second) // the pause between sessions
				}
				if want := sessions/(others+1) - 1; found < want {
					t.Errorf("%d of %d sessions searched to the end for the patient namespace, want %d", found, sessions, want)
				}
				if len(last.waiting) > others+1 {
					t.Errorf("%d namespaces are recorded as waiting", len(last.waiting))
				}
			})
		})
	}
}

// TestASearchThatWasSlowOnceHasNoConsequence: a single slow search does not limit its namespace, because any search may
// be slow on a busy machine.
func TestASearchThatWasSlowOnceHasNoConsequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last *Budgets
		for range 2 {
			b := New(searches, defaultSearch, last)
			_, end, err := b.Begin("ns", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			pause.For(t.Context(), 100*time.Millisecond)
			end()
			last = b
		}
	})
}

// TestQuickSearchesOweNothing checks that many quick searches do not limit their namespace in later sessions.
func TestQuickSearchesOweNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last *Budgets
		for range 10 {
			b := New(searches, time.Second, last)
			for range 1000 {
				_, end, err := b.Begin("ns", time.Second)
				if err != nil {
					t.Fatal(err)
				}
				pause.For(t.Context(), Free)
				end()
			}
			last = b
		}
		if len(last.owed) > 0 {
			t.Errorf("after quick searches the namespaces owe %v, want nothing", last.owed)
		}
	})
}

// TestSearchesThatTimeOutUseUpTheBudget: searches that time out also count against the namespace's time in a session.
func TestSearchesThatTimeOutUseUpTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun := New(searches, time.Second, nil), time.Now()
		for range 10 {
			ctx, end, err := b.Begin("ns", 400*time.Millisecond)
			if err != nil {
				if took, most := time.Since(begun), time.Second+3*Free; took > most {
					t.Errorf("the searches took %v, want at most %v", took, most)
				}
				return
			}
			pause.For(ctx, time.Minute)
			end()
		}
		t.Errorf("the namespace has searched for %v of 1s, and may still search", b.spent["ns"].slow)
	})
}

// TestAllNamespacesHaveALimitTogether: many searches that are too short to count individually must not take unlimited
// time in a session.
func TestAllNamespacesHaveALimitTogether(t *testing.T) {
	cases := map[string]struct {
		namespaces int
		search     time.Duration
	}{
		"many namespaces": {namespaces: 100, search: Free},
		"one namespace":   {namespaces: 1, search: Free / 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, begun := New(searches, time.Second, nil), time.Now()
				for i := 0; ; i++ {
					_, end, err := b.Begin(fmt.Sprint("ns-", i%tc.namespaces), time.Second)
					if err != nil {
						if want := "device search budget of all namespaces (20s per cycle) is exhausted; retrying in a later cycle"; err.Error() != want {
							t.Errorf("got %q, want %q", err, want)
						}
						break
					}
					pause.For(t.Context(), tc.search)
					end()
				}
				if took := time.Since(begun); took > 20*time.Second+tc.search {
					t.Errorf("searched for %v", took)
				}
			})
		})
	}
	if b := New(searches, time.Minute, nil); b.limitOfAll != time.Minute {
		t.Errorf("all may search for %v, want a minute", b.limitOfAll)
	}
}
