// SPDX-License-Identifier: Apache-2.0

package events

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var errBroken = errors.New("it is broken")

func pod(i int) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g")
}

func TestRecorderDropsRepetitions(t *testing.T) {
	out := &schedtest.Events{}
	var r record.EventRecorder = NewRecorder(Direct{out})
	a, b := pod(0).Obj(), pod(1).Obj()
	for range 2 {
		r.Event(a, v1.EventTypeWarning, "Unschedulable", "no room, 100% taken")
		r.Eventf(a, v1.EventTypeWarning, "Unschedulable", "no room, 100% taken")
		r.Eventf(b, v1.EventTypeWarning, "Unschedulable", "no room on %d nodes", 3)
		r.AnnotatedEventf(b, nil, v1.EventTypeWarning, "Other", "no room on %d nodes", 3)
		r.Event(a, v1.EventTypeWarning, "Evict", "preempted")
	}
	r.Event(a, v1.EventTypeWarning, "Unschedulable", "no room at all")
	want := []string{
		"Warning Unschedulable p0: no room, 100% taken",
		"Warning Unschedulable p1: no room on 3 nodes",
		"Warning Other p1: no room on 3 nodes",
		"Warning Evict p0: preempted",
		"Warning Evict p0: preempted",
		"Warning Unschedulable p0: no room at all",
	}
	if diff := cmp.Diff(want, out.Take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// slowOutlet keeps notices until the test reports their results.
type slowOutlet struct {
	messages []string
	done     []func(there bool)
}

func (o *slowOutlet) Send(e Notice, done func(there bool)) {
	o.messages, o.done = append(o.messages, e.Message), append(o.done, done)
}

// TestResultsOfEventsArriveLater checks which events are passed on if the result of an event arrives after the object
// has another event, or after some time.
func TestResultsOfEventsArriveLater(t *testing.T) {
	tests := map[string]struct {
		story func(tell func(message string), again func(message string), o *slowOutlet)
		want  []string
	}{
		"it is lost, and a newer one is not": {
			story: func(tell, _ func(string), o *slowOutlet) {
				tell("no room")
				tell("no node")
				o.done[0](false)
				tell("no node")
			},
			want: []string{"no room", "no node"},
		},
		"it is read for its lifetime from when it was written": {
			story: func(tell, _ func(string), o *slowOutlet) {
				tell("no room")
				time.Sleep(Lifetime / 2)
				o.done[0](true)
				time.Sleep(Lifetime - time.Second)
				tell("no room")
			},
			want: []string{"no room"},
		},
		"it is lost, and recorded again for pods that wait": {
			story: func(tell, again func(string), o *slowOutlet) {
				tell("no room")
				o.done[0](false)
				again("no room")
				again("no room")
			},
			want: []string{"no room", "no room"},
		},
		"it is not recorded again when another was recorded since": {
			story: func(tell, again func(string), _ *slowOutlet) {
				tell("no room")
				tell("no node")
				again("no room")
			},
			want: []string{"no room", "no node"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &slowOutlet{}
				r := NewRecorder(o)
				p := pod(0).Obj()
				tt.story(func(message string) {
					r.Event(p, v1.EventTypeWarning, "FailedScheduling", message)
				}, func(message string) {
					r.Again(p, v1.EventTypeWarning, "FailedScheduling", message)
				}, o)
				if diff := cmp.Diff(tt.want, o.messages); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
