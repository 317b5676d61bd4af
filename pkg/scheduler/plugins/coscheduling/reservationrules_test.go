// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// reservedGangs returns the gangs with reserved nodes, by queue.
func (w *simulation) reservedGangs() map[string]string {
	gangs := map[string]string{}
	for queue, r := range w.plugin.reservations.active {
		gangs[string(queue)] = strings.TrimPrefix(string(r.gang), schedtest.Namespace+"/")
	}
	return gangs
}

// TestOneReservationPerQueue checks that only one gang of a queue gets a reservation, even if more nodes could be
// reserved. It is the gang with the highest priority, or the one that has waited longest among gangs with equal
// priorities. Another queue has its own reservation on other nodes.
func TestOneReservationPerQueue(t *testing.T) {
	for name, c := range map[string]struct {
		priority int32
		want     string
	}{"equal": {0, "first"}, "the second is of a higher priority": {10, "second"}} {
		t.Run(name, func(t *testing.T) {
			given := nodes(8, "4")
			for _, queue := range []string{"a", "b"} {
				given.Queues = append(given.Queues, schedtest.MakeQueue().Name(queue).Weight(100).Obj())
			}
			in(t, given, after5m(100), func(t *testing.T, w *simulation) {
				o := w.observe()
				for _, node := range given.Nodes {
					w.stays("on-"+node.Name, schedtest.Queue, node.Name, "4")
				}
				w.arrives("first", "a", 1, "4")
				w.session()
				time.Sleep(time.Minute)
				w.arrives("second", "a", 1, "4", func(pod *v1.Pod) { pod.Spec.Priority = &c.priority })
				w.arrives("other", "b", 1, "4")
				w.session()
				time.Sleep(6 * time.Minute) // both gangs have waited for long enough
				w.pass(10*time.Minute, time.Minute)
				got := w.reservedGangs()
				if len(got) != 2 || got["a"] != c.want || got["b"] != "other" || o.reserved != 2 {
					t.Fatalf("nodes are reserved for %v, want one gang of each queue, and gang %s of queue a", got, c.want)
				}
				if both := w.reserved(); len(both) != 2 || both[0] == both[1] {
					t.Errorf("the reserved nodes are %v, want different nodes for the two gangs", both)
				}
			})
		})
	}
}

// TestGangWithReservedNodesDoesNotTimeOut: a gang does not time out while its reserved nodes drain, whatever its
// waiting time is. It times out after the reservation has ended.
func TestGangWithReservedNodesDoesNotTimeOut(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		group := schedtest.MakePodGroup().Name("big").MinMember(2).Phase(v1beta1.PodGroupInqueue).Annotation(gangs.WaitingTimeAnnotation, "10m").Obj()
		w.cluster.Cache().AddPodGroupV1beta1(group)
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
		w.untilReserved("big")
		for range 25 {
			time.Sleep(time.Minute)
			w.session()
			if w.phase("big") != scheduling.PodGroupInqueue || w.condition("big", TimeLimit).Reason == timedOut {
				t.Fatalf("the gang returned to Pending while it has reserved nodes: %s", w.condition("big", TimeLimit).Message)
			}
		}
		if len(w.reserved()) == 0 {
			t.Fatal("the reservation has ended too early for this test")
		}
		for range 16 {
			time.Sleep(time.Minute)
			if w.session(); len(w.reserved()) == 0 && w.condition("big", TimeLimit).Reason == timedOut {
				return
			}
		}
		t.Errorf("the reserved nodes are %v, and the reason of condition TimeLimit is %q, want a timeout", w.reserved(), w.condition("big", TimeLimit).Reason)
	})
}

// TestAGangWithReservedNodesIsAdmitted checks that a gang with a reservation is admitted, unless its minResources
// exceed the requests of its members.
func TestAGangWithReservedNodesIsAdmitted(t *testing.T) {
	for name, c := range map[string]struct {
		min  string
		want bool
	}{"what its members need": {"8", true}, "more than that": {"9", false}} {
		t.Run(name, func(t *testing.T) {
			conf := strings.Replace(after5m(50), "  - name: proportion\n", "  - name: proportion\n  - name: overcommit\n    arguments: {overcommit-factor: 1.0}\n", 1)
			in(t, nodes(4, "4"), conf, func(t *testing.T, w *simulation) {
				w.full()
				w.cluster.Cache().AddPodGroupV1beta1(
					schedtest.MakePodGroup().Name("big").MinMember(2).MinResources(cores(c.min)).Phase(v1beta1.PodGroupPending).Obj())
				w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
				w.pass(10*time.Minute, time.Minute)
				if got := w.phase("big") == scheduling.PodGroupInqueue && len(w.reserved()) == 2; got != c.want {
					t.Errorf("the gang is %s and the reserved nodes are %v: %s", w.phase("big"), w.reserved(), w.condition("big", Reserved).Message)
				}
			})
		})
	}
}

// TestReservationsOutliveTheConfiguration checks that reservations survive a reload, end if the new configuration has
// no reservations, and are not taken over by a new leader.
func TestReservationsOutliveTheConfiguration(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		o := w.observe()
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.reload(after5m(60))
		w.session()
		if len(w.reserved()) != 2 || o.reserved != 2-1 || len(o.ended) > 0 {
			t.Fatalf("after a reload the reserved nodes are %v, and the ended reservations are %v", w.reserved(), o.ended)
		}
		w.reload(limits)
		if o.reserved != 0 {
			t.Errorf("the plugin of the former configuration reports %d reservations after its end", o.reserved)
		}
		w.session()
		w.session()
		if len(w.reserved()) > 0 || o.reserved != 0 || o.ended[gangs.ReservationOff] != 1 || w.condition("big", Reserved).Type != "" {
			t.Fatalf("without starvationAfter, the reserved nodes are %v, the ended reservations are %v, and the condition is %q", w.reserved(), o.ended, w.condition("big", Reserved).Message)
		}
		w.reload(after5m(50))
		w.untilReserved("big")
		w.lead()
		w.session()
		if len(w.reserved()) > 0 || w.condition("big", Reserved).Type != "" {
			t.Errorf("the nodes reserved by a new leader are %v, and the condition is %q", w.reserved(), w.condition("big", Reserved).Message)
		}
	})
}

// TestGangsThatHadNotWaitedForRoom checks that the wait for a reservation does not include the time before a gang had
// all pods, or while its pods had scheduling gates.
func TestGangsThatHadNotWaitedForRoom(t *testing.T) {
	gate := func(pod *v1.Pod) {
		pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/mine"}}
	}
	pods := func() []*v1.Pod { return members(schedtest.MakePod().Req(cores("4")), "big", 2) }
	tests := map[string]struct{ before, then func(w *simulation) }{
		"a pod comes late": {func(w *simulation) { w.add(pods()[0]) }, func(w *simulation) { w.add(pods()[1]) }},
		"they had scheduling gates": {func(w *simulation) {
			for _, pod := range pods() {
				gate(pod)
				w.add(pod)
			}
		}, func(w *simulation) {
			for _, name := range []string{"big-0", "big-1"} {
				w.update(name, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("big").MinMember(2).Obj())
				tt.before(w)
				w.pass(10*time.Minute, time.Minute)
				tt.then(w)
				w.pass(4*time.Minute, time.Minute)
				if len(w.reserved()) > 0 {
					t.Fatalf("the reserved nodes are %v before the gang has waited for 5 minutes", w.reserved())
				}
				w.untilReserved("big")
			})
		})
	}
}

// TestGangsOfAGroupHaveNothingReserved: gangs of a group get no reservation, because one of them alone could not be
// placed on its nodes.
func TestGangsOfAGroupHaveNothingReserved(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		for _, name := range []string{"x", "y"} {
			w.cluster.Cache().AddPodGroupV1beta1(gangNamed(name, 1, says(gangs.GroupsAnnotation, groupOf("x", "y"))))
			w.add(members(schedtest.MakePod().Req(cores("4")), name, 1)...)
		}
		w.pass(15*time.Minute, time.Minute)
		if len(w.reserved()) > 0 {
			t.Errorf("the reserved nodes are %v", w.reserved())
		}
	})
}

// TestReservedNodesLieInOneDomain checks that nodes are reserved in one domain of a required layer, and that a gang
// with an unknown layer gets no reservation.
func TestReservedNodesLieInOneDomain(t *testing.T) {
	for rule, want := range map[string]string{"Block must": "c1 c2", "Rack must": ""} {
		t.Run(rule, func(t *testing.T) {
			given := sessiontest.ClusterSpec{Nodes: tree()}
			in(t, given, after5m(100), func(t *testing.T, w *simulation) {
				for _, node := range given.Nodes {
					w.stays("on-"+node.Name, schedtest.Queue, node.Name, "2")
				}
				w.cluster.Cache().AddPodGroupV1beta1(gangNamed("g", 2, asks(rule)))
				w.add(members(schedtest.MakePod().Req(cores("4")), "g", 2)...)
				w.pass(15*time.Minute, time.Minute)
				if got := strings.Join(w.reserved(), " "); got != want {
					t.Errorf("the reserved nodes are %q, want %q: %s", got, want, w.condition("g", Reserved).Message)
				}
			})
		})
	}
}

// TestHopelessGangsDoNotKeepOthersFromTheirTrial checks that a gang gets a trial soon although many gangs that fit
// nowhere wait, because gangs with fewer failed trials come first.
func TestHopelessGangsDoNotKeepOthersFromTheirTrial(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		for i := range 10 {
			w.arrives("hopeless-"+string(rune('a'+i)), schedtest.Queue, 1, "5")
		}
		w.arrives("zbig", schedtest.Queue, 2, "4")
		w.pass(30*time.Minute, 30*time.Second)
		if got := w.reservedGangs()[schedtest.Queue]; got != "zbig" {
			t.Errorf("nodes are reserved for gang %q, want zbig", got)
		}
	})
}

// TestATenantDoesNotUseTheTurnsOfItsQueue checks that a tenant with many gangs, whose reservations all expire, does not
// keep another tenant of the queue from getting a reservation. The queue's growing pause applies in full only to the
// tenant that caused it.
func TestATenantDoesNotUseTheTurnsOfItsQueue(t *testing.T) {
	for name, arrives := range map[string]time.Duration{"waits from the first": time.Minute, "comes when the queue's pause has grown": 5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				for i := range 6 {
					gang := "evil-" + string(rune('a'+i))
					w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Namespace("evil").Name(gang).Queue(schedtest.Queue).MinMember(2).Obj())
					w.add(members(schedtest.MakePod().Namespace("evil").Req(cores("4")), gang, 2)...)
				}
				w.pass(arrives, time.Minute)
				w.arrives("big", schedtest.Queue, 2, "4")
				came := time.Now()
				for w.condition("big", Reserved).Reason != nodesReserved {
					if w.pass(time.Minute, time.Minute); time.Since(came) > 100*time.Minute {
						t.Fatalf("no nodes are reserved %s after the gang was created; reservations exist for %v", time.Since(came), w.reservedGangs())
					}
				}
			})
		})
	}
}

// TestATrialEndsBetweenMembers: all members of a tenant's gang may be of different task classes, and plugins are called
// for each class. The time limit must also end a trial between two members, not only between two nodes.
func TestATrialEndsBetweenMembers(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.session(func(ssn *sessiontest.Session) {
			s, job := w.plugin.session, ssn.Jobs[schedtest.Namespace+"/big"]
			for name, until := range map[string]time.Duration{"late": -1, "in time": time.Minute} {
				tr := &trial{ssn: s.ssn, reserved: &reservation{queue: job.Queue}, members: needed(job), until: time.Now().Add(until)}
				if err, late := tr.prepare(), until < 0; errors.Is(err, errTrialTooLong) != late || late == (len(tr.first) > 0 && tr.mayHelp(ssn.Nodes["n0"])) {
					t.Errorf("%s: prepare returned %v", name, err)
				}
			}
		})
	})
}
