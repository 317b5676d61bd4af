// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTrialsOfAGangAreRarerEachTime checks that a gang that fits nowhere has few trials, even if no other gang waits.
func TestTrialsOfAGangAreRarerEachTime(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "5")
		trials, last := 0, time.Time{}
		for range 120 {
			time.Sleep(30 * time.Second)
			w.session()
			if at := w.plugin.reservations.tried[schedtest.Namespace]; !at.Equal(last) {
				trials, last = trials+1, at
			}
		}
		if trials < 4 || trials > 7 {
			t.Errorf("%d trials in an hour, want 4 to 7", trials)
		}
	})
}

// TestPausesAreForgotten checks that a pause is forgotten when it has been over for as long as it lasted. The next
// pause is then short again.
func TestPausesAreForgotten(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.session()
		now, pauses := time.Now(), w.plugin.reservations.pauses
		pauses["queue/old"] = &pause{length: time.Hour, until: now.Add(-61 * time.Minute)}
		pauses["queue/new"] = &pause{length: time.Hour, until: now.Add(-59 * time.Minute)}
		if w.session(); pauses["queue/old"] != nil || pauses["queue/new"] == nil {
			t.Errorf("the remaining pauses are %v, want only the pause that ended less than an hour ago", pauses)
		}
	})
}

// TestReservedNodesAreOpenToPodsOfAHigherPriority checks that only the priority of the pods counts, not that of their
// PodGroup's class. A tenant may write any class into a PodGroup.
func TestReservedNodesAreOpenToPodsOfAHigherPriority(t *testing.T) {
	for name, tt := range map[string]struct {
		class    string
		priority int32
		want     bool
	}{
		"neither":       {"", 0, false},
		"the pod":       {"", 1000, true},
		"the PodGroup":  {"high", 0, false},
		"both":          {"high", 1000, true},
		"an equal pod":  {"high", 10, false},
		"a lower class": {"", 11, true},
	} {
		t.Run(name, func(t *testing.T) {
			given := nodes(4, "4")
			given.PriorityClasses = []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 1000)}
			in(t, given, after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				w.arrives("big", schedtest.Queue, 2, "4", func(pod *v1.Pod) { pod.Spec.Priority = new(int32(10)) })
				w.untilReserved("big")
				w.remove("full-0")
				w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("new").MinMember(1).PriorityClass(tt.class).Obj())
				w.add(members(small().Priority(tt.priority), "new", 1)...)
				if w.session(); w.runs("new") != tt.want {
					t.Errorf("the gang runs: %t, want %t: %s", w.runs("new"), tt.want, w.condition("new", "Unschedulable").Message)
				}
			})
		})
	}
}

// TestAReservationHasThePriorityOfItsPods checks that a reservation gets a lower priority if pods of a lower priority
// replace pods of its gang. Pods of other gangs with a priority in between may then use the nodes.
func TestAReservationHasThePriorityOfItsPods(t *testing.T) {
	for name, tt := range map[string]struct {
		replaced int
		priority int32
		want     bool
	}{
		"the same pods":             {0, 0, false},
		"pods of a lower priority":  {2, 0, true},
		"one of a lower priority":   {1, 0, true},
		"pods of an equal priority": {2, 1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				w.arrives("big", schedtest.Queue, 2, "4", func(pod *v1.Pod) { pod.Spec.Priority = new(int32(1000)) })
				w.untilReserved("big")
				for i := range tt.replaced {
					w.remove(fmt.Sprint("big-", i))
					w.add(schedtest.MakePod().Name(fmt.Sprint("big-other-", i)).Group("big").Req(cores("4")).Priority(tt.priority).Obj())
				}
				w.session()
				w.remove("full-0")
				w.arrives("new", schedtest.Queue, 1, "1", func(pod *v1.Pod) { pod.Spec.Priority = new(int32(500)) })
				w.session()
				if len(w.reserved()) == 0 || w.runs("new") != tt.want {
					t.Errorf("the reserved nodes are %v; a pod of priority 500 runs: %t, want %t: %s", w.reserved(), w.runs("new"), tt.want, w.condition("new", "Unschedulable").Message)
				}
			})
		})
	}
}

// TestAReservationKeepsItsPriorityWhileItsPodsAreBeingBound checks that a reservation does not lose its priority while
// no pod of its gang is pending, because all are being bound.
func TestAReservationKeepsItsPriorityWhileItsPodsAreBeingBound(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4", func(pod *v1.Pod) { pod.Spec.Priority = new(int32(1000)) })
		w.untilReserved("big")
		w.session(func(ssn *sessiontest.Session) {
			job, r := ssn.Jobs["ns/big"], w.plugin.reservations.active[schedtest.Queue]
			for _, task := range job.Tasks {
				if err := job.UpdateTaskStatus(task, api.Binding); err != nil {
					t.Fatal(err)
				}
			}
			if w.plugin.session.reservations.review(r, time.Now()); r.priority != 1000 {
				t.Errorf("the reservation has priority %d, want 1000", r.priority)
			}
		})
	})
}

// TestReservedNodesAreOpenToOneOfTwoPods checks that, of pods that differ only in their priority, only the pod with a
// higher priority than the reservation may use its nodes. The pods have the same task priority, an annotation.
func TestReservedNodesAreOpenToOneOfTwoPods(t *testing.T) {
	given := nodes(4, "4")
	// The reservation's own queue would reject the low-priority pods.
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("other").Obj()}
	in(t, given, strings.Replace(after5m(50), "  - name: proportion\n", "", 1), func(t *testing.T, w *simulation) {
		for i := range 4 {
			w.stays(fmt.Sprintf("full-%d", i), "other", fmt.Sprintf("n%d", i), "4")
		}
		w.arrives("big", schedtest.Queue, 2, "4", func(pod *v1.Pod) { pod.Spec.Priority = new(int32(10)) })
		w.untilReserved("big")
		w.remove("full-0")
		for name, priority := range map[string]int32{"a-low": 0, "b-high": 1000, "c-low": 0} {
			w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue("other").MinMember(1).Obj())
			w.add(members(small().Priority(priority).Annotation("volcano.sh/task-priority", "5"), name, 1)...)
		}
		w.session()
		for name, want := range map[string]bool{"a-low": false, "b-high": true, "c-low": false} {
			if w.runs(name) != want {
				t.Errorf("%s runs: %t, want %t: %s", name, w.runs(name), want, w.condition(name, "Unschedulable").Message)
			}
		}
	})
}

// TestNodesStayReservedWhileMembersAreBeingBound checks that a reservation stays until the transaction ends, although
// other members are already bound.
func TestNodesStayReservedWhileMembersAreBeingBound(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		for _, step := range []struct {
			other api.TaskStatus
			want  int
		}{{api.Binding, 2}, {api.Bound, 0}} {
			w.session(func(ssn *sessiontest.Session) {
				job := ssn.Jobs["ns/big"]
				status := api.Bound
				for _, task := range job.Tasks {
					if err := job.UpdateTaskStatus(task, status); err != nil {
						t.Fatal(err)
					}
					status = step.other
				}
				w.plugin.session.reservations.review(w.plugin.reservations.active[schedtest.Queue], time.Now())
			})
			if got := w.reserved(); len(got) != step.want {
				t.Fatalf("with one member bound and the other %v, the reserved nodes are %v, want %d", step.other, got, step.want)
			}
		}
	})
}

// refuser is a plugin that rejects all placements of gang big, if big is the current job.
type refuser struct{ registry *framework.Registry }

func (refuser) Name() string                          { return "refuser" }
func (refuser) OnSessionClose(ssn *framework.Session) {}
func (r refuser) OnSessionOpen(ssn *framework.Session) {
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
		if e.Task.Job == "ns/big" {
			if e.Err = errors.New("no"); r.registry.CurrentJob() != "ns/big" {
				e.Err = nil // a panic here would be attributed to another gang
			}
		}
	}})
}

// TestTrialRefusedByAPluginIsReverted checks that the gang's members are pending again after a trial in which a plugin
// rejected a placement.
func TestTrialRefusedByAPluginIsReverted(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.registry.RegisterPlugin(framework.PluginSpec{Name: "refuser", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return refuser{w.registry}, nil })})
		w.reload(strings.Replace(after5m(50), "  - name: priority\n", "  - name: priority\n  - name: refuser\n", 1))
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		for range 8 {
			time.Sleep(time.Minute)
			w.session(func(ssn *sessiontest.Session) {
				if n := len(ssn.Jobs["ns/big"].TaskStatusIndex[api.Pending]); n != 2 {
					t.Errorf("%d of 2 members are pending", n)
				}
			})
		}
		if got := w.condition("big", Reserved).Reason; got != noNodesToReserve {
			t.Errorf("the gang's condition has reason %q, want that of a failed trial", got)
		}
	})
}
