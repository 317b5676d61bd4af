// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTrialsOfAGangAreRarerEachTime: a gang that fits nowhere has few of them, also where no other gang waits.
func TestTrialsOfAGangAreRarerEachTime(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.full()
		w.arrives("big", schedtest.Queue, 1, "5")
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

// TestPausesAreForgotten when they have been over for as long as they took: the next one is short again.
func TestPausesAreForgotten(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.session()
		now, pauses := time.Now(), w.plugin.reservations.pauses
		pauses["queue/old"] = &pause{length: time.Hour, until: now.Add(-61 * time.Minute)}
		pauses["queue/new"] = &pause{length: time.Hour, until: now.Add(-59 * time.Minute)}
		if w.session(); pauses["queue/old"] != nil || pauses["queue/new"] == nil {
			t.Errorf("the pauses that are known are %v, want the one that is over for less than an hour", pauses)
		}
	})
}

// TestReservedNodesAreOpenToGangsOfAHigherPriority, by the class of their PodGroup, whatever their pods have.
func TestReservedNodesAreOpenToGangsOfAHigherPriority(t *testing.T) {
	for class, want := range map[string]bool{"high": true, "": false} {
		given := nodes(4, "4")
		given.PriorityClasses = []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 1000)}
		in(t, given, after5m(50), func(t *testing.T, w *world) {
			w.full()
			w.arrives("big", schedtest.Queue, 2, "4")
			w.untilReserved("big")
			w.remove("full-0")
			w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("new").MinMember(1).PriorityClass(class).Obj())
			w.add(members(small(), "new", 1)...)
			if w.session(); w.runs("new") != want {
				t.Errorf("with class %q it runs: %t, want %t: %s", class, w.runs("new"), want, w.condition("new", "Unschedulable").Message)
			}
		})
	}
}

// refuser is a plugin that refuses to reserve for members of gang big.
// refuser refuses the gang big any room, in its turn.
type refuser struct{ registry *framework.Registry }

func (refuser) Name() string                          { return "refuser" }
func (refuser) OnSessionClose(ssn *framework.Session) {}
func (r refuser) OnSessionOpen(ssn *framework.Session) {
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
		if e.Task.Job == "ns/big" {
			if e.Err = errors.New("no"); r.registry.CurrentJob() != "ns/big" {
				e.Err = nil // a panic here would be another gang's
			}
		}
	}})
}

// TestATrialThatAPluginRefusesIsTakenBack: its members wait as before.
func TestATrialThatAPluginRefusesIsTakenBack(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *world) {
		w.registry.RegisterPlugin(framework.PluginSpec{Name: "refuser", New: func(framework.Arguments, framework.Handle) (framework.Plugin, error) { return refuser{w.registry}, nil }})
		w.reload(strings.Replace(after5m(50), "  - name: priority\n", "  - name: priority\n  - name: refuser\n", 1))
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		for range 8 {
			time.Sleep(time.Minute)
			w.session(func(ssn *sessiontest.Session) {
				if n := len(ssn.Jobs["ns/big"].TaskStatusIndex[api.Pending]); n != 2 {
					t.Errorf("%d of 2 members wait", n)
				}
			})
		}
		if got := w.condition("big", Reserved).Reason; got != noNodesToReserve {
			t.Errorf("its condition is %q, want that a trial has failed", got)
		}
	})
}
