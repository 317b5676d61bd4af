// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// sized is the gang's pod i of so many cpus.
func sized(i int, cpu string) *v1.Pod { return pod(i).Req(schedtest.Resources{"cpu": cpu}).Obj() }

// TestAPodIsResizedInItsTransaction checks a pod that its owner resizes while a pre-bind step waits. If the pod grew,
// it is not bound, and meanwhile counts with no more than was reserved. The rest of its gang is bound if it reaches the
// minimum.
func TestAPodIsResizedInItsTransaction(t *testing.T) {
	const cause = "pod ns/p0 was resized before it was bound: cpu (4 requested, 1 reserved)"
	tests := map[string]struct {
		minMember int32
		size      string
		nodes     []string
		cause     string
	}{
		"a pod grows":                        {2, "4", []string{"", ""}, cause},
		"a pod that the gang can do without": {1, "4", []string{"", "n"}, cause},
		"a pod shrinks":                      {2, "500m", []string{"n", "n"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, tt.minMember)
				goOn := make(chan struct{})
				w.mustPlace("n", []binding.Step{waiting("slow", goOn)}, "p0", "p1")
				w.cache.SealTransactions()
				synctest.Wait()
				w.add(sized(0, tt.size))
				if got := idleCPU(w.cache, "n"); got < 6000 {
					t.Errorf("%v milli-cpu are idle beside two pods for which 1000 each were reserved, want at least 6000", got)
				}
				close(goOn)
				synctest.Wait()
				if diff := cmp.Diff(tt.nodes, nodesOf(w.cluster, "p0", "p1")); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				if reason, blocked := w.cache.Blocked(gang); blocked != (tt.cause != "") || !strings.Contains(reason, tt.cause) {
					t.Errorf("the gang waits: %t, because %q, want %q", blocked, reason, tt.cause)
				}
			})
		})
	}
}

// TestAPodIsResizedBeforeItsTransactionBegins checks that a gang is not bound if a pod that it needs grew after its
// placement. The session still places the rest of the gang, and all members are released.
func TestAPodIsResizedBeforeItsTransactionBegins(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.mustPlace("n", nil, "p0")
		w.add(sized(0, "4"))
		w.mustPlace("n", nil, "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", ""}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		if got := idleCPU(w.cache, "n"); got != 8000 {
			t.Errorf("%v milli-cpu are idle after the rollback, want all 8000", got)
		}
	})
}

// TestAPodIsResizedBeforeTheBooksSeeIt checks that a pod that grew is not bound if its new size is in the informer's
// store, but not yet in the books, when the transaction begins.
func TestAPodIsResizedBeforeTheBooksSeeIt(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.mustPlace("n", nil, "p0")
		w.list(sized(0, "4"))
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{""}, nodesOf(w.cluster, "p0")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestAResizedPodOfAnotherGang checks that a pod that grew is not bound even if it now names another PodGroup than its
// transaction.
func TestAResizedPodOfAnotherGang(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		goOn := make(chan struct{})
		w.mustPlace("n", []binding.Step{waiting("slow", goOn)}, "p0")
		w.cache.SealTransactions()
		synctest.Wait()
		w.add(pod(0).Group("another").Req(schedtest.Resources{"cpu": "4"}).Obj())
		close(goOn)
		synctest.Wait()
		if diff := cmp.Diff([]string{""}, nodesOf(w.cluster, "p0")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}
