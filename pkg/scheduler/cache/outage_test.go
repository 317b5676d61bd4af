// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// rejectAll makes the API server reject all requests for that long.
func rejectAll(cluster *schedtest.Cluster, during time.Duration) {
	back := time.Now().Add(during)
	for _, client := range []*clienttesting.Fake{&cluster.Kube.Fake, &cluster.Volcano.Fake} {
		client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Now().Before(back), nil, syscall.ECONNREFUSED
		})
	}
}

// TestAGangIsTriedAgainAtOnceAfterAnOutage checks that a gang is retried at once after an outage, whatever the state
// of its transaction was when the outage began. Its step and the rollbacks fail with the outage, and only later
// failures cause a wait.
func TestAGangIsTriedAgainAtOnceAfterAnOutage(t *testing.T) {
	for away := 5 * time.Second; away < 2*time.Minute; away = away * 5 / 4 {
		withHarness(t, func(t *testing.T, w *harness) {
			w.gangOf(2, 2)
			asks := func(ctx context.Context, _ *api.TaskInfo, _ string) error {
				_, err := w.cluster.Kube.CoreV1().Pods(schedtest.Namespace).Get(ctx, "p0", metav1.GetOptions{})
				return err
			}
			rejectAll(w.cluster, away)
			w.mustPlace("n", []binding.Step{{Plugin: "a", PreBind: asks, Rollback: asks}}, "p0", "p1")
			w.cache.SealTransactions()
			time.Sleep(away)
			w.cache.APIServerBack()
			synctest.Wait()
			if reason, blocked := w.cache.Blocked(gang); blocked {
				t.Errorf("after an outage of %v the gang waits: %s", away, reason)
			}
			if avoid := w.cache.Avoid(gang); len(avoid) > 0 {
				t.Errorf("it is to avoid %v, which have nothing to do with an outage", avoid)
			}
			time.Sleep(time.Second)
			w.mustPlace("n", []binding.Step{failing("a", "p0")}, "p0", "p1")
			w.cache.SealTransactions()
			synctest.Wait()
			if _, blocked := w.cache.Blocked(gang); !blocked {
				t.Error("a gang that failed since is tried again without a pause")
			}
		})
	}
}

// TestAGangWhosePrebindIsDoneIsBoundAfterAnOutage checks that a gang whose pre-bind is done is bound after an outage
// without another session. While its minimum cannot be read, its members keep their reservations.
func TestAGangWhosePrebindIsDoneIsBoundAfterAnOutage(t *testing.T) {
	const away = time.Minute
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		rejectAll(w.cluster, away)
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(away)
		w.cache.APIServerBack()
		synctest.Wait()
		time.Sleep(time.Second) // A Binding that may be on its way has time to arrive.
		synctest.Wait()
		if got := nodesOf(w.cluster, "p0", "p1"); got[0] != "n" || got[1] != "n" {
			t.Errorf("they are on %q, want n", got)
		}
	})
}

// TestEventsAreWrittenSoonAfterAnOutage checks that events are written within a second after an outage.
func TestEventsAreWrittenSoonAfterAnOutage(t *testing.T) {
	for away := 5 * time.Second; away < 2*time.Minute; away = away * 5 / 4 {
		var store *eventStore
		writer := func() record.EventRecorder {
			store = &eventStore{up: time.Now().Add(away)}
			return events.NewWriter(store, "volcano", func(string) {})
		}
		withHarnessAndEvents(t, writer, func(t *testing.T, w *harness) {
			const told = 16 // more than are written at once
			for i := range told {
				w.cache.EventRecorder().Event(pod(i).Obj(), v1.EventTypeWarning, "PreBindFailed", "not bound")
			}
			time.Sleep(away)
			w.cache.APIServerBack()
			time.Sleep(time.Second)
			synctest.Wait()
			if got := len(store.arrived()); got != told {
				t.Errorf("after an outage of %v there are %d of %d events", away, got, told)
			}
		})
	}
}

// TestStatusesAreWrittenSoonAfterAnOutage checks that statuses are written soon after an outage: the cache notifies
// the status writer when the API server returns.
func TestStatusesAreWrittenSoonAfterAnOutage(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		rejectAll(w.cluster, time.Minute)
		desireAll(w)
		time.Sleep(time.Minute)
		w.cache.APIServerBack()
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff("False Full: no room", podScheduled(w.cluster, "p0")); diff != "" {
			t.Errorf("condition of the pod (-want +got):\n%s", diff)
		}
	})
}
