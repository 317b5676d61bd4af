// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestNodesAreChosenAgain checks that the nodes of a reservation are chosen again if the minimum is raised or a node is
// lost. The reservation ends if no other nodes can be reserved.
func TestNodesAreChosenAgain(t *testing.T) {
	raise := func(to int32) func(w *simulation) {
		return func(w *simulation) {
			w.change(schedtest.MakePodGroup().Name("big").MinMember(to).Obj())
			w.add(schedtest.MakePod().Name("big-more").Group("big").Req(cores("4")).Obj())
		}
	}
	cordon := func(names ...string) func(w *simulation) {
		return func(w *simulation) {
			for _, name := range names {
				node := w.cluster.Cache().Nodes[name].Node.DeepCopy()
				node.Spec.Unschedulable = true
				if err := w.cluster.Cache().AddOrUpdateNode(node); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	tests := map[string]struct {
		percent int
		change  func(w *simulation)
		want    string
	}{
		"a raised minimum":                  {100, raise(3), "n0 n1 n2"},
		"a minimum raised beyond the share": {50, raise(3), ""},
		"a lost node":                       {75, cordon("n0"), "n1 n2"},
		"too many lost nodes":               {100, cordon("n0", "n1", "n2"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(tt.percent), func(t *testing.T, w *simulation) {
				o := w.observe()
				w.full()
				w.arrives("big", schedtest.Queue, 2, "4")
				w.untilReserved("big")
				since := w.plugin.reservations.active[schedtest.Queue].since
				tt.change(w)
				w.pass(2*time.Minute, time.Minute)
				if got := strings.Join(w.reserved(), " "); got != tt.want {
					t.Fatalf("the reserved nodes are %q, want %q: %s", got, tt.want, w.condition("big", Reserved).Message)
				}
				if tt.want == "" {
					if o.ended[gangs.ReservationLost] != 1 {
						t.Errorf("the ended reservations are %v", o.ended)
					}
					return
				}
				if r := w.plugin.reservations.active[schedtest.Queue]; !r.since.Equal(since) {
					t.Error("the reservation's time limit has changed")
				}
			})
		})
	}
}

// TestAGangIsPlacedAtOnceOnNodesThatWereChosenAgain checks that no pause follows if the gang is placed in the session
// that chose its nodes again.
func TestAGangIsPlacedAtOnceOnNodesThatWereChosenAgain(t *testing.T) {
	in(t, nodes(4, "4"), after5m(75), func(t *testing.T, w *simulation) {
		o := w.observe()
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		node := w.cluster.Cache().Nodes["n0"].Node.DeepCopy()
		node.Spec.Unschedulable = true
		if err := w.cluster.Cache().AddOrUpdateNode(node); err != nil {
			t.Fatal(err)
		}
		w.remove("full-1")
		w.remove("full-2")
		w.pass(2*time.Minute, time.Minute)
		if !w.runs("big") || o.ended[gangs.ReservationPlaced] != 1 || len(w.plugin.reservations.pauses) > 0 {
			t.Errorf("the gang runs: %t, the ended reservations are %v, and the pauses are %v", w.runs("big"), o.ended, w.plugin.reservations.pauses)
		}
	})
}

func cpus(n string) *resource.Quantity {
	q := resource.MustParse(n)
	return &q
}
