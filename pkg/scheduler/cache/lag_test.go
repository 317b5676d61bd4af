// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestLagging: the loop is woken by handlers of ours, and upstream's cache has its own: a cycle must not run before
// the change is there too.
// A change that is late delays no cycle; it gets one of its own when it comes, however late that is.
func TestLagging(t *testing.T) {
	tests := map[string]struct {
		told  func(w *world)
		taken func(w *world)
	}{
		"a node": {
			told:  func(w *world) { w.changes.nodeAdded(w.listed(schedtest.MakeNode().Name("n").Obj())) },
			taken: func(w *world) { w.deliver(w.latest["*v1.Node n"]) },
		},
		"a PodGroup": {
			told: func(w *world) {
				w.changes.countPod(gang, "uid", true)
				w.changes.podGroupAdded(w.listed(schedtest.MakePodGroup().Name("g").Obj()))
			},
			taken: func(w *world) { w.AddPodGroupV1beta1(w.latest["*v1beta1.PodGroup ns/g"]) },
		},
		"a queue": {
			told:  func(w *world) { w.changes.queueAdded(w.listed(schedtest.MakeQueue().Name("q").Obj())) },
			taken: func(w *world) { w.AddQueueV1beta1(w.latest["*v1beta1.Queue q"]) },
		},
		"a node that the selector leaves out": {
			told:  func(w *world) { w.changes.nodeAdded(w.listed(schedtest.MakeNode().Name("n").Obj())) },
			taken: func(w *world) { w.someNodes = true },
		},
		"a queue's change": {
			told: func(w *world) {
				w.add(schedtest.MakeQueue().Name("q").Obj())
				w.Lagging() // so that the queue is in
				before := w.latest["*v1beta1.Queue q"]
				w.changes.queueUpdated(before, w.listed(schedtest.MakeQueue().Name("q").Weight(9).Obj()))
			},
			taken: func(w *world) { w.AddQueueV1beta1(w.latest["*v1beta1.Queue q"]) },
		},
		"a pod": {
			told: func(w *world) {
				w.listed(schedtest.MakePodGroup().Name("g").Obj())
				w.changes.podAdded(w.listed(pod(0).Obj()))
			},
			taken: func(w *world) { w.AddPod(w.latest["*v1.Pod ns/p0"]) },
		},
		"a pod that is gone before it came": {
			told: func(w *world) {
				w.listed(schedtest.MakePodGroup().Name("g").Obj())
				w.changes.podAdded(w.listed(pod(0).Obj()))
			},
			taken: func(w *world) { w.remove(pod(0).Obj()) },
		},
		"a node that is gone before it came": {
			told:  func(w *world) { w.changes.nodeAdded(w.listed(schedtest.MakeNode().Name("n").Obj())) },
			taken: func(w *world) { w.changes.nodeDeleted(schedtest.MakeNode().Name("n").Obj()) },
		},
		"a PodGroup that is gone before it came": {
			told: func(w *world) {
				w.changes.countPod(gang, "uid", true)
				w.changes.podGroupAdded(w.listed(schedtest.MakePodGroup().Name("g").Obj()))
			},
			taken: func(w *world) { w.changes.podGroupDeleted(schedtest.MakePodGroup().Name("g").Obj()) },
		},
		"a queue that is gone before it came": {
			told:  func(w *world) { w.changes.queueAdded(w.listed(schedtest.MakeQueue().Name("q").Obj())) },
			taken: func(w *world) { w.changes.queueDeleted(schedtest.MakeQueue().Name("q").Obj()) },
		},
		"a pod that another scheduler has bound": {
			told: func(w *world) {
				w.listed(schedtest.MakePodGroup().Name("g").Obj())
				w.changes.podAdded(w.listed(pod(0).Obj()))
			},
			taken: func(w *world) { w.listed(pod(0).Node("elsewhere").Obj()) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if w.Lagging() {
					t.Fatal("lagging at rest")
				}
				tt.told(w)
				if !w.Lagging() {
					t.Error("not lagging although a change is not in the cache")
				}
				tt.taken(w)
				if w.Lagging() {
					t.Error("lagging although the change is in the cache")
				}
			})
		})
		t.Run(name+", late", func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Lagging() // so that what made the world is in
				tt.told(w)
				w.SetLate()
				time.Sleep(time.Hour)
				if w.Lagging() {
					t.Error("cycles wait for a change that is late")
				}
				if some, more := w.LateArrived(); some || !more {
					t.Errorf("of a change that has not come, arrived: %v, more to come: %v", some, more)
				}
				tt.taken(w)
				if _, more := w.LateArrived(); more {
					t.Error("a change that has come, or whose object is gone, is still awaited")
				}
			})
		})
	}
}

func TestALateChangeIsToldOnceWhenItArrives(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Lagging() // so that what made the world is in
		w.changes.queueAdded(w.listed(schedtest.MakeQueue().Name("q").Obj()))
		w.changes.nodeAdded(w.listed(schedtest.MakeNode().Name("n").Obj()))
		w.SetLate()
		w.AddQueueV1beta1(w.latest["*v1beta1.Queue q"])
		if some, more := w.LateArrived(); !some || !more {
			t.Errorf("of two late changes one came; arrived: %v, more to come: %v", some, more)
		}
		if some, more := w.LateArrived(); some || !more {
			t.Errorf("nothing came since; arrived: %v, more to come: %v", some, more)
		}
		w.changes.nodeAdded(w.latest["*v1.Node n"])
		if !w.Lagging() {
			t.Error("a new change of an object that is late is not waited for")
		}
		w.deliver(w.latest["*v1.Node n"])
		if w.Lagging() {
			t.Error("lagging although the change is in the cache")
		}
		if some, more := w.LateArrived(); some || more {
			t.Errorf("the change that was late is part of one that a cycle has waited for; arrived: %v, more to come: %v", some, more)
		}
	})
}

// TestWaiting: what sessions do not see must not be taken for nothing. In the outage that this comes from, pods waited for
// a PodGroup that was long in coming, no session had them, and the loop went idle for ever.
func TestWaiting(t *testing.T) {
	running := schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupRunning).Obj
	completed := schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupCompleted).Obj
	tests := map[string]struct {
		there func(w *world)
		want  bool
	}{
		"nothing":                       {there: func(*world) {}},
		"a pod without its PodGroup":    {there: func(w *world) { w.add(pod(0).Obj()) }, want: true},
		"a PodGroup without pods":       {there: func(w *world) { w.add(schedtest.MakePodGroup().Name("g").Obj()) }, want: true},
		"a pod of a PodGroup that runs": {there: func(w *world) { w.add(running(), pod(0).Obj()) }, want: true},
		"a PodGroup that runs":          {there: func(w *world) { w.add(running()) }},
		"a PodGroup that has ended":     {there: func(w *world) { w.add(completed()) }},
		"a pod on a node": {there: func(w *world) {
			w.add(schedtest.MakeNode().Name("n").Obj(), running(), pod(0).Node("n").Phase("Running").Obj())
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tt.there(w)
				if got := w.Waiting(); got != tt.want {
					t.Errorf("something waits: %v, want %v", got, tt.want)
				}
			})
		})
	}
}
