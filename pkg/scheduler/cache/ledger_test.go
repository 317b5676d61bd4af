// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// reserved creates a gang with one member that is reserved on node n and in no transaction of the engine.
func (w *harness) reserved() *binding.Member {
	w.t.Helper()
	w.gangOf(1, 1)
	m, err := reserve(w.cache, w.decided("p0", "n"), nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// TestSessionAfterRollback checks that a released task is one that upstream's snapshot can clone.
func TestSessionAfterRollback(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		m := w.reserved()
		w.cache.ledger.Released(m, errBroken)
		if got := len(w.cache.Snapshot().Jobs[gang].TaskStatusIndex[api.Pending]); got != 1 {
			t.Errorf("%d tasks are Pending in the snapshot, want 1", got)
		}
	})
}

// TestPodOrNodeDeletedInFlight checks that the resources reserved for a member are released if the pod or the node is
// deleted while it is in flight.
func TestPodOrNodeDeletedInFlight(t *testing.T) {
	tests := map[string]struct {
		happens func(w *harness)
		books   []string
		cause   string
	}{
		"a pod is deleted": {
			happens: func(w *harness) { w.remove(pod(0).Obj()) },
			books:   []string{"unknown", "Pending"},
			cause:   binding.ErrPodGone.Error(),
		},
		"a pod is being deleted": {
			happens: func(w *harness) { w.add(pod(0).Terminating().Obj()) },
			books:   []string{"Releasing", "Pending"},
			cause:   binding.ErrPodGone.Error(),
		},
		"the node is deleted": {
			happens: func(w *harness) { w.remove(schedtest.MakeNode().Name("n").Obj()) },
			books:   []string{"Pending", "Pending"},
			cause:   "node n was deleted",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				never := make(chan struct{})
				w.mustPlace("n", []binding.Step{waiting("slow", never)}, "p0", "p1")
				w.cache.SealTransactions()
				synctest.Wait()
				tt.happens(w)
				synctest.Wait()
				if diff := cmp.Diff(tt.books, booked(w.cache, "p0", "p1")); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				for _, event := range w.cluster.Events.Take() {
					if tt.cause == binding.ErrPodGone.Error() && strings.Contains(event, " p0: ") {
						t.Errorf("the deleted pod got an event: %s", event)
					}
				}
				if reason, blocked := w.cache.Blocked(gang); !blocked || !strings.Contains(reason, tt.cause) {
					t.Errorf("the gang is not waiting: %q", reason)
				}
			})
		})
	}
}
