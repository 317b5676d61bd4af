// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestTheNUMATopologyOfADeletedNodeIsDeleted checks that the deletion of a node deletes the NUMA topology of this node
// only.
func TestTheNUMATopologyOfADeletedNodeIsDeleted(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		for _, name := range []string{"n", "m"} {
			numa := &nodeinfov1alpha1.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := w.cluster.Volcano.Tracker().Add(numa); err != nil {
				t.Fatal(err)
			}
			w.add(schedtest.MakeNode().Name(name).Obj())
			w.cache.books.Nodes.ShowNUMA(numa)
		}
		w.remove(schedtest.MakeNode().Name("n").Obj())
		synctest.Wait()
		left, err := w.cluster.Volcano.NodeinfoV1alpha1().Numatopologies().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) != 1 || left.Items[0].Name != "m" {
			t.Errorf("%v (%v) remain, want only m", left, err)
		}
	})
}

// TestTheNUMATopologyOfAReplacedNodeStays checks that the NUMA topology of a replaced node stays. The watch shows the
// next node with its name instead of the deletion of the former node.
func TestTheNUMATopologyOfAReplacedNodeStays(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		numa := &nodeinfov1alpha1.Numatopology{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if err := w.cluster.Volcano.Tracker().Add(numa); err != nil {
			t.Fatal(err)
		}
		w.add(schedtest.MakeNode().Name("n").Obj())
		w.cache.books.Nodes.ShowNUMA(numa)
		next := schedtest.MakeNode().Name("n").Obj()
		next.UID = "next"
		w.add(next)
		synctest.Wait()
		if _, err := w.cluster.Volcano.NodeinfoV1alpha1().Numatopologies().Get(t.Context(), "n", metav1.GetOptions{}); err != nil {
			t.Errorf("the Numatopology of the node: %v", err)
		}
	})
}
