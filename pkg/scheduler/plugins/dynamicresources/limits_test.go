// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAMemberThatSharesAClaimIsPlaced checks that a further member is placed with a claim that another member holds,
// even if the feature for partitionable devices is enabled.
func TestAMemberThatSharesAClaimIsPlaced(t *testing.T) {
	for _, parts := range []bool{false, true} {
		t.Run(fmt.Sprintf("parts are counted: %t", parts), func(t *testing.T) {
			p, q := member("p", "c"), member("q", "c")
			run(t, append(gpus("n"), schedtest.DeviceClaim("c", one())), func(w *testCluster) {
				w.plugin.devices.catalog.features.PartitionableDevices = parts
				w.mustPlace(p, "n")
				if err := w.place(q, "n"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSharesOfTheSearchGrowAgain checks that the shares of search time recover when namespaces that used up all time no
// longer search.
func TestSharesOfTheSearchGrowAgain(t *testing.T) {
	const nodes, sessions = 1000, 10
	synctest.Test(t, func(t *testing.T) {
		search := func(b *budgets, namespace string, takes time.Duration) bool {
			ctx, end, err := b.beginSearch(namespace, time.Second)
			if err != nil {
				return false
			}
			defer end()
			return pause.For(ctx, takes)
		}
		var last *budgets
		searched := 0
		for n := range sessions {
			b := newBudgets(5*time.Second, last)
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
				var last *budgets
				var slow, first time.Duration
				refused := ""
				start, sessions := time.Now(), 0
				for ; time.Since(start) < time.Hour; sessions++ {
					b := newBudgets(defaultSearchSeconds*time.Second, last)
					before := slow
					for n := range namespaces {
						for range 10 {
							ctx, end, err := b.beginSearch(fmt.Sprint("slow-", n), time.Second)
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
					if _, end, err := b.beginSearch("quick", time.Second); err != nil && slow == before {
						t.Fatalf("a quick search of another namespace was rejected: %v", err)
					} else if err == nil {
						pause.For(t.Context(), freeSearch/2)
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
// at most shortSearch, because other gangs wait for the session to end. Quick searches for other namespaces still
// succeed.
func TestSlowSearchesOfOneSession(t *testing.T) {
	settings, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespaces := range []int{1, 3, 40} {
		t.Run(fmt.Sprint(namespaces, " namespaces"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, begun := newBudgets(settings.search, nil), time.Now()
				search := func(namespace string, takes time.Duration) error {
					ctx, end, err := b.beginSearch(namespace, settings.filterTimeout)
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
				if took, most := time.Since(begun), time.Second+time.Duration(namespaces)*shortSearch; took > most {
					t.Errorf("the session searched for %v, want at most %v", took, most)
				}
				if err := search("quick", shortSearch/2); err != nil {
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
				var last *budgets
				found := 0
				for range sessions {
					b := newBudgets(defaultSearchSeconds*time.Second, last)
					search := func(namespace string, takes time.Duration) bool {
						ctx, end, err := b.beginSearch(namespace, defaultFilterTimeoutSeconds*time.Second)
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
					if took, most := time.Since(begun), time.Second+time.Duration(others+1)*shortSearch; took > most {
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
		var last *budgets
		for range 2 {
			b := newBudgets(defaultSearchSeconds*time.Second, last)
			_, end, err := b.beginSearch("ns", defaultFilterTimeoutSeconds*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			end()
			last = b
		}
	})
}

// TestQuickSearchesOweNothing checks that many quick searches do not limit their namespace in later sessions.
func TestQuickSearchesOweNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last *budgets
		for range 10 {
			b := newBudgets(time.Second, last)
			for range 1000 {
				_, end, err := b.beginSearch("ns", time.Second)
				if err != nil {
					t.Fatal(err)
				}
				pause.For(t.Context(), freeSearch)
				end()
			}
			last = b
		}
		if len(last.owed) > 0 {
			t.Errorf("after quick searches the namespaces owe %v, want nothing", last.owed)
		}
	})
}

// TestLookupsOfASliceEndWithTheirSearch: a tenant's claims may have many large selectors, and a lookup of cached
// results hashes each of them for each slice. The lookup ends when the search does.
func TestLookupsOfASliceEndWithTheirSearch(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("c", one())), func(w *testCluster) {
		d := w.plugin.devices
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errSlow)
		if got := w.fits(member("p", "c"), "n"); got != "" { // so that the inventory is filled
			t.Fatal(got)
		}
		looked := 0
		for _, s := range d.inventory.reach(w.nodes["n"].Node).sound() {
			looked++
			s.kept = map[selectionKey][]bool{{}: {true}}
			if _, err := s.suiting(ctx, d.catalog.compiled.Cache, &choice{}, selectionKey{}); !errors.Is(err, errSlow) {
				t.Errorf("a lookup after the end of its search returned %v", err)
			}
		}
		if looked == 0 {
			t.Error("the node reaches no slices")
		}
	})
}

// TestSearchesThatTimeOutUseUpTheBudget: searches that time out also count against the namespace's time in a session.
func TestSearchesThatTimeOutUseUpTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun := newBudgets(time.Second, nil), time.Now()
		for range 10 {
			ctx, end, err := b.beginSearch("ns", 400*time.Millisecond)
			if err != nil {
				if took, most := time.Since(begun), time.Second+3*freeSearch; took > most {
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
