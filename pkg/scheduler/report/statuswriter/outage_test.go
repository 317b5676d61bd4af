// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// desireAll requests a status of each kind: the pod's condition, the PodGroup's counters and the queue's allocation.
// All of them are delayed before they are written.
func (w *testWriter) desireAll() {
	w.t.Helper()
	told := w.cluster.Pod("p0").DeepCopy()
	podutil.UpdatePodCondition(&told.Status, &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Full", Message: "no room"})
	if _, err := w.UpdatePodStatus(told); err != nil {
		w.t.Fatal(err)
	}
	w.desire(running(7))
	w.PutQueue(schedtest.Queue, v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}, nil)
}

// TestStatusesAreWrittenSoonAfterAnOutage checks that statuses are written soon after an outage, although the waits
// between tries have grown.
func TestStatusesAreWrittenSoonAfterAnOutage(t *testing.T) {
	const soon = time.Second
	for away := 5 * time.Second; away < 2*time.Minute; away = away * 5 / 4 {
		inCluster(t, func(t *testing.T, w *testWriter) {
			w.gangOf1()
			rejectAll(w.cluster, away)
			w.desireAll()
			time.Sleep(away)
			w.RetryNow()
			time.Sleep(soon)
			synctest.Wait()
			if left := w.unwritten(); len(left) > 0 {
				t.Errorf("%v after an outage of %v these are not written: %v", soon, away, left)
			}
		})
	}
}

// TestTheEndOfAnOutageHurriesNoStatusThatDidNotFail checks that RetryNow does not speed up a delayed write that has not
// failed. The delayed status may become unnecessary.
func TestTheEndOfAnOutageHurriesNoStatusThatDidNotFail(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.cluster.Writes()
		w.desireAll()
		w.RetryNow()
		synctest.Wait()
		if got := w.cluster.Writes(); len(got) > 0 {
			t.Errorf("written at once: %v", got)
		}
	})
}
