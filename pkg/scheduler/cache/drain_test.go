// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// refuseAtFirst makes the API server reject this number of updates of pods, and as many of PodGroups and queues, with
// a temporary error.
func refuseAtFirst(cluster *schedtest.Cluster, times int32) {
	for _, client := range []*clienttesting.Fake{&cluster.Kube.Fake, &cluster.Volcano.Fake} {
		var tried atomic.Int32
		refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
			if tried.Add(1) > times {
				return false, nil, nil
			}
			return true, nil, apierrors.NewServiceUnavailable("not yet")
		}
		client.PrependReactor("update", "*", refuse)
		client.PrependReactor("patch", "podgroups", refuse)
	}
}

// desireAll requests a status of each kind: the pod's condition, the PodGroup's counters and the queue's allocation.
// All of them are delayed before they are written.
func desireAll(w *harness) {
	w.t.Helper()
	told := w.cluster.Pod("p0").DeepCopy()
	podutil.UpdatePodCondition(&told.Status, &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Full", Message: "no room"})
	if _, err := w.cache.reports.Status().UpdatePodStatus(told); err != nil {
		w.t.Fatal(err)
	}
	pg := w.cache.Snapshot().Jobs[gang].PodGroup
	pg.Status.Running = 7
	if _, err := w.cache.reports.Status().UpdatePodGroup(pg); err != nil {
		w.t.Fatal(err)
	}
	queue := schedtest.MakeQueue().Name(schedtest.Queue).Obj()
	queue.Status.Allocated = v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}
	if _, err := w.cache.VCClient().SchedulingV1beta1().Queues().UpdateStatus(w.t.Context(), queue, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestDrainWritesTheDesiredStatuses checks that a drain writes the desired statuses. Its grace period has ended when
// the last statuses are requested.
func TestDrainWritesTheDesiredStatuses(t *testing.T) {
	tests := map[string]struct{ refused int32 }{
		"at once, what waits for a moment to pass":    {0},
		"again, what fails while the scheduler stops": {4},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				refuseAtFirst(w.cluster, tt.refused)
				desireAll(w)
				grace, cancel := context.WithCancel(t.Context())
				cancel()
				if err := w.cache.Drain(grace); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff("False Full: no room", podScheduled(w.cluster, "p0")); diff != "" {
					t.Errorf("condition of the pod (-want +got):\n%s", diff)
				}
				if got := w.cluster.PodGroup("g").Status.Running; got != 7 {
					t.Errorf("the PodGroup has %d running pods, want 7", got)
				}
				queue, err := w.cluster.Volcano.SchedulingV1beta1().Queues().Get(t.Context(), schedtest.Queue, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := queue.Status.Allocated.Cpu().String(); got != "3" {
					t.Errorf("the queue has %s cpu allocated, want 3", got)
				}
			})
		})
	}
}

// TestDrainSendsTheEventsThatAreLeft checks that a drain sends the remaining events, even if the API server rejects
// the first requests.
func TestDrainSendsTheEventsThatAreLeft(t *testing.T) {
	var store *eventStore
	writer := func() record.EventRecorder {
		store = &eventStore{up: time.Now().Add(time.Second)}
		return events.NewWriter(store, "volcano", func(string) {})
	}
	withHarnessAndEvents(t, writer, func(t *testing.T, w *harness) {
		w.cache.EventRecorder().Event(pod(0).Obj(), v1.EventTypeWarning, "RollbackStuck", "it is stuck")
		grace, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.cache.Drain(grace); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"RollbackStuck p0 x1: it is stuck"}, store.arrived()); diff != "" {
			t.Errorf("events that have arrived when Drain returns (-want +got):\n%s", diff)
		}
	})
}

// TestStopIsBounded checks that a shutdown is bounded. An API server that does not accept statuses delays a shutdown
// for no longer than the limit, and not at all after a lost lease.
func TestStopIsBounded(t *testing.T) {
	tests := map[string]struct {
		aborted bool
		want    time.Duration
	}{
		"a drain waits for the limit":           {want: statuswriter.FlushLimit},
		"a drain that is aborted does not wait": {aborted: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				refuseAtFirst(w.cluster, 1<<30)
				desireAll(w)
				start := time.Now()
				if tt.aborted {
					w.cache.Abort()
				}
				if err := w.cache.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(start); got != tt.want {
					t.Errorf("Drain took %v, want %v", got, tt.want)
				}
			})
		})
	}
}
