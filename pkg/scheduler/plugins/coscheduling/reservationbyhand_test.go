// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// reservesDuringPause reserves two of four full nodes for gang big, whose namespace has a pause. It returns all pauses.
func (w *simulation) reservesDuringPause() map[string]*pause {
	w.t.Helper()
	w.full()
	w.arrives("big", schedtest.Queue, 2, "4")
	w.untilReserved("big")
	pauses := w.plugin.reservations.pauses
	pauses["namespace/"+schedtest.Namespace] = &pause{length: shortestPause, until: time.Now()}
	return pauses
}

// drainReserved removes the pods that fill the reserved nodes.
func (w *simulation) drainReserved() {
	for _, node := range w.reserved() {
		w.remove("full-" + node[1:])
	}
}

// TestAPodWithItsOwnNodeEndsNoPause: a tenant adds members that set nodeName themselves to a gang with a reservation,
// so that the reservation ends. Only members that the scheduler placed end the pause of the namespace.
func TestAPodWithItsOwnNodeEndsNoPause(t *testing.T) {
	for name, tt := range map[string]struct {
		byHand int
		placed bool
	}{
		"one pod":                        {byHand: 1},
		"as many as the minimum":         {byHand: 2},
		"the members are placed":         {placed: true},
		"the members are placed, beside": {byHand: 1, placed: true},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				pauses := w.reservesDuringPause()
				if tt.placed {
					w.drainReserved()
					w.session()
				}
				for i := range tt.byHand {
					name := []string{"by-hand-0", "by-hand-1"}[i]
					w.add(schedtest.MakePod().Name(name).Group("big").Node("n0").Phase(v1.PodRunning).Req(cores("100m")).Obj())
				}
				time.Sleep(time.Minute)
				w.session()
				if got := w.reserved(); len(got) > 0 {
					t.Fatalf("nodes %v are still reserved", got)
				}
				if paused := pauses["namespace/"+schedtest.Namespace] != nil; paused == tt.placed {
					t.Errorf("the namespace has a pause: %t, want %t", paused, !tt.placed)
				}
			})
		})
	}
}

// TestAReplacedMemberCountsAsPlaced: a member was deleted and created again just before the session that places the
// gang. The reservation has served its purpose, so the namespace's pause ends.
func TestAReplacedMemberCountsAsPlaced(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		pauses := w.reservesDuringPause()
		w.drainReserved()
		w.remove("big-1")
		w.add(schedtest.MakePod().Name("big-replaced").Group("big").Req(cores("4")).Obj())
		w.session()
		time.Sleep(time.Minute)
		w.session()
		if got := w.reserved(); len(got) > 0 {
			t.Fatalf("nodes %v are still reserved", got)
		}
		if pauses["namespace/"+schedtest.Namespace] != nil {
			t.Error("the namespace has a pause although its gang was placed")
		}
	})
}

// TestAGangThatIsPlacedAtOnceEndsThePause: the gang is placed in the session that begins its reservation, because pods
// have just released the nodes.
func TestAGangThatIsPlacedAtOnceEndsThePause(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		pauses := w.plugin.reservations.pauses
		w.pass(5*time.Minute, time.Minute)
		for i := range 4 {
			w.remove("full-" + string(rune('0'+i)))
		}
		pauses["namespace/"+schedtest.Namespace] = &pause{length: shortestPause, until: time.Now()}
		w.pass(time.Minute, time.Minute)
		if got := w.reserved(); len(got) != 2 || !w.runs("big") {
			t.Fatalf("nodes %v are reserved, and the gang runs: %t, want both in this session", got, w.runs("big"))
		}
		w.pass(time.Minute, time.Minute)
		if got := w.reserved(); len(got) > 0 || pauses["namespace/"+schedtest.Namespace] != nil {
			t.Errorf("nodes %v are still reserved, the namespace has a pause: %t", got, pauses["namespace/"+schedtest.Namespace] != nil)
		}
	})
}
