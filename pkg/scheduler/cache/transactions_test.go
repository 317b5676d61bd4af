// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestAddToTransactionReservesUntilBound(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.mustPlace("n", nil, "p0", "p1")
		if diff := cmp.Diff([]string{"Binding on n", "Binding on n"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books after placing (-want +got):\n%s", diff)
		}
		if got := idleCPU(w.cache, "n"); got != 6000 {
			t.Errorf("%v milli-cpu are idle with two pods reserved, want 6000", got)
		}
		if got := nodesOf(w.cluster, "p0", "p1"); got[0] != "" || got[1] != "" {
			t.Errorf("pods are bound to %v before the transaction was sealed", got)
		}
		w.cache.SealTransactions()
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"n", "n"}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
			t.Errorf("nodes after sealing (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"Bound on n", "Bound on n"}, booked(w.cache, "p0", "p1")); diff != "" {
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

// TestRegressionStuckBinding covers upstream's defect stuck-binding: in upstream, an error while the cache is updated
// leaves the task in status Binding for ever.
func TestRegressionStuckBinding(t *testing.T) {
	tests := map[string]struct {
		change func(w *harness, bindCtx *vccache.BindContext)
		want   string
	}{
		"the node was deleted": {
			change: func(_ *harness, bindCtx *vccache.BindContext) { bindCtx.TaskInfo.NodeName = "elsewhere" },
			want:   "node elsewhere was deleted after the pod was placed there",
		},
		"the node has no room": {
			change: func(w *harness, _ *vccache.BindContext) {
				w.add(schedtest.MakePod().Name("big").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "7500m"}).Obj())
			},
			want: "node n is short of cpu (1 requested, 500m idle)",
		},
		"the pod was deleted": {
			change: func(w *harness, _ *vccache.BindContext) { w.remove(pod(0).Obj()) },
			want:   "the pod was deleted after it was placed",
		},
		"the gang was deleted": {
			change: func(w *harness, bindCtx *vccache.BindContext) { bindCtx.TaskInfo.Job = "ns/other" },
			want:   "PodGroup ns/other was deleted after its pod was placed",
		},
		"the pod is being bound already": {
			change: func(w *harness, _ *vccache.BindContext) { w.mustPlace("n", nil, "p0") },
			want:   "task is Binding, not Pending",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				bindCtx := w.decided("p0", "n")
				bindCtx.TaskInfo.NumaInfo.ResMap[0] = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
				tt.change(w, bindCtx)
				books, idle := booked(w.cache, "p0"), idleCPU(w.cache, "n")
				err := w.cache.AddToTransaction(bindCtx, nil, nil, nil)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("error is %v, want an error with %q", err, tt.want)
				}
				if !strings.Contains(err.Error(), "pod ns/p0") {
					t.Errorf("error %q does not name the pod", err)
				}
				if diff := cmp.Diff(books, booked(w.cache, "p0")); diff != "" {
					t.Errorf("the books were changed (-want +got):\n%s", diff)
				}
				if got := idleCPU(w.cache, "n"); got != idle {
					t.Errorf("%v milli-cpu are idle, want %v as before", got, idle)
				}
				if task := taskNamed(w.cache, "p0"); task != nil && task.Status == api.Pending && len(task.NumaInfo.ResMap) > 0 {
					t.Errorf("the task kept the decision %v", task.NumaInfo.ResMap)
				}
			})
		})
	}
}

// TestRegressionCommitDrop covers a defect of upstream: one member that cannot be reserved is dropped, and the rest of
// its gang is bound without it.
func TestRegressionCommitDrop(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(4, 4)
		w.mustPlace("n", nil, "p0", "p1", "p2")
		if err := w.place("p3", "elsewhere"); err == nil {
			t.Fatal("a pod was placed on a node that is not there")
		}
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "", "", ""}, nodesOf(w.cluster, "p0", "p1", "p2", "p3")); diff != "" {
			t.Errorf("nodes of a gang short of its minimum (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"Pending", "Pending", "Pending", "Pending"}, booked(w.cache, "p0", "p1", "p2", "p3")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := idleCPU(w.cache, "n"); got != 8000 {
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
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(3, tt.minMember)
				w.add(schedtest.MakePodGroup().Name("other").Obj(), schedtest.MakePod().Name("o").Group("other").Obj())
				w.mustPlace("n", nil, tt.first...)
				w.mustPlace("n", nil, "o")
				synctest.Wait()
				if diff := cmp.Diff(tt.want, nodesOf(w.cluster, "p0", "p1", "p2")); diff != "" {
					t.Errorf("nodes after the session went on (-want +got):\n%s", diff)
				}
				if got := nodesOf(w.cluster, "o"); got[0] != "" {
					t.Error("the gang that the session is at was bound")
				}
			})
		})
	}
}

// TestWholeTransactionsAreSubmitted checks that transactions with enough members are submitted after an action, and
// that the others stay open for the next action.
func TestWholeTransactionsAreSubmitted(t *testing.T) {
	for name, tt := range map[string]struct {
		gangGroup *binding.GangGroup
		want      []string
	}{
		"by its minimum": {want: []string{"n", "n"}},
		"counting those that are bound with it alone": {
			gangGroup: &binding.GangGroup{ID: "u", Gangs: []binding.GangTerms{{Gang: "ns/g", Count: binding.CountNone}}}, want: []string{"", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				w.add(schedtest.MakePodGroup().Name("other").MinMember(2).Obj())
				for _, pod := range []string{"o0", "o1"} {
					w.add(schedtest.MakePod().Name(pod).Group("other").Obj())
				}
				w.mustPlace("n", nil, "o0")
				for _, pod := range []string{"p0", "p1"} {
					if err := w.cache.AddToTransaction(w.decided(pod, "n"), tt.gangGroup, nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				w.cache.ledger.SubmitWhole()
				synctest.Wait()
				if diff := cmp.Diff(tt.want, nodesOf(w.cluster, "p0", "p1")); diff != "" {
					t.Errorf("nodes after the action (-want +got):\n%s", diff)
				}
				w.mustPlace("n", nil, "o1")
				w.cache.SealTransactions()
				synctest.Wait()
				if diff := cmp.Diff([]string{"n", "n", "n", "n"}, nodesOf(w.cluster, "p0", "p1", "o0", "o1")); diff != "" {
					t.Errorf("nodes after the session (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestBackfillCompletesTheGang checks that backfill completes a gang. Allocate places the members with requests, and
// a later action the best-effort members. They are one gang and one transaction.
func TestBackfillCompletesTheGang(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 3)
		w.add(schedtest.MakePod().Name("effort").Group("g").Obj())
		w.add(schedtest.MakePodGroup().Name("other").Obj(), schedtest.MakePod().Name("o").Group("other").Obj())
		w.mustPlace("n", nil, "p0", "p1")
		w.mustPlace("n", nil, "o")
		w.mustPlace("n", nil, "effort")
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"n", "n", "n", "n"}, nodesOf(w.cluster, "p0", "p1", "effort", "o")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}

// TestRegressionLockStall covers upstream's defect lock-stall: upstream waits for a full bind channel while it holds
// the cache's lock. Here thousands of members are committed, sealed and read while no bind makes progress.
func TestRegressionLockStall(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
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
		for _, job := range w.cache.Snapshot().Jobs {
			for _, task := range job.Tasks {
				task.NodeName = "n"
				if err := w.cache.AddToTransaction(&vccache.BindContext{TaskInfo: task}, nil, nil, []binding.Step{waiting("slow", never)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.cache.SealTransactions()
		synctest.Wait()
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("handing over waited %v for binds", waited)
		}
		snapshot := w.cache.Snapshot()
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
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.cache.Abort()
		w.mustPlace("n", nil, "p0")
		w.cache.SealTransactions()
		if diff := cmp.Diff([]string{"Pending"}, booked(w.cache, "p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if got := idleCPU(w.cache, "n"); got != 8000 {
			t.Errorf("%v milli-cpu are idle, want all 8000", got)
		}
	})
}

// TestAMemberThatIsNotUndoneIsNotReleased checks that a member whose step is not rolled back is not released, because
// the effect of the step on the node still exists.
func TestAMemberThatIsNotUndoneIsNotReleased(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.cache.Abort()
		w.mustPlace("n", []binding.Step{{
			Plugin: "storage", RollbackIfNotRun: true, PreBind: failing("storage").PreBind,
			Rollback: func(context.Context, *api.TaskInfo, string) error { return errBroken },
		}}, "p0")
		w.cache.SealTransactions()
		if diff := cmp.Diff([]string{"Binding on n"}, booked(w.cache, "p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
	})
}

// TestTheMinimumInForceTravelsInTheBinding checks that the Binding has the minimum in use as an annotation. From it
// the next leader knows whether the gang is partially bound, and from the queue annotation where its pods count.
func TestTheMinimumInForceTravelsInTheBinding(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.add(schedtest.MakeQueue().Name("q").Obj(), schedtest.MakePodGroup().Name("g").Queue("q").MinMember(2).Obj())
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		if got := w.cluster.Pod("p0").Annotations[binding.MinimumAnnotation]; got != "2" {
			t.Errorf("annotation %s of a pod that is bound is %q, want 2", binding.MinimumAnnotation, got)
		}
		if got := w.cluster.Pod("p0").Annotations[binding.QueueAnnotation]; got != "q" {
			t.Errorf("annotation %s of a pod that is bound is %q, want q", binding.QueueAnnotation, got)
		}
	})
}

func TestSessionDecisionsTravelInTheBinding(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		bindCtx := w.decided("p0", "n")
		if err := w.cache.AddToTransaction(bindCtx, nil, map[string]string{"device": "3"}, nil); err != nil {
			t.Fatal(err)
		}
		w.cache.SealTransactions()
		synctest.Wait()
		if got := w.cluster.Pod("p0").Annotations["device"]; got != "3" {
			t.Errorf("annotation of the bound pod is %q, want %q", got, "3")
		}
		if _, ok := w.latest["*v1.Pod ns/p0"].(*v1.Pod).Annotations["device"]; ok {
			t.Error("the decision was written into the informer's pod")
		}
	})
}

// TestTransactionsAreSealedInTheOrderOfPlacement checks that transactions are sealed in the order of placement,
// because the engine serves the first ones first. Here it accepts none, so their members are released in the order of
// their commits.
func TestTransactionsAreSealedInTheOrderOfPlacement(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
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
			if err := w.cache.AddToTransaction(decided, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		w.cache.Abort()
		w.cache.SealTransactions()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order of the hand-over (-want +got):\n%s", diff)
		}
	})
}

// TestAGangIsLeftOutWhileItsTransactionFails checks that a gang is left out of sessions while its transaction fails.
// Its members would be placed without the backoff that begins at the end.
func TestAGangIsLeftOutWhileItsTransactionFails(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		undo := make(chan struct{})
		step := failing("bad", "p0")
		step.Rollback = blocking(undo)
		w.mustPlace("n", []binding.Step{step}, "p0")
		w.mustPlace("n", nil, "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"Binding on n", "Pending"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books while a member is rolled back (-want +got):\n%s", diff)
		}
		if _, blocked := w.cache.Blocked(gang); !blocked {
			t.Error("the gang is not left out while its transaction fails")
		}
		close(undo)
		synctest.Wait()
	})
}
