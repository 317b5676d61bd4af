// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/events"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const (
	stepSays = "pre-bind plugin storage failed for pod ns/p0 on node n: it is broken"
	gangSays = stepSays + "; only 1 of minMember 2 can be bound, rolled back all 2 pods"
)

// failGang makes the gang's transaction fail once: the storage fails for pod p0.
func (w *harness) failGang() {
	w.t.Helper()
	w.mustPlace("n", []binding.Step{failing("storage", "p0")}, "p0", "p1")
	w.cache.SealTransactions()
	synctest.Wait()
}

// conditionOf describes the condition of the PodGroup in the API server. It returns "" if the condition does not exist.
func conditionOf(cluster *schedtest.Cluster, kind v1beta1.PodGroupConditionType) string {
	for _, c := range cluster.PodGroup("g").Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

func podScheduled(cluster *schedtest.Cluster, name string) string {
	_, c := podutil.GetPodCondition(&cluster.Pod(name).Status, v1.PodScheduled)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// TestFailedGangWakesTheLoop checks that a failed gang wakes the loop. The loop may be idle, and no other change
// would wake it for the released resources.
func TestFailedGangWakesTheLoop(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.failGang()
		if wakes := w.woken(); !slices.Contains(wakes, WakeNow) {
			t.Errorf("the loop was woken %v, want a cycle now", wakes)
		}
	})
}

func TestAFailedPreBindIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.cluster.Writes()
		w.failGang()
		if diff := cmp.Diff("True PreBindFailed: "+gangSays, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False SchedulerError: "+stepSays, podScheduled(w.cluster, "p0")); diff != "" {
			t.Errorf("condition of the failed pod (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False SchedulerError: Gang could not be bound: "+gangSays, podScheduled(w.cluster, "p1")); diff != "" {
			t.Errorf("condition of the other pod (-want +got):\n%s", diff)
		}
		want := []string{
			"Warning PreBindFailed g: " + gangSays,
			"Warning PreBindFailed p0: " + stepSays,
			"Warning PreBindFailed p1: Gang could not be bound: " + gangSays,
		}
		if diff := cmp.Diff(want, w.cluster.Events.Take()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		wantWrites := map[string]int{"update pods/status p0": 1, "update pods/status p1": 1, "patch podgroups g": 1}
		if diff := cmp.Diff(wantWrites, count(w.cluster.Writes())); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

func count(list []string) map[string]int {
	counts := map[string]int{}
	for _, s := range list {
		counts[s]++
	}
	return counts
}

// TestTheSameFailureIsReportedOnce checks that the same failure is reported once: a gang that keeps failing for the
// same reason causes no further event or write.
func TestTheSameFailureIsReportedOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.failGang()
		w.deliver(w.cluster.PodGroup("g"))
		w.sync("p0", "p1")
		w.cluster.Events.Take()
		w.cluster.Writes()
		for range 3 {
			w.cache.RetryAll()
			w.failGang()
			time.Sleep(2 * statuswriter.Settle)
			synctest.Wait()
		}
		if got := w.cluster.Events.Take(); len(got) != 0 {
			t.Errorf("events of a reported failure: %v", got)
		}
		if got := w.cluster.Writes(); len(got) != 0 {
			t.Errorf("writes of a reported failure: %v", got)
		}
	})
}

// TestTheSameFailureIsReportedAgainAfterItsEventsExpire checks that the same failure is reported again after its
// events expire: the API server drops events after a while, and the gang still waits.
func TestTheSameFailureIsReportedAgainAfterItsEventsExpire(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.failGang()
		told := w.cluster.Events.Take()
		time.Sleep(events.Lifetime + time.Second)
		w.failGang()
		if diff := cmp.Diff(told, w.cluster.Events.Take()); diff != "" || len(told) != 3 {
			t.Errorf("events at first and when they are gone (-want +got):\n%s", diff)
		}
		w.cache.RetryAll()
		w.failGang()
		if got := w.cluster.Events.Take(); len(got) != 0 {
			t.Errorf("events right after that: %v", got)
		}
	})
}

// TestTheRecordOfReportedPodsIsBounded checks that the record of reported pods is bounded: it keeps only the existing
// pods of a gang that keeps failing and whose pods are recreated.
func TestTheRecordOfReportedPodsIsBounded(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		for i := range 20 {
			w.failGang()
			w.cache.RetryAll()
			for n := range 2 {
				w.remove(pod(n).Obj())
				w.add(pod(n).UID(fmt.Sprintf("%d-%d", i, n)).Obj())
			}
		}
		w.failGang()
		if got := w.cache.reports.Remembered(); got != 3 {
			t.Errorf("%d things are remembered, want the failure and the 2 pods that are there", got)
		}
	})
}

// TestEqualPodsAreOneCause checks that equal pods count as one cause. Chance decides which of a gang's equal pods has
// the failure, so another pod is not a new cause. A pod that joined the gang later has no report yet.
func TestEqualPodsAreOneCause(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.failGang()
		w.deliver(w.cluster.PodGroup("g"))
		w.sync("p0", "p1")
		w.cluster.Events.Take()
		w.cluster.Writes()
		tryAgain := func(culprit string, names ...string) {
			w.cache.RetryAll()
			w.mustPlace("n", []binding.Step{failing("storage", culprit)}, names...)
			w.cache.SealTransactions()
			synctest.Wait()
		}
		tryAgain("p1", "p0", "p1")
		if got := w.cluster.Writes(); len(got) != 0 {
			t.Errorf("writes when the other pod met the same: %v", got)
		}
		w.remove(pod(1).Obj())
		w.add(pod(2).Obj())
		w.cluster.Writes()
		tryAgain("p0", "p0", "p2")
		if diff := cmp.Diff([]string{"update pods/status p2"}, w.cluster.Writes()); diff != "" {
			t.Errorf("writes when a new pod met the same (-want +got):\n%s", diff)
		}
		events := w.cluster.Events.Take()
		if len(events) != 1 || !strings.HasPrefix(events[0], "Warning PreBindFailed p2: Gang could not be bound: ") {
			t.Errorf("events: %q, want one for the new pod", events)
		}
	})
}

// TestRegressionNoBackoff covers upstream's defect no-backoff: in every cycle, upstream retries a gang whose pre-bind
// always fails. Here the gang waits, twice as long after each failure.
func TestRegressionNoBackoff(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		var waits []time.Duration
		for range 3 {
			w.failGang()
			begin := time.Now()
			reason, blocked := w.cache.Blocked(gang)
			if !blocked || !strings.Contains(reason, stepSays) {
				t.Fatalf("Blocked is %v, %q right after a failure", blocked, reason)
			}
			if got := idleCPU(w.cache, "n"); got != 8000 {
				t.Errorf("%v milli-cpu are idle while the gang waits, want all 8000", got)
			}
			for blocked {
				time.Sleep(10 * time.Millisecond)
				_, blocked = w.cache.Blocked(gang)
			}
			waits = append(waits, time.Since(begin))
		}
		for i, wait := range waits {
			shortest := firstRetry << i
			if wait < shortest || wait > shortest*6/5+time.Second/10 {
				t.Errorf("wait %d took %v, want %v and up to a fifth more", i, wait, shortest)
			}
		}
	})
}

func TestSuccessEndsTheBackoff(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(3, 2)
		for range 5 { // The next wait would be half a minute.
			w.failGang()
			w.cache.RetryAll()
		}
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		if reason, blocked := w.cache.Blocked(gang); blocked {
			t.Errorf("the bound gang waits: %s", reason)
		}
		if w.cache.reports.HasFailed(gang) {
			t.Error("the failure is remembered after the gang was bound")
		}
		w.mustPlace("n", []binding.Step{failing("a", "p2")}, "p2")
		w.cache.SealTransactions()
		synctest.Wait()
		if _, blocked := w.cache.Blocked(gang); !blocked {
			t.Error("a further member that failed is tried again without a pause")
		}
		time.Sleep(5 * time.Second)
		if reason, blocked := w.cache.Blocked(gang); blocked {
			t.Errorf("the first failure after a success is waited for as the sixth in a row: %s", reason)
		}
	})
}

// TestARejectedBindingIsReported checks that a rejected Binding is reported. The API server rejects one Binding, and
// the gang needs only one member.
func TestARejectedBindingIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 1)
		w.cluster.Kube.PrependReactor("create", "pods/binding", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.(clienttesting.CreateActionImpl).Object.(*v1.Binding).Name != "p0" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
		})
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(10 * time.Second) // until the rejection counts as permanent
		synctest.Wait()
		if diff := cmp.Diff([]string{"Pending", "Bound on n"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); !strings.HasPrefix(got, "True BindFailed: binding pod ns/p0 to node n failed") {
			t.Errorf("condition of the PodGroup is %q", got)
		}
		if got := podScheduled(w.cluster, "p1"); got != "" {
			t.Errorf("the bound pod has the condition %q", got)
		}
	})
}

// TestShutdownIsNoFailure checks that a gang that a shutdown interrupts neither waits nor is reported as failed.
func TestShutdownIsNoFailure(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.mustPlace("n", []binding.Step{waiting("slow", make(chan struct{}))}, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.cluster.Writes()
		w.cache.Abort()
		synctest.Wait()
		if got := w.cluster.Events.Take(); len(got) != 0 {
			t.Errorf("events: %v", got)
		}
		if got := w.cluster.Writes(); len(got) != 0 {
			t.Errorf("writes after the lease was lost: %v", got)
		}
	})
}
