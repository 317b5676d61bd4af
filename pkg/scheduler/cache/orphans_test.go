// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestPodsOfADeletedPodGroupFillTheirQueue checks that running pods whose PodGroup does not exist count against their
// queue. Each queue has a capability of 4 CPUs, which four such pods use up in their queue. A gang of 1 CPU waits if it
// is in that queue.
func TestPodsOfADeletedPodGroupFillTheirQueue(t *testing.T) {
	const full = "QueueFull"
	tests := map[string]struct {
		// queue is the queue of the waiting gang, and boundIn the queue annotation of the running pods.
		queue, boundIn string
		deleted, ended bool
		// waits reports whether no kubelet has started the pods yet.
		waits bool
		want  string
	}{
		"it was deleted":                                       {queue: "q", deleted: true, want: full},
		"it was deleted before the pods started":               {queue: "q", deleted: true, waits: true, want: full},
		"it was deleted before the scheduler started":          {queue: "q", boundIn: "q", want: full},
		"it was deleted before the start, in another queue":    {queue: "q", boundIn: "other"},
		"it was deleted before the start, in the default one":  {queue: schedtest.Queue, want: full},
		"it was deleted, and the pods ended since":             {queue: "q", deleted: true, ended: true},
		"it was deleted before the start, and the queue, too":  {queue: "q", boundIn: "gone"},
		"it was deleted before the start, and nothing says so": {queue: "q"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				for _, queue := range []string{"q", "other", schedtest.Queue} {
					w.add(schedtest.MakeQueue().Name(queue).Capability(schedtest.Resources{"cpu": "4"}).Obj())
				}
				w.add(nodeOf8(0).Obj())
				before := schedtest.MakePodGroup().Name("before").Queue("q").MinMember(4).Obj()
				if tt.deleted {
					w.add(before)
				}
				running := func(i int) *schedtest.PodBuilder {
					p := schedtest.MakePod().Name(fmt.Sprintf("before-%d", i)).Group("before").Req(schedtest.Resources{"cpu": "1"}).Node("n00").Phase(v1.PodRunning)
					if tt.waits {
						p.Phase(v1.PodPending)
					}
					if tt.boundIn != "" {
						p.Annotation(binding.QueueAnnotation, tt.boundIn)
					}
					return p
				}
				for i := range 4 {
					w.add(running(i).Obj())
				}
				if tt.deleted {
					w.remove(before)
				}
				if tt.ended {
					for i := range 4 {
						w.add(running(i).Phase(v1.PodSucceeded).Obj())
					}
				}
				w.add(schedtest.MakePodGroup().Name("g").Queue(tt.queue).MinMember(1).Obj(), pod(0).Req(schedtest.Resources{"cpu": "1"}).Obj())
				s := newSessions(w, explainConf("capacity"))
				s.cycle()
				s.cycle()
				got := ""
				for _, c := range w.cluster.PodGroup("g").Status.Conditions {
					if c.Reason == full {
						got = full
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("why the gang waits (-want +got):\n%s", diff)
				}
				if bound := w.cluster.Pod("p0").Spec.NodeName != ""; bound != (tt.want == "") {
					t.Errorf("the gang is bound: %t", bound)
				}
			})
		})
	}
}

// TestAnOrphanIsNotScheduled checks that orphaned pods that wait are not placed, and report that their PodGroup does
// not exist.
func TestAnOrphanIsNotScheduled(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(nodeOf8(0).Obj(), pod(0).Node("n00").Phase(v1.PodRunning).Obj(), pod(1).Obj())
		s := newSessions(w, explainConf("capacity"))
		s.cycle()
		s.cycle()
		if node := w.cluster.Pod("p1").Spec.NodeName; node != "" {
			t.Errorf("the pod is bound to %s", node)
		}
		want := `PodGroupNotFound: PodGroup "g" does not exist; create it, or correct the pod's annotation scheduling.k8s.io/group-name`
		if diff := cmp.Diff(want, s.podSays("p1")); diff != "" {
			t.Errorf("condition of the pod (-want +got):\n%s", diff)
		}
	})
}

// TestAnOrphanKeepsItsPriority checks that orphaned pods keep the priority of their PodGroup after its deletion, so
// no gang of lower priority can evict them.
func TestAnOrphanKeepsItsPriority(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.cache.books.Lock()
		w.cache.books.Tables.Priorities["high"] = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
		w.cache.books.Unlock()
		group := schedtest.MakePodGroup().Name("g").PriorityClass("high").MinMember(1).Obj()
		w.add(nodeOf8(0).Obj(), group, pod(0).Node("n00").Phase(v1.PodRunning).Obj())
		if got := w.cache.Snapshot().Jobs[gang].Priority; got != 1000 {
			t.Errorf("the gang's priority is %d, want 1000", got)
		}
		w.remove(group)
		if got := w.cache.Snapshot().Jobs[gang].Priority; got != 1000 {
			t.Errorf("the orphan's priority is %d, want 1000", got)
		}
	})
}
