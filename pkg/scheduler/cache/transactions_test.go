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
	"k8s.io/apimachinery/pkg/api/resource"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestAddToTransactionReservesUntilBound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 2)
		w.mustPlace("n", nil, "p0", "p1")
		if diff := cmp.Diff([]string{"Binding on n", "Binding on n"}, w.books("p0", "p1")); diff != "" {
			t.Errorf("books after placing (-want +got):\n%s", diff)
		}
		if got := w.idleCPU("n"); got != 6000 {
			t.Errorf("%v milli-cpu are idle with two pods reserved, want 6000", got)
		}
		if got := w.nodesOf("p0", "p1"); got[0] != "" || got[1] != "" {
			t.Errorf("pods are bound to %v before the transaction was sealed", got)
		}
		w.SealTransactions()
		w.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"n", "n"}, w.nodesOf("p0", "p1")); diff != "" {
			t.Errorf("nodes after sealing (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"Bound on n", "Bound on n"}, w.books("p0", "p1")); diff != "" {
			t.Errorf("books after the bind (-want +got):\n%s", diff)
		}
		var binds int
		for _, write := range w.cluster.Writes() {
			if strings.HasPrefix(write, "create pods/binding") {
				binds++
			}
		}
		if binds != 2 {
			t.Errorf("%d Bindings were written, want one for each of 2 pods although transactions were sealed twice", binds)
		}
	})
}

// TestRegressionStuckBinding is upstream's defect of that id: an error while the books are made leaves the task Binding for ever.
func TestRegressionStuckBinding(t *testing.T) {
	tests := map[string]struct {
		change func(w *world, bindCtx *vccache.BindContext)
		want   string
	}{
		"the node was deleted": {
			change: func(_ *world, bindCtx *vccache.BindContext) { bindCtx.TaskInfo.NodeName = "elsewhere" },
			want:   "node is not in the cache",
		},
		"the node has no room": {
			change: func(w *world, _ *vccache.BindContext) {
				w.add(schedtest.MakePod().Name("big").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "7500m"}).Obj())
			},
			want: "not enough",
		},
		"the pod was deleted": {
			change: func(w *world, _ *vccache.BindContext) { w.remove(pod(0).Obj()) },
			want:   "pod is not in the cache",
		},
		"the gang was deleted": {
			change: func(w *world, bindCtx *vccache.BindContext) { bindCtx.TaskInfo.Job = "ns/other" },
			want:   "PodGroup ns/other is not in the cache",
		},
		"the pod is being bound already": {
			change: func(w *world, _ *vccache.BindContext) { w.mustPlace("n", nil, "p0") },
			want:   "task is Binding, not Pending",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.gangOf(1, 1)
				bindCtx := w.decided("p0", "n")
				bindCtx.TaskInfo.NumaInfo.ResMap[0] = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
				tt.change(w, bindCtx)
				books, idle := w.books("p0"), w.idleCPU("n")
				err := w.AddToTransaction(bindCtx, nil, nil)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("error is %v, want one that says %q", err, tt.want)
				}
				if !strings.Contains(err.Error(), "pod ns/p0") {
					t.Errorf("error %q does not name the pod", err)
				}
				if diff := cmp.Diff(books, w.books("p0")); diff != "" {
					t.Errorf("the books were changed (-want +got):\n%s", diff)
				}
				if got := w.idleCPU("n"); got != idle {
					t.Errorf("%v milli-cpu are idle, want %v as before", got, idle)
				}
				if task := w.task("p0"); task != nil && task.Status == api.Pending && len(task.NumaInfo.ResMap) > 0 {
					t.Errorf("the task kept the decision %v", task.NumaInfo.ResMap)
				}
			})
		})
	}
}

// TestRegressionCommitDrop is upstream's defect of that id: one member that cannot be booked is dropped, and the rest of its gang
// is bound without it.
func TestRegressionCommitDrop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(4, 4)
		w.mustPlace("n", nil, "p0", "p1", "p2")
		if err := w.place("p3", "elsewhere"); err == nil {
			t.Fatal("a pod was placed on a node that is not there")
		}
		w.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "", "", ""}, w.nodesOf("p0", "p1", "p2", "p3")); diff != "" {
			t.Errorf("nodes of a gang short of its minimum (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"Pending", "Pending", "Pending", "Pending"}, w.books("p0", "p1", "p2", "p3")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := w.idleCPU("n"); got != 8000 {
			t.Errorf("%v milli-cpu are idle, want all 8000", got)
		}
	})
}

func TestTransactionsAreSealedWhenTheSessionGoesOn(t *testing.T) {
	tests := map[string]struct {
		minMember int32
		first     []string
		want      []string
	}{
		"a gang that has enough is bound at once": {minMember: 2, first: []string{"p0", "p1"}, want: []string{"n", "n", ""}},
		"a gang that lacks a member stays open":   {minMember: 3, first: []string{"p0", "p1"}, want: []string{"", "", ""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.gangOf(3, tt.minMember)
				w.add(schedtest.MakePodGroup().Name("other").Obj(), schedtest.MakePod().Name("o").Group("other").Obj())
				w.mustPlace("n", nil, tt.first...)
				w.mustPlace("n", nil, "o")
				synctest.Wait()
				if diff := cmp.Diff(tt.want, w.nodesOf("p0", "p1", "p2")); diff != "" {
					t.Errorf("nodes after the session went on (-want +got):\n%s", diff)
				}
				if got := w.nodesOf("o"); got[0] != "" {
					t.Error("the gang that the session is at was bound")
				}
			})
		})
	}
}

// TestBackfillCompletesTheGang: allocate places the members with requests, a later action the best-effort ones. They
// are one gang, and one transaction.
func TestBackfillCompletesTheGang(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 3)
		w.add(schedtest.MakePod().Name("effort").Group("g").Obj())
		w.add(schedtest.MakePodGroup().Name("other").Obj(), schedtest.MakePod().Name("o").Group("other").Obj())
		w.mustPlace("n", nil, "p0", "p1")
		w.mustPlace("n", nil, "o")
		w.mustPlace("n", nil, "effort")
		w.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"n", "n", "n", "n"}, w.nodesOf("p0", "p1", "effort", "o")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestRegressionLockStall is upstream's defect of that id: a full bind channel is waited for with the cache's lock held. Here
// thousands of members are handed over, sealed and looked at while not one bind gets on.
func TestRegressionLockStall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const gangs, members = 40, 60
		never := make(chan struct{})
		w.add(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "10000", "pods": "10000"}).Obj())
		for g := range gangs {
			name := fmt.Sprintf("g%d", g)
			w.add(schedtest.MakePodGroup().Name(name).MinMember(members).Obj())
			for m := range members {
				w.add(schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, m)).Group(name).Obj())
			}
		}
		begin := time.Now()
		for _, job := range w.Snapshot().Jobs {
			for _, task := range job.Tasks {
				task.NodeName = "n"
				if err := w.AddToTransaction(&vccache.BindContext{TaskInfo: task}, nil, []binding.Step{waiting("slow", never)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.SealTransactions()
		synctest.Wait()
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("handing over waited %v for binds", waited)
		}
		snapshot := w.Snapshot()
		var inBinding int
		for _, job := range snapshot.Jobs {
			inBinding += len(job.TaskStatusIndex[api.Binding])
		}
		if inBinding != gangs*members {
			t.Errorf("%d tasks are Binding, want %d", inBinding, gangs*members)
		}
	})
}

func TestTransactionAfterDrainIsReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(1, 1)
		w.Abort()
		w.mustPlace("n", nil, "p0")
		w.SealTransactions()
		if diff := cmp.Diff([]string{"Pending"}, w.books("p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := w.idleCPU("n"); got != 8000 {
			t.Errorf("%v milli-cpu are idle, want all 8000", got)
		}
	})
}

// TestAMemberThatIsNotUndoneIsNotReleased: what a step did for it on the node is still there.
func TestAMemberThatIsNotUndoneIsNotReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(1, 1)
		w.Abort()
		w.mustPlace("n", []binding.Step{{
			Plugin: "storage", RollbackUnbegun: true, PreBind: failing("storage").PreBind,
			Rollback: func(context.Context, *api.TaskInfo, string) error { return errBroken },
		}}, "p0")
		w.SealTransactions()
		if diff := cmp.Diff([]string{"Binding on n"}, w.books("p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
	})
}

// TestTheMinimumInForceTravelsInTheBinding: the next leader knows by it whether the gang is bound in part.
func TestTheMinimumInForceTravelsInTheBinding(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 2)
		w.mustPlace("n", nil, "p0", "p1")
		w.SealTransactions()
		synctest.Wait()
		if got := w.cluster.Pod("p0").Annotations[binding.MinimumAnnotation]; got != "2" {
			t.Errorf("annotation %s of a pod that is bound is %q, want 2", binding.MinimumAnnotation, got)
		}
	})
}

func TestSessionDecisionsTravelInTheBinding(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(1, 1)
		bindCtx := w.decided("p0", "n")
		if err := w.AddToTransaction(bindCtx, map[string]string{"device": "3"}, nil); err != nil {
			t.Fatal(err)
		}
		w.SealTransactions()
		synctest.Wait()
		if got := w.cluster.Pod("p0").Annotations["device"]; got != "3" {
			t.Errorf("annotation of the bound pod is %q, want %q", got, "3")
		}
		if _, ok := w.latest["*v1.Pod ns/p0"].(*v1.Pod).Annotations["device"]; ok {
			t.Error("the decision was written into the informer's pod")
		}
	})
}

// TestTransactionsAreSealedInTheOrderOfPlacement: the engine serves those first that it has first. Here it takes none, and so
// their members are released in the order of the hand-over.
func TestTransactionsAreSealedInTheOrderOfPlacement(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "100", "pods": "100"}).Obj())
		var want, got []string
		for i := range 30 {
			name := fmt.Sprintf("g%d", (i*7)%30)
			w.add(schedtest.MakePodGroup().Name(name).MinMember(2).Obj(), schedtest.MakePod().Name(name).Group(name).Obj())
			decided := w.decided(name, "n")
			decided.TaskInfo.CustomBindErrHandler = func() error {
				got = append(got, name)
				return nil
			}
			if err := w.AddToTransaction(decided, nil, nil); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		w.Abort()
		w.SealTransactions()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order of the hand-over (-want +got):\n%s", diff)
		}
	})
}

// TestAPodThatIsGoneIsNoFailureOfItsGang: a gang that is bound without a surplus member has nothing to wait for, whenever and
// however it is found out that the member's pod was deleted.
func TestAPodThatIsGoneIsNoFailureOfItsGang(t *testing.T) {
	tests := map[string]struct {
		open, inFlight func(w *world)
		step           binding.Step
	}{
		"deleted while the session goes on": {open: func(w *world) { w.remove(pod(2).Obj()) }},
		"deleted, and only listed so yet":   {open: func(w *world) { w.unlist(pod(2).Obj()) }},
		"deleted in pre-bind":               {inFlight: func(w *world) { w.remove(pod(2).Obj()) }},
		"found gone by its bind":            {open: func(w *world) { w.cluster.Remove(pod(2).Obj()) }},
		"found replaced by its bind":        {open: func(w *world) { w.cluster.Put(pod(2).UID("new").Obj()) }},
		"found gone by a step": {step: binding.Step{Plugin: "patch", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			if task.Name != "p2" {
				return nil
			}
			return fmt.Errorf("patching the pod: %w", apierrors.NewNotFound(v1.Resource("pods"), task.Name))
		}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
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
				w.SealTransactions()
				synctest.Wait()
				if tt.inFlight != nil {
					tt.inFlight(w)
				}
				close(goOn)
				time.Sleep(time.Minute)
				if diff := cmp.Diff([]string{"n", "n"}, w.nodesOf("p0", "p1")); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				if reason, blocked := w.Blocked(gang); blocked {
					t.Errorf("the bound gang waits: %s", reason)
				}
				for _, event := range w.cluster.Events.Take() {
					if strings.Contains(event, "Failed") {
						t.Errorf("it was told: %s", event)
					}
				}
			})
		})
	}
}

// TestAPodThatIsGoneIsNotCountedAmongThoseThatFailed beside it.
func TestAPodThatIsGoneIsNotCountedAmongThoseThatFailed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(4, 2)
		goOn := make(chan struct{})
		w.mustPlace("n", []binding.Step{waiting("slow", goOn), failing("storage", "p3")}, "p0", "p1", "p2", "p3")
		w.SealTransactions()
		synctest.Wait()
		w.remove(pod(2).Obj())
		close(goOn)
		synctest.Wait()
		if failure, _ := w.failure(gang); failure.message != "pre-bind plugin storage failed for pod ns/p3 on node n: it is broken" || len(failure.nodes) != 1 {
			t.Errorf("the gang failed on %d nodes: %s; want the one of p3, and nothing of p2", len(failure.nodes), failure.message)
		}
	})
}

// unlist takes the object from where informers list it, and lets no handler know.
func (w *world) unlist(object k8sruntime.Object) {
	w.t.Helper()
	w.cluster.Remove(object)
	for _, informer := range w.informersOf(object) {
		if err := informer.GetStore().Delete(object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestAPodThatIsGoneIsNotPrepared: it has left its transaction before that was sealed.
func TestAPodThatIsGoneIsNotPrepared(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 1)
		var prepared []string
		step := binding.Step{Plugin: "p", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			prepared = append(prepared, task.Name)
			return nil
		}}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.remove(pod(1).Obj())
		w.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"p0"}, prepared); diff != "" {
			t.Errorf("prepared (-want +got):\n%s", diff)
		}
		if got := w.idleCPU("n"); got != 7000 {
			t.Errorf("%v milli-cpu are idle, want 7000", got)
		}
	})
}

// TestAPodThatLeftItsPodGroupIsCancelledInItsTransaction: the pod names another PodGroup when it is deleted.
func TestAPodThatLeftItsPodGroupIsCancelledInItsTransaction(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 1)
		w.mustPlace("n", []binding.Step{waiting("slow", make(chan struct{}))}, "p0", "p1")
		w.SealTransactions()
		synctest.Wait()
		w.add(pod(0).Group("other").Obj())
		w.remove(pod(0).Group("other").Obj())
		synctest.Wait()
		if len(w.Cache.reserved) != 1 {
			t.Errorf("%d pods are in transactions, want one of two after the other was deleted", len(w.Cache.reserved))
		}
	})
}

// TestAGangWhosePodGroupIsDeletedIsGivenUp: nobody wants it bound, and what it holds is free at once.
func TestAGangWhosePodGroupIsDeletedIsGivenUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 2)
		w.mustPlace("n", []binding.Step{waiting("slow", make(chan struct{}))}, "p0", "p1")
		w.SealTransactions()
		synctest.Wait()
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		synctest.Wait()
		if diff := cmp.Diff([]string{"Pending", "Pending"}, w.books("p0", "p1")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := w.idleCPU("n"); got != 8000 {
			t.Errorf("%v milli-cpu are idle, want all 8000", got)
		}
		if len(w.failures)+len(w.arrivals) > 0 {
			t.Errorf("of the gang are remembered %v and %v", w.failures, w.arrivals)
		}
		if _, blocked := w.Blocked(gang); blocked {
			t.Error("the gang that is gone waits")
		}
	})
}

// TestWhatIsDeletedBeforeTheHandOverIsNotPrepared: a PodGroup, or a node, that is deleted while the session goes on is known to
// no transaction of the engine yet. Its members would hold their nodes until their steps time out, or be bound to no node.
func TestWhatIsDeletedBeforeTheHandOverIsNotPrepared(t *testing.T) {
	tests := map[string]struct {
		delete func(w *world)
		want   []string
	}{
		"the PodGroup": {
			delete: func(w *world) { w.remove(schedtest.MakePodGroup().Name("g").Obj()) },
			want:   []string{"Pending", "Pending"},
		},
		"the PodGroup, which upstream's own watch has not shown yet": {
			delete: func(w *world) { w.deletedHereOnly(schedtest.MakePodGroup().Name("g").Obj()) },
			want:   []string{"Pending", "Pending"},
		},
		"the PodGroup is there, and the watch here has not come to it": {
			delete: func(w *world) {
				w.SchedulerCache.Mutex.Lock()
				w.Jobs[gang].PodGroup.ResourceVersion = "1000000"
				w.SchedulerCache.Mutex.Unlock()
				w.podGroupsAt = func() string { return "999999" }
				w.unlist(schedtest.MakePodGroup().Name("g").Obj())
			},
			want: []string{"Binding on n", "Binding on m"},
		},
		"a node": {
			delete: func(w *world) { w.remove(schedtest.MakeNode().Name("m").Obj()) },
			want:   []string{"Binding on n", "Pending"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
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
				w.SealTransactions()
				synctest.Wait()
				if diff := cmp.Diff(tt.want, w.books("p0", "p1")); diff != "" {
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

// deletedHereOnly deletes the PodGroup as the watch of this project's informers shows it, which upstream's do not yet.
func (w *world) deletedHereOnly(pg *v1beta1.PodGroup) {
	w.unlist(pg)
	w.changes.podGroupDeleted(pg)
}

// TestADeletedGangIsForgottenThoughUpstreamLags: upstream's cache still has the PodGroup whose transaction ends because of its
// deletion, and nobody tells of that again.
func TestADeletedGangIsForgottenThoughUpstreamLags(t *testing.T) {
	slow := func() binding.Step { return waiting("slow", make(chan struct{})) }
	tests := map[string]struct {
		step func() binding.Step
		ends func(w *world)
	}{
		"cancelled": {step: slow, ends: func(w *world) { w.deletedHereOnly(schedtest.MakePodGroup().Name("g").Obj()) }},
		"cancelled, and there again": {step: slow, ends: func(w *world) {
			w.changes.podGroupDeleted(schedtest.MakePodGroup().Name("g").Obj())
		}},
		"failed by itself": {
			step: func() binding.Step {
				return binding.Step{Plugin: "late", PreBind: func(context.Context, *api.TaskInfo, string) error {
					time.Sleep(time.Second)
					return errBroken
				}}
			},
			ends: func(w *world) { w.unlist(schedtest.MakePodGroup().Name("g").Obj()); time.Sleep(time.Minute) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.gangOf(2, 2)
				w.mustPlace("n", []binding.Step{tt.step()}, "p0", "p1")
				w.SealTransactions()
				synctest.Wait()
				tt.ends(w)
				synctest.Wait()
				if diff := cmp.Diff([]string{"Pending", "Pending"}, w.books("p0", "p1")); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				if len(w.failures) > 0 {
					t.Errorf("of a deleted gang is remembered %v", w.failures)
				}
				if reason, blocked := w.Blocked(gang); blocked {
					t.Errorf("a deleted gang waits: %s", reason)
				}
			})
		})
	}
}

// TestTheUndoOfAPodThatIsGoneIsTriedAgain: its transaction was not sealed yet when it was deleted. As long as what a plugin
// did for it stays, no other pod of its name is placed.
func TestTheUndoOfAPodThatIsGoneIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 1)
		tries := 0
		step := binding.Step{
			Plugin: "p", RollbackUnbegun: true,
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
		w.SealTransactions()
		time.Sleep(time.Minute)
		w.add(pod(1).UID("new").Obj())
		if err := w.place("p1", "n"); err != nil {
			t.Errorf("the next pod of that name, after %d tries to undo: %v", tries, err)
		}
		w.SealTransactions()
		synctest.Wait()
	})
}

// TestAGangIsLeftOutWhileItsTransactionFails: its members would be placed without the backoff that begins with the end.
func TestAGangIsLeftOutWhileItsTransactionFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 2)
		undo := make(chan struct{})
		step := failing("bad", "p0")
		step.Rollback = blocking(undo)
		w.mustPlace("n", []binding.Step{step}, "p0")
		w.mustPlace("n", nil, "p1")
		w.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"Binding on n", "Pending"}, w.books("p0", "p1")); diff != "" {
			t.Errorf("books while a member is rolled back (-want +got):\n%s", diff)
		}
		if _, blocked := w.Blocked(gang); !blocked {
			t.Error("the gang is not left out while its transaction fails")
		}
		close(undo)
		synctest.Wait()
	})
}

// TestADeletedGangIsForgotten: its failures, and how its pods came.
func TestADeletedGangIsForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 2)
		job := w.Snapshot().Jobs[gang]
		w.verdict(saysUnschedulable)
		w.failGang()
		if len(w.failures) != 1 || len(w.arrivals) != 1 {
			t.Fatalf("of the gang are remembered %v and %v, want both", w.failures, w.arrivals)
		}
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		w.arriving(job) // a session that has it yet ends
		if len(w.failures)+len(w.arrivals) > 0 {
			t.Errorf("of a deleted gang are remembered %v and %v", w.failures, w.arrivals)
		}
	})
}

// TestAGangThatIsDeletedWhileItFailsIsForgotten, also what becomes known of its failure later.
func TestAGangThatIsDeletedWhileItFailsIsForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(2, 2)
		undo := make(chan struct{})
		step := failing("bad", "p0")
		step.Rollback = blocking(undo)
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.SealTransactions()
		synctest.Wait()
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		close(undo)
		synctest.Wait()
		if _, known := w.failure(gang); known {
			t.Error("the failure of a deleted gang is remembered")
		}
		if reason, blocked := w.Blocked(gang); blocked {
			t.Errorf("the next gang of that name would wait: %s", reason)
		}
	})
}
