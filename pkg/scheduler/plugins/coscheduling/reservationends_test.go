// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWhenReservationsExpire checks the three time limits of a reservation: for draining the nodes, for holding drained
// nodes, and for both together.
func TestWhenReservationsExpire(t *testing.T) {
	const never = -1
	for name, tt := range map[string]struct {
		reserved, drained time.Duration
		want              string
	}{
		"they drain":                 {30*time.Minute - 1, never, ""},
		"they drain for too long":    {30 * time.Minute, never, "pods on them did not terminate within 30m0s"},
		"they are drained":           {29 * time.Minute, 5*time.Minute - 1, ""},
		"they are held for too long": {29 * time.Minute, 5 * time.Minute, "they were idle for 5m0s and the gang was still not placed"},
		"both":                       {35*time.Minute - 1, time.Minute, ""},
		"both for too long":          {35 * time.Minute, time.Minute, "they were reserved for 35m0s and the gang was still not placed"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				o := w.observe()
				w.full()
				w.arrives("big", schedtest.Queue, 2, "4")
				w.untilReserved("big")
				if got, want := w.condition("big", Reserved).Message, "Reserved 2 nodes ("+strings.Join(w.reserved(), ", ")+") for at most 35m0s: the gang has waited longer than starvationAfter (5m0s)"; got != want {
					t.Errorf("the condition has message %q, want %q", got, want)
				}
				now, r := time.Now(), w.plugin.reservations.active[schedtest.Queue]
				r.since, r.drained = now.Add(-tt.reserved), time.Time{}
				if tt.drained != never {
					r.drained = now.Add(-tt.drained)
				}
				w.session()
				if ended := len(w.reserved()) == 0; ended != (tt.want != "") || o.ended[gangs.ReservationExpired] != map[bool]int{true: 1}[ended] {
					t.Fatalf("the reserved nodes are %v, and the ended reservations are %v", w.reserved(), o.ended)
				}
				if tt.want == "" {
					return
				}
				condition := w.condition("big", Reserved)
				want := "Released 2 reserved nodes, no new reservation before " + clockTime(now.Add(shortestPause)) + ": " + tt.want + ": QueueFull: "
				if condition.Reason != reservationEnded || !strings.HasPrefix(condition.Message, want) || strings.HasSuffix(condition.Message, ": ") {
					t.Errorf("the condition is %s: %s, want %s...", condition.Reason, condition.Message, want)
				}
				for _, of := range []string{"queue/" + schedtest.Queue, "namespace/" + schedtest.Namespace} {
					if p := w.plugin.reservations.pauses[of]; p == nil || !p.until.Equal(now.Add(shortestPause)) {
						t.Errorf("the pause of %s is %v, want one until the end of the shortest pause", of, p)
					}
				}
				if retry := w.plugin.reservations.waiting["ns/big"].retry; !retry.until.Equal(now.Add(shortestRetry)) {
					t.Errorf("the next trial of the gang is at %s", retry.until)
				}
				for i := range 4 {
					w.remove("full-" + string(rune('0'+i)))
				}
				w.pass(2*time.Second, time.Second)
				if c := w.condition("big", Reserved); !w.runs("big") || c.Type != "" {
					t.Errorf("the gang runs: %t, and has the condition %v", w.runs("big"), c)
				}
			})
		})
	}
}

// TestNodesThatCannotBeReplacedEndTheReservation checks that cordoned nodes are replaced by other nodes, which the
// condition names. The reservation ends if too few other nodes exist.
func TestNodesThatCannotBeReplacedEndTheReservation(t *testing.T) {
	for cordoned, want := range map[int]int{1: 2, 3: 0} {
		in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
			o := w.observe()
			w.full()
			w.arrives("big", schedtest.Queue, 2, "4")
			w.untilReserved("big")
			before := w.reserved()
			for i := range cordoned {
				node := holds("4").Name("n" + string(rune('0'+i))).Obj()
				node.Spec.Unschedulable = true
				if err := w.cluster.Cache().AddOrUpdateNode(node); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(time.Minute, 20*time.Second)
			now := w.reserved()
			if len(now) != want || cmp.Equal(before, now) {
				t.Errorf("with %d nodes cordoned the reserved nodes are %v, before %v, want %d", cordoned, now, before, want)
			}
			if lost := o.ended[gangs.ReservationLost]; lost != map[bool]int{true: 1}[want == 0] || len(w.reservedGangs()) != 1-lost {
				t.Errorf("%d reservations have lost their nodes, and reservations exist for %v", lost, w.reservedGangs())
			}
			if next := w.plugin.reservations.nextTrial; !next.After(time.Now().Add(-time.Minute)) {
				t.Errorf("the next trial was possible %s ago, although choosing other nodes is a trial, too", time.Since(next))
			}
			if message := w.condition("big", Reserved).Message; want > 0 && !strings.Contains(message, " nodes ("+strings.Join(now, ", ")+") ") {
				t.Errorf("the reserved nodes are %v, and the condition has message %s", now, message)
			}
		})
	}
}

// TestWaitsForResources: only waits for resources count. The wait restarts while a gang lacks members or partner gangs,
// or has scheduling gates.
func TestWaitsForResources(t *testing.T) {
	type clock struct{ LacksRoom, Restarts bool }
	given := nodes(1, "4")
	closed := schedtest.MakeQueue().Name("closed").Obj()
	closed.Status.State = v1beta1.QueueStateClosed
	given.Queues = []*v1beta1.Queue{closed, schedtest.MakeQueue().Name("full").Capability(cores("1")).Obj()}
	in(t, given, after5m(50), func(t *testing.T, w *simulation) {
		w.arrives("room", schedtest.Queue, 1, "8")
		w.arrives("full", "full", 1, "2")
		w.arrives("closed", "closed", 1, "1")
		w.arrives("few", schedtest.Queue, 2, "8")
		w.remove("few-1")
		w.arrives("gated", schedtest.Queue, 1, "8", func(pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}} })
		w.pass(3*time.Second, time.Second)
		got := map[string]clock{}
		for uid, waits := range w.plugin.reservations.waiting {
			name := strings.TrimPrefix(string(uid), schedtest.Namespace+"/")
			restarts := waits.since.Equal(time.Now())
			if !restarts && time.Since(waits.since) != 2*time.Second {
				t.Errorf("gang %s has waited for %s", name, time.Since(waits.since))
			}
			got[name] = clock{waits.lacksRoom, restarts}
		}
		want := map[string]clock{"room": {true, false}, "full": {true, false}, "closed": {false, false}, "few": {false, true}, "gated": {false, true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("waiting (-want +got):\n%s", diff)
		}
		w.remove("room-0")
		w.session()
		if w.plugin.reservations.waiting[api.JobID(schedtest.Namespace+"/room")] != nil {
			t.Error("a gang without members has a wait")
		}
	})
}

// TestAGangIsTriedAgainOnNodesThatAreReservedNoLonger checks that a gang is tried again on a node that is no longer
// reserved, although nothing else has changed since it was rejected there.
func TestAGangIsTriedAgainOnNodesThatAreReservedNoLonger(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		for i := range 3 {
			w.stays("full-"+string(rune('0'+i)), schedtest.Queue, "n"+string(rune('0'+i)), "4")
		}
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.arrives("other", schedtest.Queue, 1, "3")
		w.pass(2*time.Minute, 20*time.Second)
		if w.runs("other") {
			t.Fatalf("another gang runs while the reserved nodes are %v", w.reserved())
		}
		clear(w.plugin.reservations.active)
		w.plugin.reservations.pauses["queue/"+schedtest.Queue] = &pause{length: shortestPause, until: time.Now().Add(time.Hour)}
		if w.session(); !w.runs("other") {
			t.Errorf("the other gang does not run on a node that is no longer reserved: %s", w.condition("other", "Unschedulable").Message)
		}
	})
}
