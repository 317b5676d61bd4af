// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// missedEnd reports the deletion of the pod as an informer does after a gap of its watch: with the last version that
// it has.
func missedEnd(w *harness, name string) {
	w.t.Helper()
	key := "*v1.Pod ns/" + name
	last := w.latest[key].(*v1.Pod)
	delete(w.latest, key)
	w.cluster.Remove(last)
	informer := &gapped{SharedIndexInformer: w.informersOf(last)[0]}
	if err := informer.GetStore().Delete(last); err != nil {
		w.t.Fatal(err)
	}
	w.cache.handlers.feed(informer, w.cache.changes.podAdded, w.cache.changes.podUpdated, w.cache.changes.podDeleted)
	informer.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/" + name, Obj: last})
}

// TestBooksOfHardHistories checks that the books equal the books of a newly started scheduler, whatever happened to
// pod p0 of 1 CPU and node n of 8 CPUs.
func TestBooksOfHardHistories(t *testing.T) {
	running := func() *v1.Pod { return pod(0).Node("n").Phase(v1.PodRunning).Obj() }
	large := schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "16", "pods": "10"}).Label("zone", "b").Obj()
	large.UID = "large"
	tests := map[string]struct {
		happens func(w *harness)
		booked  string
		// idle is the idle CPU of node n in a session, in milli-CPU. It is -1 if the node does not exist.
		idle float64
	}{
		"a start finds a pod on a node that is not shown": {
			happens: func(w *harness) {
				w.remove(schedtest.MakeNode().Name("n").Obj())
				w.add(running())
			}, booked: "Running on n", idle: -1,
		},
		"the node of a pod is shown after it": {
			happens: func(w *harness) {
				w.remove(schedtest.MakeNode().Name("n").Obj())
				w.add(running(), schedtest.MakeNode().Name("n").Obj())
			}, booked: "Running on n", idle: 7000,
		},
		"the node is registered again, larger": {
			happens: func(w *harness) {
				w.add(running())
				w.remove(schedtest.MakeNode().Name("n").Obj())
				w.add(large)
			}, booked: "Running on n", idle: 15000,
		},
		"the watch misses that the node is another one": {
			happens: func(w *harness) { w.add(running(), large) }, booked: "Running on n", idle: 15000,
		},
		"the pod has succeeded, and is deleted": {
			happens: func(w *harness) {
				w.add(running(), pod(0).Node("n").Phase(v1.PodSucceeded).Obj())
				w.remove(pod(0).Obj())
			}, booked: "unknown", idle: 8000,
		},
		"the pod has failed without a node": {
			happens: func(w *harness) { w.add(pod(0).Phase(v1.PodFailed).Obj()) }, booked: "Failed", idle: 8000,
		},
		"an evicted pod succeeds": {
			happens: func(w *harness) {
				w.add(running())
				evictIt(w)
				w.add(pod(0).Node("n").Phase(v1.PodSucceeded).Obj())
			}, booked: "Succeeded on n", idle: 8000,
		},
		"the watch misses the end of an evicted pod and the start of another of its name": {
			happens: func(w *harness) {
				w.add(running())
				evictIt(w)
				w.add(pod(0).UID("another").Node("n").Phase(v1.PodRunning).Obj())
			}, booked: "Running on n", idle: 7000,
		},
		"the end of a running pod falls into a gap of the watch": {
			happens: func(w *harness) {
				w.add(running())
				missedEnd(w, "p0")
			}, booked: "unknown", idle: 8000,
		},
		"the end of a pod in a transaction falls into a gap of the watch": {
			happens: func(w *harness) {
				w.mustPlace("n", nil, "p0")
				missedEnd(w, "p0")
				w.end()
			}, booked: "unknown", idle: 8000,
		},
		"the pod is another scheduler's": {
			happens: func(w *harness) { w.add(pod(0).Scheduler("other").Obj()) }, booked: "unknown", idle: 8000,
		},
		"the pod is another scheduler's while it is being bound": {
			happens: func(w *harness) {
				w.mustPlace("n", nil, "p0")
				w.add(pod(0).Scheduler("other").Obj())
				w.end()
			}, booked: "unknown", idle: 8000,
		},
		"the API server takes the Binding and its answer is lost": {
			happens: func(w *harness) {
				lost := true
				w.cluster.Kube.PrependReactor("create", "pods/binding", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if !lost {
						return false, nil, nil
					}
					lost = false
					bound := pod(0).Node("n").Obj()
					w.cluster.Put(bound)
					return true, nil, apierrors.NewTimeoutError("the answer is lost", 1)
				})
				w.mustPlace("n", nil, "p0")
				w.end()
				w.sync("p0")
			}, booked: "Bound on n", idle: 7000,
		},
		"the API server rejects the Binding": {
			happens: func(w *harness) {
				w.cluster.Kube.PrependReactor("create", "pods/binding", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
				})
				w.mustPlace("n", nil, "p0")
				w.end()
			}, booked: "Pending", idle: 8000,
		},
		"the watch shows the pod on another node while it is being bound": {
			happens: func(w *harness) {
				w.add(schedtest.MakeNode().Name("m").Obj())
				w.mustPlace("n", nil, "p0")
				w.add(pod(0).Node("m").Obj())
				w.end()
			}, booked: "Bound on m", idle: 8000,
		},
		"its node goes and comes before its transaction begins": {
			happens: func(w *harness) {
				w.mustPlace("n", nil, "p0")
				w.remove(schedtest.MakeNode().Name("n").Obj())
				w.add(large)
				w.end()
				w.sync("p0")
			}, booked: "Pending", idle: 16000,
		},
		"its node goes and comes while its Binding is written": {
			happens: func(w *harness) {
				w.cluster.Kube.PrependReactor("create", "pods/binding", func(clienttesting.Action) (bool, runtime.Object, error) {
					w.remove(schedtest.MakeNode().Name("n").Obj())
					w.add(large)
					return false, nil, nil
				})
				w.mustPlace("n", nil, "p0")
				w.end()
				w.sync("p0")
			}, booked: "Bound on n", idle: 15000,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				w.cache.SessionSnapshot() // An unchanged node is not copied again.
				tt.happens(w)
				if diff := cmp.Diff([]string{tt.booked}, booked(w.cache, "p0")); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				given, _, _ := w.cache.SessionSnapshot()
				idle := -1.0
				if node := given.Nodes["n"]; node != nil {
					idle = node.Idle.MilliCPU
				}
				if idle != tt.idle {
					t.Errorf("node n has %v milli-CPU left in a session, want %v", idle, tt.idle)
				}
				if held := w.cache.books.Pods.Held(); held > 0 {
					t.Errorf("%d pods are in transactions, want none", held)
				}
			})
		})
	}
}

// end waits until the transactions have ended, however often they retry.
func (w *harness) end() {
	w.cache.SealTransactions()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
}

// evictIt evicts pod p0 as a session does.
func evictIt(w *harness) {
	w.t.Helper()
	given := w.cache.Snapshot()
	w.cluster.Kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if err := w.cache.Evict(given.Jobs[gang].Tasks["ns-p0"], "preempt"); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestPodWithoutANodeInTheWatchIsNotEvicted checks that a pod without a node in the watch is not evicted. The pod is
// about to start, and its transaction still decides whether it is bound.
func TestPodWithoutANodeInTheWatchIsNotEvicted(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.mustPlace("n", nil, "p0")
		w.cache.SealTransactions()
		synctest.Wait()
		task := w.cache.Snapshot().Jobs[gang].Tasks["ns-p0"]
		if err := w.cache.Evict(task, "preempt"); err == nil {
			t.Error("the eviction is accepted")
		}
		if diff := cmp.Diff([]string{"Bound on n"}, booked(w.cache, "p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		w.sync("p0")
		if err := w.cache.Evict(task, "preempt"); err != nil {
			t.Errorf("once the watch shows it: %v", err)
		}
		synctest.Wait()
	})
}
