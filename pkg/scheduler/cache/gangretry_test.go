// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
)

// TestAGangIsLookedAtAgainOnceItChanges checks that a changed gang is checked again. The result that a gang is within
// the limits is cached as long as its PodGroup and its pods stay the same.
func TestAGangIsLookedAtAgainOnceItChanges(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		kept := func() bool {
			t.Helper()
			synctest.Wait()
			w.cache.SessionSnapshot()
			snapshot, _, _ := w.cache.SessionSnapshot()
			if job := snapshot.Jobs[gang]; job != nil {
				return w.cache.books.Copies().WithinBounds(gang, job)
			}
			return false
		}
		if !kept() {
			t.Error("a gang that has not changed is looked at again")
		}
		fits := w.cluster.Pod("p0")
		pod := fits.DeepCopy()
		for i := range 1001 { // one more than a pod may have
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint(i), Operator: v1.TolerationOpExists})
		}
		w.cache.books.Pods.Show(pod)
		if kept() {
			t.Error("its pod has too many tolerations, and it still counts as within the limits")
		}
		if reason, _, is := w.cache.quarantine.objects.Why(gang); !is || reason != quarantine.ObjectTooLarge {
			t.Errorf("it is quarantined: %v, for %q", is, reason)
		}
		w.cache.books.Pods.Show(fits.DeepCopy())
		if !kept() {
			t.Error("it exceeds no limit any longer, but does not count as within the limits")
		}
	})
}
