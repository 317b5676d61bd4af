// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// again registers the node again, as a kubelet does after its Node was deleted.
func (w *harness) again(node string) {
	w.t.Helper()
	w.remove(schedtest.MakeNode().Name(node).Obj())
	w.add(schedtest.MakeNode().Name(node).Obj())
}

// TestATaskStaysInItsTransaction checks that a task stays in its transaction. Upstream's cache changes a task
// regardless of its transaction. Sessions still see the task on its node, the task is in no second transaction, and
// its own transaction ends normally.
func TestATaskStaysInItsTransaction(t *testing.T) {
	tests := map[string]func(w *harness){
		"its pod names another PodGroup": func(w *harness) { w.add(pod(0).Group("other").Obj()) },
		"its pod names another PodGroup and then its own": func(w *harness) {
			w.add(pod(0).Group("other").Obj())
			w.add(pod(0).Obj())
		},
		"its pod names no PodGroup any more": func(w *harness) {
			p := pod(0).Obj()
			delete(p.Annotations, v1beta1.KubeGroupNameAnnotationKey)
			w.add(p)
		},
		"its node is registered again": func(w *harness) { w.again("n") },
		"its node is registered again and changed": func(w *harness) {
			w.again("n")
			w.add(schedtest.MakeNode().Name("n").Label("a", "b").Obj())
		},
		"its task is recreated": func(w *harness) { w.deliver(w.latest["*v1.Pod ns/p0"]) },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(schedtest.MakePodGroup().Name("other").Obj())
				w.gangOf(1, 1)
				decided := w.decided("p0", "n")
				m, err := reserve(w.cache, decided, map[string]string{"rank": "1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				happens(w)
				for range 2 {
					node := w.cache.Snapshot().Nodes["n"]
					if got := node.Idle.MilliCPU; got != 7000 {
						t.Errorf("%v milli-cpu are idle in a session, want 7000", got)
					}
					if on := node.Tasks["ns/p0"]; on == nil || on.Pod.Annotations["rank"] != "1" {
						t.Errorf("the node has %v, want the pod with the decided devices", on)
					}
					for id, job := range w.cache.Snapshot().Jobs {
						if pending := job.TaskStatusIndex[api.Pending]; len(pending) > 0 {
							t.Errorf("%s has %d tasks that wait", id, len(pending))
						}
						for _, task := range job.Tasks {
							decided.TaskInfo.Job = task.Job
						}
					}
				}
				if err := w.cache.AddToTransaction(decided, nil, nil, nil); err == nil {
					t.Error("a second transaction has taken the pod")
				}
				w.cache.ledger.Bound(m)
				w.cache.Snapshot()
				if got := idleCPU(w.cache, "n"); got != 7000 {
					t.Errorf("%v milli-cpu are idle with the pod bound, want 7000", got)
				}
				w.add(changedGroup(w).Node("n").Obj())
				w.cache.Snapshot()
				if diff := cmp.Diff([]string{"Bound on n"}, booked(w.cache, "p0")); diff != "" && taskNamed(w.cache, "p0") != nil {
					t.Errorf("books once the watch shows the pod (-want +got):\n%s", diff)
				}
				if got := idleCPU(w.cache, "n"); got != 7000 {
					t.Errorf("%v milli-cpu are idle once the watch shows the pod, want 7000", got)
				}
				if w.cache.books.Pods.Held() > 0 {
					t.Errorf("the cache remembers %d pods of transactions", w.cache.books.Pods.Held())
				}
			})
		})
		t.Run(name+", and it is released", func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(schedtest.MakePodGroup().Name("other").Obj())
				w.gangOf(1, 1)
				m, err := reserve(w.cache, w.decided("p0", "n"), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				happens(w)
				w.cache.ledger.Released(m, errBroken)
				if diff := cmp.Diff([]string{"Pending"}, booked(w.cache, "p0")); diff != "" && taskNamed(w.cache, "p0") != nil {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				w.cache.Snapshot()
				if got := idleCPU(w.cache, "n"); got != 8000 {
					t.Errorf("%v milli-cpu are idle, want 8000", got)
				}
				if w.cache.books.Pods.Held() > 0 {
					t.Errorf("the cache remembers %d pods of transactions", w.cache.books.Pods.Held())
				}
			})
		})
	}
}

// changedGroup returns pod p0 with the PodGroup that it names now.
func changedGroup(w *harness) *schedtest.PodBuilder {
	b := pod(0)
	for key, value := range w.latest["*v1.Pod ns/p0"].(*v1.Pod).Annotations {
		b.Annotation(key, value)
	}
	return b
}

// TestAReservedNodeCountsWithoutRoom checks that a pod that is being bound counts on its node even if other pods fill
// the node, because the pod may be on its node at any moment.
func TestAReservedNodeCountsWithoutRoom(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.reserved()
		w.remove(schedtest.MakeNode().Name("n").Obj())
		w.add(schedtest.MakePod().Name("big").Scheduler("other").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "8"}).Obj())
		w.add(schedtest.MakeNode().Name("n").Obj())
		w.cache.Snapshot()
		if got := idleCPU(w.cache, "n"); got != -1000 {
			t.Errorf("%v milli-cpu are idle, want -1000 with 8 of 8 taken and a pod of 1 being bound", got)
		}
	})
}

// TestAPodThatReplacesAnotherWaitsForItsEnd checks that a pod that replaces another waits for its end. After a gap
// the watch shows a new pod in place of one that is in a transaction. The old pod is abandoned, and the new pod is in
// no transaction before the old one has ended.
func TestAPodThatReplacesAnotherWaitsForItsEnd(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		undo := make(chan struct{})
		step := binding.Step{Plugin: "slow", PreBind: waiting("slow", make(chan struct{})).PreBind, Rollback: blocking(undo)}
		w.mustPlace("n", []binding.Step{step}, "p0")
		w.cache.SealTransactions()
		synctest.Wait()
		w.add(pod(0).UID("new").Obj())
		synctest.Wait()
		if err := w.place("p0", "n"); err == nil || !strings.Contains(err.Error(), "UID ns-p0") {
			t.Errorf("error is %v, want one that names the pod whose transaction has not ended", err)
		}
		close(undo)
		synctest.Wait()
		w.mustPlace("n", nil, "p0")
		w.cache.SealTransactions()
		synctest.Wait()
		if got := w.cluster.Pod("p0"); got.UID != "new" || got.Spec.NodeName != "n" {
			t.Errorf("pod %s is on %q, want the new one on n", got.UID, got.Spec.NodeName)
		}
	})
}

// TestAReleaseFreesOnlyItsOwn checks that a release frees only its own reservation: a second result for a settled
// member does not free the pod's current reservation.
func TestAReleaseFreesOnlyItsOwn(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		first := w.reserved()
		w.cache.ledger.Released(first, errBroken)
		w.add(schedtest.MakeNode().Name("m").Obj())
		if _, err := reserve(w.cache, w.decided("p0", "m"), nil, nil); err != nil {
			t.Fatal(err)
		}
		w.cache.ledger.Released(first, errBroken)
		w.cache.ledger.Bound(first)
		if diff := cmp.Diff([]string{"Binding on m"}, booked(w.cache, "p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if n, m := idleCPU(w.cache, "n"), idleCPU(w.cache, "m"); n != 8000 || m != 7000 {
			t.Errorf("%v and %v milli-cpu are idle, want 8000 on n and 7000 on m", n, m)
		}
	})
}

// TestNUMADecisionsEndWithTheTransaction checks that NUMA decisions end with the transaction: a released task is
// placed again with a new NUMA decision.
func TestNUMADecisionsEndWithTheTransaction(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		decided := w.decided("p0", "n")
		decided.TaskInfo.NumaInfo.ResMap[1] = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		m, err := reserve(w.cache, decided, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := taskNamed(w.cache, "p0").NumaInfo.ResMap; len(got) != 1 {
			t.Errorf("the books have NUMA nodes %v while the pod is being bound, want those decided", got)
		}
		w.add(schedtest.MakePodGroup().Name("other").Obj(), pod(0).Group("other").Obj(), pod(0).Obj())
		w.cache.Snapshot()
		if got := taskNamed(w.cache, "p0").NumaInfo.ResMap; len(got) != 1 {
			t.Errorf("the books have NUMA nodes %v of a task that was rebuilt while its pod is being bound, want those decided", got)
		}
		w.cache.ledger.Released(m, errBroken)
		if got := taskNamed(w.cache, "p0").NumaInfo.ResMap; len(got) != 0 {
			t.Errorf("the books have NUMA nodes %v of a released pod", got)
		}
	})
}

// TestANodeRegisteredAgainHasItsPods checks that a node that is registered again has its pods. Upstream's cache shows
// such a node without pods.
func TestANodeRegisteredAgainHasItsPods(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 1)
		w.add(
			pod(0).Node("n").Phase(v1.PodRunning).Obj(),
			pod(1).Node("n").Obj(),
			pod(2).Node("n").Phase(v1.PodRunning).Terminating().Obj(),
			pod(3).Node("n").Phase(v1.PodSucceeded).Obj(),
			schedtest.MakePod().Name("foreign").Scheduler("other").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "2"}).Obj(),
			schedtest.MakePod().Name("done").Scheduler("other").Node("n").Phase(v1.PodFailed).Req(schedtest.Resources{"cpu": "2"}).Obj(),
		)
		before, _, _ := w.cache.SessionSnapshot()
		want := before.Nodes["n"].Clone()
		check := func(when string) {
			t.Helper()
			after, _, _ := w.cache.SessionSnapshot()
			got := after.Nodes["n"]
			for what, pair := range map[string][2]float64{
				"idle":      {want.Idle.MilliCPU, got.Idle.MilliCPU},
				"used":      {want.Used.MilliCPU, got.Used.MilliCPU},
				"releasing": {want.Releasing.MilliCPU, got.Releasing.MilliCPU},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%v milli-cpu are %s %s, want %v", pair[1], what, when, pair[0])
				}
			}
		}
		w.again("n")
		check("on a node registered anew")
		w.remove(schedtest.MakeNode().Name("n").Obj())
		w.add(pod(0).Node("n").Phase(v1.PodRunning).Label("a", "b").Obj()) // The books create a node entry without a Node for the pod.
		w.cache.Snapshot()
		w.add(schedtest.MakeNode().Name("n").Obj())
		check("on a node whose pod changed while it was away")
		w.add(pod(0).Node("n").Phase(v1.PodSucceeded).Obj())
		w.remove(schedtest.MakePod().Name("foreign").Obj())
		after, _, _ := w.cache.SessionSnapshot()
		if got := after.Nodes["n"].Used.MilliCPU; got != 2000 {
			t.Errorf("%v milli-cpu are used when a pod has ended and one is deleted, want 2000", got)
		}
	})
}

// TestANodeRegisteredAgainHasNoPodsOfOthers checks that a node that is registered again has no pods of other nodes. The
// books have a pod that is being bound to another node. The informer's store already has the pod on the registered
// node, but the handler has not been called.
func TestANodeRegisteredAgainHasNoPodsOfOthers(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.add(schedtest.MakeNode().Name("m").Obj())
		if _, err := reserve(w.cache, w.decided("p0", "m"), nil, nil); err != nil {
			t.Fatal(err)
		}
		w.list(pod(0).Node("n").Obj())
		w.again("n")
		w.cache.Snapshot()
		if n, m := idleCPU(w.cache, "n"), idleCPU(w.cache, "m"); n != 8000 || m != 7000 {
			t.Errorf("%v and %v milli-cpu are idle, want 8000 on n and 7000 on m", n, m)
		}
	})
}

func TestDeletedNodesAreDropped(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 1)
		w.remove(schedtest.MakeNode().Name("n").Obj())
		w.cache.books.Lock()
		defer w.cache.books.Unlock()
		if w.cache.books.Nodes.Get("n") != nil {
			t.Error("the node has an entry after it was deleted without pods")
		}
	})
}

// TestAddingToANodeRegisteredAgainChecksItsPods checks that adding a task to a node that is registered again checks
// its pods. The node was registered again after the session began.
func TestAddingToANodeRegisteredAgainChecksItsPods(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.add(pod(1).Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "7500m"}).Obj())
		decided := w.decided("p0", "n")
		w.again("n")
		if err := w.cache.AddToTransaction(decided, nil, nil, nil); err == nil {
			t.Error("a pod of 1 cpu was reserved on a node with 7.5 of 8 taken")
		}
	})
}

// blocking returns a rollback that waits for the channel.
func blocking(goOn <-chan struct{}) func(context.Context, *api.TaskInfo, string) error {
	return func(context.Context, *api.TaskInfo, string) error {
		<-goOn
		return nil
	}
}
