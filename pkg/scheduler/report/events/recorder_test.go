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
	var r record.EventRecorder = NewRecorder(out)
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

// TestEventsAreRecordedAgain checks when an event with the last message of its object and reason is recorded again.
func TestEventsAreRecordedAgain(t *testing.T) {
	const noRoom, noNode = "Warning FailedScheduling p0: no room", "Warning FailedScheduling p0: no node"
	tests := map[string]struct {
		story func(record, again func(message string))
		want  []string
	}{
		"while it exists": {
			story: func(record, again func(string)) {
				record("no room")
				time.Sleep(Lifetime - time.Second)
				record("no room")
				again("no room")
			},
			want: []string{noRoom},
		},
		"after it has expired": {
			story: func(record, again func(string)) {
				record("no room")
				time.Sleep(Lifetime + time.Second)
				record("no room")
				time.Sleep(Lifetime + time.Second)
				again("no room")
				again("no room")
			},
			want: []string{noRoom, noRoom, noRoom},
		},
		"after another one": {
			story: func(record, again func(string)) {
				record("no room")
				record("no node")
				again("no room")
				record("no room")
			},
			want: []string{noRoom, noNode, noRoom},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &schedtest.Events{}
				r, p := NewRecorder(out), pod(0).Obj()
				tt.story(func(message string) {
					r.Event(p, v1.EventTypeWarning, "FailedScheduling", message)
				}, func(message string) {
					r.Again(p, v1.EventTypeWarning, "FailedScheduling", message)
				})
				if diff := cmp.Diff(tt.want, out.Take()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
