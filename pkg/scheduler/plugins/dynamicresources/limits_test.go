// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
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

// TestLookupsOfASliceEndWithTheirSearch: a tenant's claims may have many large selectors, and a lookup of cached
// results hashes each of them for each slice. The lookup ends when the search does.
func TestLookupsOfASliceEndWithTheirSearch(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("c", one())), func(w *testCluster) {
		d := w.plugin.devices
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(workbudget.ErrSlow)
		if got := w.fits(member("p", "c"), "n"); got != "" { // so that the inventory is filled
			t.Fatal(got)
		}
		looked := 0
		for _, s := range d.inventory.reach(w.nodes["n"].Node).sound() {
			looked++
			s.kept = map[selectionKey][]bool{{}: {true}}
			if _, err := s.suiting(ctx, d.catalog.compiled.Cache, &choice{}); !errors.Is(err, workbudget.ErrSlow) {
				t.Errorf("a lookup after the end of its search returned %v", err)
			}
		}
		if looked == 0 {
			t.Error("the node reaches no slices")
		}
	})
}
