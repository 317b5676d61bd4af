// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestObjectsRecreatedDuringASessionAreOtherObjects checks a node and a PodGroup that are deleted and recreated while
// their transaction is still open. The session has placed the pods on the former node, or for the former PodGroup, so
// they are not bound. The next session sees the new objects, and its pods are bound.
func TestObjectsRecreatedDuringASessionAreOtherObjects(t *testing.T) {
	tests := map[string]struct {
		recreate func(w *harness)
		// cause is why the gang waits; empty if it need not wait.
		cause string
	}{
		"the node": {func(w *harness) {
			w.remove(schedtest.MakeNode().Name("n").Obj())
			node := schedtest.MakeNode().Name("n").Obj()
			node.UID = "new"
			w.add(node)
		}, "node n was deleted"},
		"the PodGroup": {func(w *harness) {
			w.remove(schedtest.MakePodGroup().Name("g").Obj())
			group := schedtest.MakePodGroup().Name("g").MinMember(2).Obj()
			group.UID = "new"
			w.add(group)
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				w.mustPlace("n", nil, "p0", "p1")
				tt.recreate(w)
				w.cache.SealTransactions()
				synctest.Wait()
				if diff := cmp.Diff([]string{"", ""}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
					t.Errorf("nodes of the pods (-want +got):\n%s", diff)
					return
				}
				if reason, blocked := w.cache.Blocked(gang); blocked != (tt.cause != "") || !strings.Contains(reason, tt.cause) {
					t.Errorf("the gang waits: %t, because %q, want %q", blocked, reason, tt.cause)
				}
				w.cache.RetryAll()
				w.mustPlace("n", nil, "p0", "p1")
				w.cache.SealTransactions()
				synctest.Wait()
				if diff := cmp.Diff([]string{"n", "n"}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
					t.Errorf("nodes of the pods after the next session (-want +got):\n%s", diff)
				}
			})
		})
	}
}
