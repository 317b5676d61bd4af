// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// started runs waitForInitialLists and returns a function that says whether it has returned.
func (w *world) started(t *testing.T) (done func() bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.waitForInitialLists(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return func() bool {
		time.Sleep(2 * syncPoll)
		synctest.Wait()
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
}

// TestRegressionStartupRace is upstream's defect of that id: the first cycle sees part of the nodes, because they reach the cache
// through a queue that nobody waits for.
func TestRegressionStartupRace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const nodes = 1000
		for i := range nodes {
			w.listed(schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Obj())
		}
		if got := len(w.Snapshot().Nodes); got != 0 {
			t.Fatalf("%d nodes are in the cache before the start", got)
		}
		if err := w.waitForInitialLists(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(w.Snapshot().Nodes); got != nodes {
			t.Errorf("the first session sees %d of %d nodes", got, nodes)
		}
	})
}

// TestANodeDeletedWhileTheCacheFills: the start, and each fail-over, ended with an error when that happened.
func TestANodeDeletedWhileTheCacheFills(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.syncNode("deleted-since-it-was-listed"); err != nil {
			t.Errorf("the start ends with: %v", err)
		}
	})
}

func TestFirstCycleWaitsForEveryObject(t *testing.T) {
	tests := map[string]struct {
		list func(w *world)
		take func(w *world)
	}{
		"a waiting pod": {
			list: func(w *world) { w.listed(pod(0).Obj()) },
			take: func(w *world) { w.AddPod(w.latest["*v1.Pod ns/p0"]) },
		},
		"a running pod": {
			list: func(w *world) {
				w.listed(schedtest.MakeNode().Name("n").Obj())
				w.listed(pod(0).Scheduler("other").Node("n").Phase(v1.PodRunning).Obj())
			},
			take: func(w *world) { w.AddPod(w.latest["*v1.Pod ns/p0"]) },
		},
		"a PodGroup": {
			list: func(w *world) { w.listed(schedtest.MakePodGroup().Name("g").Obj()) },
			take: func(w *world) { w.AddPodGroupV1beta1(w.latest["*v1beta1.PodGroup ns/g"]) },
		},
		"a queue": {
			list: func(w *world) { w.listed(schedtest.MakeQueue().Name("q").Obj()) },
			take: func(w *world) { w.AddQueueV1beta1(w.latest["*v1beta1.Queue q"]) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tt.list(w)
				done := w.started(t)
				if done() {
					t.Fatal("the start did not wait")
				}
				tt.take(w)
				if !done() {
					t.Error("the start goes on waiting for what is there")
				}
			})
		})
	}
}

func TestFirstCycleDoesNotWaitForWhatNeverComes(t *testing.T) {
	tests := map[string]struct {
		list func(w *world)
		wait time.Duration
	}{
		"a finished pod":                     {list: func(w *world) { w.listed(pod(0).Node("n").Phase(v1.PodSucceeded).Obj()) }},
		"a waiting pod of another scheduler": {list: func(w *world) { w.listed(pod(0).Scheduler("other").Obj()) }},
		"a pod without a gang":               {list: func(w *world) { w.listed(schedtest.MakePod().Name("p").Obj()) }},
		"a pod of a node that another scheduler has": {
			list: func(w *world) { w.listed(pod(0).Node("elsewhere").Obj()) }, wait: syncPatience,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tt.list(w)
				begin := time.Now()
				if err := w.waitForInitialLists(t.Context()); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(begin); waited < tt.wait || waited > tt.wait+time.Second {
					t.Errorf("the start took %v, want %v", waited, tt.wait)
				}
			})
		})
	}
}
