// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAMemberThatSharesAClaimIsPlaced, also where parts of devices are counted: nothing is chosen for it that others could have taken.
func TestAMemberThatSharesAClaimIsPlaced(t *testing.T) {
	for _, parts := range []bool{false, true} {
		t.Run(fmt.Sprintf("parts are counted: %t", parts), func(t *testing.T) {
			p, q := member("p", "c"), member("q", "c")
			run(t, append(gpus("n"), schedtest.DeviceClaim("c", one())), func(w *world) {
				w.plugin.devices.features.PartitionableDevices = parts
				w.mustPlace(p, "n")
				if err := w.place(q, "n"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSharesOfTheSearchGrowAgain once the namespaces are gone that had used up all of the time.
func TestSharesOfTheSearchGrowAgain(t *testing.T) {
	const nodes, sessions = 1000, 10
	synctest.Test(t, func(t *testing.T) {
		search := func(b *budgets, namespace string, takes time.Duration) bool {
			ctx, end, err := b.begin(namespace, time.Second)
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
			t.Errorf("in the last session a namespace searched %d of %d nodes, and all together %v of %v", searched, nodes, last.all, last.limitOfAll)
		}
	})
}

// TestWhatIsKnownOfASliceIsNotLookedUpForEver: a tenant's claims may have many large selectors, which are told apart by a hash of each for each slice.
func TestWhatIsKnownOfASliceIsNotLookedUpForEver(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("c", one())), func(w *world) {
		d := w.plugin.devices
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errSlow)
		if got := w.fits(member("p", "c"), "n"); got != "" { // so that devices are listed
			t.Fatal(got)
		}
		looked := 0
		for _, s := range d.inventory.reach(w.nodes["n"].Node).sound {
			looked++
			s.kept = map[selectionKey][]bool{{}: {true}}
			if _, err := s.suiting(ctx, d.compiled.Cache, &choice{}, selectionKey{}); !errors.Is(err, errSlow) {
				t.Errorf("a search that has ended went on: %v", err)
			}
		}
		if looked == 0 {
			t.Error("there are no devices")
		}
	})
}
