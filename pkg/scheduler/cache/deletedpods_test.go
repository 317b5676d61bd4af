// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestADeletedPodIsNoFailureOfItsGang checks that a deleted pod is no failure of its gang. The pod is a surplus member
// of a gang that is bound without it. The gang then does not wait, whenever and however the scheduler learns of the
// deletion.
func TestADeletedPodIsNoFailureOfItsGang(t *testing.T) {
	tests := map[string]struct {
		open, inFlight func(w *harness)
		step           binding.Step
	}{
		"deleted while the session goes on": {open: func(w *harness) { w.remove(pod(2).Obj()) }},
		"deleted, and only listed so yet":   {open: func(w *harness) { w.unlist(pod(2).Obj()) }},
		"deleted in pre-bind":               {inFlight: func(w *harness) { w.remove(pod(2).Obj()) }},
		"found gone by its bind":            {open: func(w *harness) { w.cluster.Remove(pod(2).Obj()) }},
		"found replaced by its bind":        {open: func(w *harness) { w.cluster.Put(pod(2).UID("new").Obj()) }},
		"found gone by a step": {step: binding.Step{Plugin: "patch", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			if task.Name != "p2" {
				return nil
			}
			return fmt.Errorf("patching the pod: %w", apierrors.NewNotFound(v1.Resource("pods"), task.Name))
		}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(3, 2)
				goOn := make(chan struct{})
				steps := []binding.Step{waiting("slow", goOn)}
				if tt.step.PreBind != nil {
					steps = append(steps, tt.step)
				}
				w.mustPlace("n", steps, "p0", "p1", "p2")
				if tt.open != nil {
					tt.open(w)
				}
				w.cache.SealTransactions()
				synctest.Wait()
				if tt.inFlight != nil {
					tt.inFlight(w)
				}
				close(goOn)
				time.Sleep(time.Minute)
				if diff := cmp.Diff([]string{"n", "n"}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				if reason, blocked := w.cache.Blocked(gang); blocked {
					t.Errorf("the bound gang waits: %s", reason)
				}
				for _, event := range w.cluster.Events.Take() {
					if strings.Contains(event, "Failed") {
						t.Errorf("an event was recorded: %s", event)
					}
				}
			})
		})
	}
}

// TestAPodThatIsBeingDeletedIsNoMember checks that a pod whose deletion began before its transaction was sealed does not
// count towards the minimum, although its finalizer keeps it. Otherwise the others would be bound below the minimum.
func TestAPodThatIsBeingDeletedIsNoMember(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.mustPlace("n", nil, "p0", "p1")
		w.add(pod(1).Terminating().Obj())
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", ""}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestADeletedPodDoesNotCountAsFailed checks that a deleted pod does not count as failed beside a pod that failed.
func TestADeletedPodDoesNotCountAsFailed(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(4, 2)
		goOn := make(chan struct{})
		w.mustPlace("n", []binding.Step{waiting("slow", goOn), failing("storage", "p3")}, "p0", "p1", "p2", "p3")
		w.cache.SealTransactions()
		synctest.Wait()
		w.remove(pod(2).Obj())
		close(goOn)
		synctest.Wait()
		reason, _ := w.cache.Blocked(gang)
		if !strings.Contains(reason, "PreBindFailed: pre-bind plugin storage failed for pod ns/p3 on node n: it is broken") || strings.Contains(reason, "more pods failed") {
			t.Errorf("the gang waits because %s; want the failure of p3, and nothing of p2", reason)
		}
		if diff := cmp.Diff([]string{"n"}, w.cache.Avoid(gang)); diff != "" {
			t.Errorf("nodes that the gang failed on (-want +got):\n%s", diff)
		}
	})
}

// unlist removes the object from the informers' stores without calling a handler.
func (w *harness) unlist(object k8sruntime.Object) {
	w.t.Helper()
	w.cluster.Remove(object)
	for _, informer := range w.informersOf(object) {
		if err := informer.GetStore().Delete(object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestADeletedPodIsNotPrepared checks that a deleted pod is not prepared, because it left its transaction before the
// transaction was sealed.
func TestADeletedPodIsNotPrepared(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 1)
		var prepared []string
		step := binding.Step{Plugin: "p", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			prepared = append(prepared, task.Name)
			return nil
		}}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.remove(pod(1).Obj())
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"p0"}, prepared); diff != "" {
			t.Errorf("prepared (-want +got):\n%s", diff)
		}
		if got := idleCPU(w.cache, "n"); got != 7000 {
			t.Errorf("%v milli-cpu are idle, want 7000", got)
		}
	})
}

// TestAPodThatLeftItsPodGroupIsCancelledInItsTransaction checks that a pod that left its PodGroup is cancelled in its
// transaction. The pod names another PodGroup when it is deleted.
func TestAPodThatLeftItsPodGroupIsCancelledInItsTransaction(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 1)
		w.mustPlace("n", []binding.Step{waiting("slow", make(chan struct{}))}, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.add(pod(0).Group("other").Obj())
		w.remove(pod(0).Group("other").Obj())
		synctest.Wait()
		if w.cache.books.Pods.Held() != 1 {
			t.Errorf("%d pods are in transactions, want one of two after the other was deleted", w.cache.books.Pods.Held())
		}
	})
}

// TestGangWithoutItsPodGroupIsReleased checks that the resources of a gang in flight are released at once when its
// PodGroup is deleted.
func TestGangWithoutItsPodGroupIsReleased(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.mustPlace("n", []binding.Step{waiting("slow", make(chan struct{}))}, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		synctest.Wait()
		if diff := cmp.Diff([]string{"Pending", "Pending"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := idleCPU(w.cache, "n"); got != 8000 {
			t.Errorf("%v milli-cpu are idle, want all 8000", got)
		}
		if left := w.cache.reports.Remembered(); left > 0 {
			t.Errorf("%d things are remembered of the gang", left)
		}
		if _, blocked := w.cache.Blocked(gang); blocked {
			t.Error("the deleted gang waits")
		}
	})
}

// TestPodsDeletedBeforeSubmitAreNotPreBound checks that no pre-bind step runs for a member whose PodGroup or node is
// deleted during the session, before the engine gets the transaction. Otherwise the member would hold its node until
// its step times out, or would be bound to a missing node.
func TestPodsDeletedBeforeSubmitAreNotPreBound(t *testing.T) {
	tests := map[string]struct {
		delete func(w *harness)
		want   []string
	}{
		"the PodGroup": {
			delete: func(w *harness) { w.remove(schedtest.MakePodGroup().Name("g").Obj()) },
			want:   []string{"Pending", "Pending"},
		},
		"the PodGroup, by a direct call of the handler": {
			delete: func(w *harness) { w.deletedHereOnly(schedtest.MakePodGroup().Name("g").Obj()) },
			want:   []string{"Pending", "Pending"},
		},
		"a node": {
			delete: func(w *harness) { w.remove(schedtest.MakeNode().Name("m").Obj()) },
			want:   []string{"Binding on n", "Pending"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 1)
				w.add(schedtest.MakeNode().Name("m").Obj())
				var prepared sync.Map
				slow := waiting("slow", make(chan struct{}))
				step := binding.Step{Plugin: "p", PreBind: func(ctx context.Context, task *api.TaskInfo, node string) error {
					prepared.Store(task.Name, true)
					return slow.PreBind(ctx, task, node)
				}}
				w.mustPlace("n", []binding.Step{step}, "p0")
				w.mustPlace("m", []binding.Step{step}, "p1")
				tt.delete(w)
				w.cache.SealTransactions()
				synctest.Wait()
				if diff := cmp.Diff(tt.want, booked(w.cache, "p0", "p1")); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				for i, books := range tt.want {
					name := fmt.Sprintf("p%d", i)
					if _, was := prepared.Load(name); was != (books != "Pending") {
						t.Errorf("%s was prepared: %t", name, was)
					}
				}
			})
		})
	}
}

// deletedHereOnly deletes the PodGroup from the cluster and from the informers' stores, and calls the cache's handler.
func (w *harness) deletedHereOnly(pg *v1beta1.PodGroup) {
	w.unlist(pg)
	w.cache.changes.podGroupDeleted(pg)
}

// TestADeletedGangIsForgottenOnceItsTransactionEnds checks that nothing is remembered of a deleted gang once its
// transaction has ended. In one case, the informer's store still has the PodGroup after its deletion was reported. In
// another case, the store lacks the PodGroup, and no handler is called.
func TestADeletedGangIsForgottenOnceItsTransactionEnds(t *testing.T) {
	slow := func() binding.Step { return waiting("slow", make(chan struct{})) }
	tests := map[string]struct {
		step func() binding.Step
		ends func(w *harness)
	}{
		"cancelled": {step: slow, ends: func(w *harness) { w.deletedHereOnly(schedtest.MakePodGroup().Name("g").Obj()) }},
		"cancelled, and there again": {step: slow, ends: func(w *harness) {
			w.cache.changes.podGroupDeleted(schedtest.MakePodGroup().Name("g").Obj())
		}},
		"failed by itself": {
			step: func() binding.Step {
				return binding.Step{Plugin: "late", PreBind: func(context.Context, *api.TaskInfo, string) error {
					time.Sleep(time.Second)
					return errBroken
				}}
			},
			ends: func(w *harness) { w.unlist(schedtest.MakePodGroup().Name("g").Obj()); time.Sleep(time.Minute) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				w.mustPlace("n", []binding.Step{tt.step()}, "p0", "p1")
				w.cache.SealTransactions()
				synctest.Wait()
				tt.ends(w)
				synctest.Wait()
				if diff := cmp.Diff([]string{"Pending", "Pending"}, booked(w.cache, "p0", "p1")); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				if left := w.cache.reports.Remembered(); left > 0 {
					t.Errorf("%d things are remembered of a deleted gang", left)
				}
				if reason, blocked := w.cache.Blocked(gang); blocked {
					t.Errorf("a deleted gang waits: %s", reason)
				}
			})
		})
	}
}

// TestTheRollbackOfADeletedPodIsRetried checks that the rollback of a deleted pod is retried. The pod was deleted
// before its transaction was sealed. As long as an effect of a plugin for it stays, no other pod of its name is
// placed.
func TestTheRollbackOfADeletedPodIsRetried(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 1)
		tries := 0
		step := binding.Step{
			Plugin: "p", RollbackIfNotRun: true,
			PreBind: func(context.Context, *api.TaskInfo, string) error { return nil },
			Rollback: func(context.Context, *api.TaskInfo, string) error {
				if tries++; tries < 3 {
					return errBroken
				}
				return nil
			},
		}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.remove(pod(1).Obj())
		w.cache.SealTransactions()
		time.Sleep(time.Minute)
		w.add(pod(1).UID("new").Obj())
		if err := w.place("p1", "n"); err != nil {
			t.Errorf("the next pod of that name, after %d tries to undo: %v", tries, err)
		}
		w.cache.SealTransactions()
		synctest.Wait()
	})
}

// TestADeletedGangIsForgotten checks that the failures of a deleted gang, and its record of arriving pods, are
// forgotten.
func TestADeletedGangIsForgotten(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		job := w.cache.Snapshot().Jobs[gang]
		w.verdict(saysUnschedulable)
		w.failGang()
		if got := w.cache.reports.Remembered(); got != 4 {
			t.Fatalf("%d things are remembered of the gang, want its arrival, its failure and two pods", got)
		}
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		if _, err := w.cache.UpdateJobStatus(job, true, false, false); err != nil { // A session that still has the gang ends.
			t.Fatal(err)
		}
		if left := w.cache.reports.Remembered(); left > 0 {
			t.Errorf("%d things are remembered of a deleted gang", left)
		}
	})
}

// TestAGangThatIsDeletedWhileItFailsIsForgotten checks that a gang that is deleted while it fails is forgotten,
// including later reports of its failure.
func TestAGangThatIsDeletedWhileItFailsIsForgotten(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		undo := make(chan struct{})
		step := failing("bad", "p0")
		step.Rollback = blocking(undo)
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		close(undo)
		synctest.Wait()
		if w.cache.reports.HasFailed(gang) {
			t.Error("the failure of a deleted gang is remembered")
		}
		if reason, blocked := w.cache.Blocked(gang); blocked {
			t.Errorf("the next gang of that name would wait: %s", reason)
		}
	})
}
