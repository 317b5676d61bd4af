// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
)

// catchUp advances the clock and notifies the cache of writes, so that conflicting writes succeed when they are
// retried.
func (w *harness) catchUp() {
	w.t.Helper()
	for range 3 {
		synctest.Wait()
		w.deliver(w.cluster.PodGroup("g"))
		w.sync("p0", "p1")
		time.Sleep(statuswriter.LastRetry)
	}
	synctest.Wait()
}

func TestStuckRollbackIsOnThePodGroupAndItsPodsWhileItLasts(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		var repaired atomic.Bool
		begun := make(chan struct{}) // p1 is not released without a rollback.
		step := binding.Step{Plugin: "storage", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			if task.Name == "p1" {
				close(begun)
				return nil
			}
			<-begun
			return errBroken
		}}
		step.Rollback = func(context.Context, *api.TaskInfo, string) error {
			if repaired.Load() {
				return nil
			}
			return errBroken
		}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(time.Minute - 1)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("PodGroup has the condition %q before the minute is over", got)
		}
		w.catchUp()
		const says = "rollback of pre-bind plugin storage on node n failing since 2000-01-01T00:00:00Z: it is broken; " +
			"retrying, the pod's resources stay reserved"
		const wantGang = "True RollbackStuck: pod p0: " + says + " (and other pods)"
		if diff := cmp.Diff(wantGang, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
		}
		for _, pod := range []string{"p0", "p1"} {
			if diff := cmp.Diff("False RollbackStuck: "+says, podScheduled(w.cluster, pod)); diff != "" {
				t.Errorf("condition of pod %s (-want +got):\n%s", pod, diff)
			}
		}

		w.cluster.Writes()
		for range 5 { // Sessions leave the pod there, and nothing in its status changes.
			time.Sleep(time.Minute)
			if _, err := w.cache.UpdateJobStatus(w.cache.Snapshot().Jobs[gang], true, false, false); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if diff := cmp.Diff(wantGang, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup after sessions (-want +got):\n%s", diff)
		}
		for _, write := range w.cluster.Writes() {
			if strings.Contains(write, "pods/status") {
				t.Errorf("written again: %s", write)
			}
		}

		repaired.Store(true)
		w.catchUp()
		if diff := cmp.Diff("True PreBindFailed: "+gangSays, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup at the end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False SchedulerError: "+stepSays, podScheduled(w.cluster, "p0")); diff != "" {
			t.Errorf("condition of the pod at the end (-want +got):\n%s", diff)
		}
	})
}

// TestARollbackThatFailsLateIsReportedWithItsError checks that the first error of a rollback reaches the conditions
// even if the rollback was reported before as not returning.
func TestARollbackThatFailsLateIsReportedWithItsError(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		begun, goOn := make(chan struct{}), make(chan struct{})
		var tries atomic.Int32
		step := binding.Step{Plugin: "storage", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			if task.Name == "p0" {
				close(begun)
				return nil
			}
			<-begun
			return errBroken
		}}
		step.Rollback = func(_ context.Context, task *api.TaskInfo, _ string) error {
			if task.Name == "p1" {
				return nil
			}
			<-goOn
			return fmt.Errorf("try %d: %w", tries.Add(1), errBroken)
		}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(time.Minute)
		w.catchUp()
		const since = "rollback of pre-bind plugin storage on node n %s since 2000-01-01T00:00:00Z"
		if want := fmt.Sprintf(since, "has not finished"); !strings.Contains(podScheduled(w.cluster, "p0"), want) {
			t.Errorf("condition of the pod is %q, want it to have %q", podScheduled(w.cluster, "p0"), want)
		}
		close(goOn)
		w.catchUp()
		w.catchUp()
		if tries.Load() < 2 {
			t.Fatalf("the rollback was tried %d times, want further tries", tries.Load())
		}
		want := fmt.Sprintf(since, "failing") + ": try 1: it is broken; retrying, the pod's resources stay reserved"
		if diff := cmp.Diff("True RollbackStuck: pod p0: "+want, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False RollbackStuck: "+want, podScheduled(w.cluster, "p0")); diff != "" {
			t.Errorf("condition of the pod (-want +got):\n%s", diff)
		}
	})
}

// TestAWaitOnThePodEndsWithARepeatedFailure checks that the condition of a pod no longer reports a long wait once its
// gang has failed, even if the gang fails as it did before.
func TestAWaitOnThePodEndsWithARepeatedFailure(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		long := make(chan struct{})
		var second atomic.Bool
		step := binding.Step{Plugin: "storage", Timeout: time.Hour, PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			if second.Load() {
				<-long
			}
			if task.Name == "p1" {
				return errBroken
			}
			return nil
		}}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		w.catchUp()
		failed := podScheduled(w.cluster, "p1")
		if !strings.Contains(failed, "it is broken") {
			t.Fatalf("condition of the pod after the first failure is %q", failed)
		}
		second.Store(true)
		time.Sleep(10 * time.Minute)
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(time.Minute)
		w.catchUp()
		if got := podScheduled(w.cluster, "p1"); !strings.Contains(got, "PreBindPending") {
			t.Fatalf("condition of the pod during the long step is %q", got)
		}
		close(long)
		w.catchUp()
		if diff := cmp.Diff(failed, podScheduled(w.cluster, "p1")); diff != "" {
			t.Errorf("condition of the pod after the second failure (-want +got):\n%s", diff)
		}
	})
}

func TestALongWaitInPreBindIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		goOn := make(chan struct{})
		step := waiting("storage", goOn)
		step.Timeout = 10 * time.Minute
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(time.Minute)
		w.catchUp()
		const says = "pre-bind plugin storage has been running on node n since 2000-01-01T00:00:00Z"
		if diff := cmp.Diff("True PreBindPending: pod p0: "+says+" (and other pods)", conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False PreBindPending: "+says, podScheduled(w.cluster, "p1")); diff != "" {
			t.Errorf("condition of the pod (-want +got):\n%s", diff)
		}
		close(goOn)
		w.catchUp()
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("PodGroup has the condition %q after the wait", got)
		}
		if diff := cmp.Diff([]string{"Bound on n", "Bound on n"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if left := w.cache.reports.Remembered(); left > 0 {
			t.Errorf("%d delays are remembered at the end", left)
		}
	})
}

// TestThePodGroupNamesOnlyPodsThatStillWait checks that the PodGroup names only pods that still wait.
func TestThePodGroupNamesOnlyPodsThatStillWait(t *testing.T) {
	const says = " pre-bind plugin storage has been running on node n since 2000-01-01T00:00:00Z"
	for goesOn, waits := range map[string]string{"p0": "p1", "p1": "p0"} {
		withHarness(t, func(t *testing.T, w *harness) {
			w.gangOf(2, 2)
			returns := map[string]chan struct{}{"p0": make(chan struct{}), "p1": make(chan struct{})}
			step := binding.Step{Plugin: "storage", Timeout: time.Hour, PreBind: func(ctx context.Context, task *api.TaskInfo, _ string) error {
				select {
				case <-returns[task.Name]:
				case <-ctx.Done():
				}
				return nil
			}}
			w.mustPlace("n", []binding.Step{step}, "p0", "p1")
			w.cache.SealTransactions()
			time.Sleep(time.Minute)
			w.catchUp()
			if diff := cmp.Diff("True PreBindPending: pod p0:"+says+" (and other pods)", conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
				t.Errorf("condition of the PodGroup while both wait (-want +got):\n%s", diff)
			}
			close(returns[goesOn])
			w.catchUp()
			if diff := cmp.Diff("True PreBindPending: pod "+waits+":"+says, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
				t.Errorf("condition of the PodGroup while %s waits alone (-want +got):\n%s", waits, diff)
			}
		})
	}
}

// TestAHangingBindIsReported checks that a hanging bind is reported. While it is unknown whether a pod is bound, its
// node's resources stay reserved.
func TestAHangingBindIsReported(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		var repaired atomic.Bool
		for verb, err := range map[string]error{"create": apierrors.NewInternalError(errBroken), "get": apierrors.NewForbidden(v1.Resource("pods"), "p", errBroken)} {
			w.cluster.Kube.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return !repaired.Load(), nil, err
			})
		}
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(time.Minute - 1)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("PodGroup has the condition %q before the minute is over", got)
		}
		w.catchUp()
		const says = `binding to node n pending since 2000-01-01T00:00:00Z: pods "p" is forbidden: it is broken; ` +
			"resources stay reserved until the outcome is known"
		if diff := cmp.Diff("True BindPending: pod p0: "+says+" (and other pods)", conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False BindPending: "+says, podScheduled(w.cluster, "p1")); diff != "" {
			t.Errorf("condition of the pod (-want +got):\n%s", diff)
		}
		if _, err := w.cache.UpdateJobStatus(w.cache.Snapshot().Jobs[gang], true, false, false); err != nil {
			t.Fatal(err)
		}
		w.cluster.Writes()
		repaired.Store(true)
		w.catchUp()
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != "" {
			t.Errorf("PodGroup has the condition %q after the wait", got)
		}
		if diff := cmp.Diff([]string{"Bound on n", "Bound on n"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		for _, write := range w.cluster.Writes() {
			if strings.Contains(write, "pods/status") {
				t.Errorf("a bound pod has the message: %s", write)
			}
		}
	})
}

// TestDrainReportsUnfinishedMembers checks that a drain reports unfinished members. The grace period has ended when
// the drain is stopped, but the remaining members must still be reported.
func TestDrainReportsUnfinishedMembers(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		refuseAtFirst(w.cluster, 3)
		returns := make(chan struct{})
		step := binding.Step{Plugin: "storage", Rollback: func(context.Context, *api.TaskInfo, string) error { return nil }}
		step.PreBind = func(context.Context, *api.TaskInfo, string) error {
			<-returns
			return nil
		}
		w.mustPlace("n", []binding.Step{step}, "p0")
		w.cache.SealTransactions()
		synctest.Wait()
		grace, cancel := context.WithCancel(t.Context())
		cancel()
		err := w.cache.Drain(grace)
		const says = "pre-bind plugin storage on node n timed out or was cancelled, and has not returned (running since 2000-01-01T00:00:00Z); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler"
		if err == nil || !strings.Contains(err.Error(), "pod ns/p0: "+says) {
			t.Errorf("Drain returned %v", err)
		}
		if diff := cmp.Diff("True PreBindTimedOut: pod p0: "+says, conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType)); diff != "" {
			t.Errorf("condition of the PodGroup when Drain has returned (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("False PreBindTimedOut: "+says, podScheduled(w.cluster, "p0")); diff != "" {
			t.Errorf("condition of the pod when Drain has returned (-want +got):\n%s", diff)
		}
		told := strings.Join(w.cluster.Events.Take(), "\n")
		if want := "Warning PreBindTimedOut p0: " + says; !strings.Contains(told, want) {
			t.Errorf("events are\n%s\nwant among them\n%s", told, want)
		}
		close(returns)
	})
}
