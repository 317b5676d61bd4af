// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// observed records the values that the plugin reports to metrics.
type observed struct {
	waited   map[string]time.Duration
	timeOuts int
	reserved int
	ended    map[gangs.ReservationEnd]int
}

func (o *observed) GangWaited(reason framework.PendingCategory, end report.PendingEnd, waited time.Duration) {
	o.waited[fmt.Sprintf("%s %s", reason, end)] += waited.Round(time.Second)
}
func (o *observed) GangTimedOut()                             { o.timeOuts++ }
func (o *observed) ReservationEnded(end gangs.ReservationEnd) { o.ended[end]++ }
func (o *observed) Reservations(now int)                      { o.reserved = now }

// observe returns the values that are observed in the following sessions. It starts a new leader.
func (w *simulation) observe() *observed {
	o := &observed{waited: map[string]time.Duration{}, ended: map[gangs.ReservationEnd]int{}}
	w.lead()
	w.registry.Reporter = report.NewPendingGangs(o)
	return o
}

// reload puts another configuration in force.
func (w *simulation) reload(conf string) {
	w.scheduler.Close()
	w.scheduler = w.cluster.Scheduler(w.registry, conf)
}

// TestWaitingTimeIsObserved checks that the waiting time is observed once, by the pending reason, when a gang returns
// to Pending and when it is bound.
func TestWaitingTimeIsObserved(t *testing.T) {
	in(t, narrow(nil), limits, func(t *testing.T, w *simulation) {
		o := w.observe()
		group := waits("a").Obj()
		group.CreationTimestamp = metav1.Now()
		w.cluster.Cache().AddPodGroupV1beta1(group)
		w.add(members(small(), "a", 3)...)
		w.pass(70*time.Second, 10*time.Second) // the first session runs after 10 s
		if diff := cmp.Diff(map[string]time.Duration{"unseen timed_out": 10 * time.Second, "incomplete timed_out": 60 * time.Second}, o.waited); diff != "" || o.timeOuts != 1 {
			t.Fatalf("when the gang returns to Pending, %d timeouts were observed, and these waiting times (-want +got):\n%s", o.timeOuts, diff)
		}
		clear(o.waited)
		w.pass(10*time.Second, 10*time.Second) // the backoff takes 8 s to 12 s
		w.pass(10*time.Second, 10*time.Second)
		w.add(small().Name("a-4").Group("a").Obj())
		w.pass(20*time.Second, 10*time.Second)
		if !w.runs("a") {
			t.Fatalf("the gang does not run: %v", w.job("a").PodGroup.Status.Conditions)
		}
		if o.waited["backoff bound"] < 10*time.Second || o.waited["backoff bound"] > 20*time.Second || o.waited["incomplete bound"] < 5*time.Second || o.waited["other bound"] > 0 || o.timeOuts != 1 {
			t.Errorf("when the gang is bound, %d timeouts and the waiting times %v were observed, want its backoff and the wait for members", o.timeOuts, o.waited)
		}
		clear(o.waited)
		w.pass(30*time.Second, 10*time.Second)
		if len(o.waited) > 0 {
			t.Errorf("the waiting time of a running gang is observed again: %v", o.waited)
		}
	})
}

// TestWaitingTimeOfTheNextLeader checks that a new leader counts the waiting time under the former leader, and does not
// report values again that the former leader reported.
func TestWaitingTimeOfTheNextLeader(t *testing.T) {
	in(t, narrow(nil), limits, func(t *testing.T, w *simulation) {
		group := waits("a").Obj()
		group.CreationTimestamp = metav1.Now()
		w.cluster.Cache().AddPodGroupV1beta1(group)
		w.add(members(small(), "a", 3)...)
		w.pass(30*time.Second, 10*time.Second)
		o := w.observe()
		w.pass(10*time.Second, 10*time.Second)
		w.reload(limits)
		w.add(small().Name("a-4").Group("a").Obj())
		w.pass(20*time.Second, 10*time.Second)
		want := map[string]time.Duration{"unseen bound": 40 * time.Second, "incomplete bound": 10 * time.Second, "binding bound": 10 * time.Second}
		got := map[string]time.Duration{}
		var sum time.Duration
		for key, d := range o.waited {
			got[key], sum = d, sum+d
		}
		if got["unseen bound"] != want["unseen bound"] || sum < 50*time.Second || sum > 60*time.Second {
			t.Errorf("the waiting times are %v, want 40s before the next leader, and 50 to 60 s in all", got)
		}
	})
}

// TestAGangThatIsDeletedIsNotObserved checks that the waiting time of a deleted gang is not observed, even if another
// gang of that name is bound later.
func TestAGangThatIsDeletedIsNotObserved(t *testing.T) {
	in(t, narrow(nil), limits, func(t *testing.T, w *simulation) {
		o := w.observe()
		for i, n := range []int{3, 4} {
			group := waits("a").Obj()
			group.UID = types.UID(fmt.Sprintf("uid-%d", i))
			group.CreationTimestamp = metav1.Now()
			w.cluster.Cache().AddPodGroupV1beta1(group)
			w.add(members(small(), "a", n)...)
			w.session()
			if n == 3 {
				w.pass(30*time.Second, 10*time.Second)
				for _, pod := range members(small(), "a", n) {
					w.remove(pod.Name)
				}
				w.cluster.Cache().DeletePodGroupV1beta1(group)
			}
		}
		w.pass(10*time.Second, 10*time.Second)
		for key, d := range o.waited {
			if d > 10*time.Second {
				t.Errorf("the observed time of the second gang includes that of the first gang: %s %v", key, d)
			}
		}
		if !w.runs("a") || len(o.waited) == 0 {
			t.Errorf("the waiting time of the second gang is not observed: %v", o.waited)
		}
	})
}
