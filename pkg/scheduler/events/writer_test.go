// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// eventStore is an API server for events.
type eventStore struct {
	mu     sync.Mutex
	events []*v1.Event
	tries  int
	// answer returns the error for a write, or nil to accept it.
	answer func(event *v1.Event, try int) error
	// slow is how long a write takes.
	slow time.Duration
}

func (s *eventStore) take(ctx context.Context, event *v1.Event) error {
	if !pause.For(ctx, s.slow) {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.answer != nil {
		if err := s.answer(event, s.tries); err != nil {
			return err
		}
	}
	s.events = append(s.events, event)
	return nil
}

// arrived returns the events since the last call.
func (s *eventStore) arrived() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, e := range s.events {
		list = append(list, fmt.Sprintf("%s %s x%d: %s", e.Reason, e.InvolvedObject.Name, e.Count, e.Message))
	}
	s.events = nil
	return list
}

// withEvents runs f with a recorder that writes to the store.
func withEvents(t *testing.T, f func(t *testing.T, r *Recorder, s *eventStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &eventStore{}
		w := NewWriter(s.take, "volcano", func(string) {})
		ctx, cancel := context.WithCancel(context.Background())
		w.Start(ctx)
		f(t, NewRecorder(w), s)
		cancel()
		w.Stop(context.Background())
	})
}

// settled advances the clock and waits until all due work is done.
func settled(after time.Duration) {
	time.Sleep(after)
	synctest.Wait()
}

// errNoServer is the error of a client when the API server cannot be reached.
var errNoServer = errors.New("connection refused")

// recordThousands records 5,000 events about different pods at once, as when a gang fails.
func recordThousands(r *Recorder) {
	for i := range 5_000 {
		r.Event(pod(i).Obj(), v1.EventTypeWarning, "PreBindFailed", fmt.Sprintf("not bound on n%d", i))
	}
}

// TestEveryEventArrives checks that every event arrives: 5,000 events recorded at once all arrive, once each, in
// whatever state the API server is, and no faster than the rate limit.
func TestEveryEventArrives(t *testing.T) {
	tests := map[string]struct {
		answer func(event *v1.Event, try int) error
		slow   time.Duration
		within time.Duration
	}{
		"an API server that is well": {within: 17 * time.Second},
		"one that is slow":           {slow: 20 * time.Millisecond, within: 110 * time.Second},
		"one that is away at first": {within: 10 * time.Minute, answer: func(*v1.Event, int) error {
			if time.Now().Before(time.Date(2000, 1, 1, 0, 3, 0, 0, time.UTC)) { // A synctest bubble begins in that year.
				return errNoServer
			}
			return nil
		}},
		"one that answers with errors now and then": {within: 10 * time.Minute, answer: func(_ *v1.Event, try int) error {
			if try%3 == 0 {
				return apierrors.NewInternalError(errBroken)
			}
			return nil
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
				s.answer, s.slow = tt.answer, tt.slow
				recordThousands(r)
				settled(time.Second)
				if got := len(s.events); got > eventBurst+eventsPerSecond {
					t.Errorf("%d events in the first second, want at most %d", got, eventBurst+eventsPerSecond)
				}
				recordThousands(r) // The next cycle records the events again.
				settled(tt.within - time.Second)
				distinct := map[string]bool{}
				arrived := s.arrived()
				for _, e := range arrived {
					distinct[e] = true
				}
				if len(distinct) != 5_000 || len(arrived) != 5_000 {
					t.Errorf("%d events arrived, %d of them distinct, want all 5000 once", len(arrived), len(distinct))
				}
			})
		})
	}
}

// TestALostEventIsRecordedAgain checks that a lost event is recorded again in the next cycle. An event that was
// written or rejected permanently is not.
func TestALostEventIsRecordedAgain(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errBroken)
	tests := map[string]struct {
		answer error
		// tries has the number of tries in each cycle.
		tries []int
	}{
		"written":        {tries: []int{1, 0}},
		"lost":           {answer: apierrors.NewInternalError(errBroken), tries: []int{eventTries, eventTries}},
		"rejected":       {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "e", nil), tries: []int{1, 0}},
		"forbidden":      {answer: forbidden, tries: []int{eventTries, 0}},
		"written before": {answer: apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, "e"), tries: []int{1, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
				s.answer = func(*v1.Event, int) error { return tt.answer }
				var tries []int
				for range tt.tries {
					before := s.tries
					r.Event(pod(0).Obj(), v1.EventTypeWarning, "Unschedulable", "no room")
					settled(time.Minute)
					tries = append(tries, s.tries-before)
				}
				if diff := cmp.Diff(tt.tries, tries); diff != "" {
					t.Errorf("tries of each event (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnExpiredEventIsRecordedAgain checks that an expired event is recorded again, since the API server drops an
// event after its lifetime.
func TestAnExpiredEventIsRecordedAgain(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		var counts []int
		for range 5 { // one cycle every half an hour
			r.Event(pod(0).Obj(), v1.EventTypeWarning, "Unschedulable", "no room")
			settled(Lifetime / 2)
			counts = append(counts, len(s.arrived()))
		}
		if diff := cmp.Diff([]int{1, 0, 1, 0, 1}, counts); diff != "" {
			t.Errorf("events of each half hour (-want +got):\n%s", diff)
		}
	})
}

// TestOneObjectMakesNoStorm checks that an object whose message changes in each cycle gets an event only from time to
// time, with the latest message.
func TestOneObjectMakesNoStorm(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		for i := range 600 { // one cycle every second
			r.Event(pod(0).Obj(), v1.EventTypeWarning, "Unschedulable", fmt.Sprintf("no room %d", i))
			settled(time.Second)
		}
		r.Event(pod(1).Obj(), v1.EventTypeWarning, "Unschedulable", "no room for another")
		settled(time.Second)
		arrived := s.arrived()
		want := objectBurst + int(600*time.Second/objectRefill)
		if len(arrived) != want+1 && len(arrived) != want {
			t.Errorf("%d events arrived, want %d and that of another object", len(arrived), want)
		}
		if diff := cmp.Diff("Unschedulable p1 x1: no room for another", arrived[len(arrived)-1]); diff != "" {
			t.Errorf("last event (-want +got):\n%s", diff)
		}
	})
}

// TestObjectsWithoutUIDDifferByName checks that objects without a UID differ by name, because some callers know only
// the name.
func TestObjectsWithoutUIDDifferByName(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		for i := range 2 * objectBurst {
			lease := &v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "ns", Name: fmt.Sprint(i)}
			r.Event(lease, v1.EventTypeWarning, "ConfigRejected", "not valid")
		}
		settled(time.Second)
		if got := len(s.arrived()); got != 2*objectBurst {
			t.Errorf("%d events arrived, want one of each of %d objects", got, 2*objectBurst)
		}
	})
}

// TestEvictionsOfAGangAreCounted checks that evictions of a gang are counted in one event: each eviction records the
// same message on the PodGroup, whatever its version.
func TestEvictionsOfAGangAreCounted(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		s.slow = time.Second
		group := schedtest.MakePodGroup().Name("g").Obj()
		for i := range 12 {
			group.ResourceVersion = fmt.Sprint(i)
			r.Eventf(group, v1.EventTypeNormal, "Evict", "preempted")
			synctest.Wait()
		}
		settled(10 * time.Second)
		if diff := cmp.Diff([]string{"Evict g x1: preempted", "Evict g x11: preempted"}, s.arrived()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestEventsOfOneMomentAreSeveral checks that events of the same moment are separate events with different names, and
// that each caller of an event that is recorded twice gets a result.
func TestEventsOfOneMomentAreSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &eventStore{}
		w := NewWriter(s.take, "volcano", func(string) {})
		answers := 0
		for _, message := range []string{"no room", "no node", "no room"} {
			w.Send(Notice{Object: pod(0).Obj(), Type: v1.EventTypeWarning, Reason: "FailedScheduling", Message: message}, func(there bool) {
				if there {
					answers++
				}
			})
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.Start(ctx)
		settled(time.Second)
		names := map[string]bool{}
		for _, e := range s.events {
			names[e.Name] = true
		}
		if len(names) != 2 || answers != 3 {
			t.Errorf("%d events with %d names were written, and %d of 3 reports answered, want 2 with a name each, and all", len(s.events), len(names), answers)
		}
		cancel()
		w.Stop(context.Background())
	})
}

// TestNamespaceDoesNotHoldUpOthers checks that a namespace does not delay others, neither by many events nor by a
// webhook that makes its events hang.
func TestNamespaceDoesNotHoldUpOthers(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		hang := make(chan struct{})
		s.answer = func(event *v1.Event, _ int) error {
			if event.Namespace == "hanging" {
				s.mu.Unlock()
				<-hang
				s.mu.Lock()
			}
			return nil
		}
		recordThousands(r)
		for i := range 20 {
			r.Event(pod(i).Namespace("hanging").Obj(), v1.EventTypeWarning, "Unschedulable", "no room")
		}
		r.Event(pod(0).Namespace("other").Obj(), v1.EventTypeWarning, "Unschedulable", "no room for the other")
		settled(time.Second)
		found := false
		for _, e := range s.arrived() {
			found = found || strings.HasSuffix(e, "no room for the other")
		}
		if !found {
			t.Error("the event of another namespace waits for those of the first")
		}
		settled(time.Minute)
		if got := len(s.arrived()); got < 5_000-eventBurst-eventsPerSecond {
			t.Errorf("%d events arrived after that, want those of the well namespace", got)
		}
		close(hang)
	})
}

// TestEventIsNeverRejectedForItsForm checks that an event is never rejected for its form: names of any length, texts
// of any size and with any bytes.
func TestEventIsNeverRejectedForItsForm(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		r.Event(pod(0).Name(strings.Repeat("n", 253)).Obj(), v1.EventTypeWarning, strings.Repeat("R", 5_000), strings.Repeat("\xff100%", 400_000))
		settled(time.Second)
		if len(s.events) != 1 {
			t.Fatalf("%d events arrived", len(s.events))
		}
		e := s.events[0]
		if len(e.Name) > 253 || len(e.Reason) > 128 || len(e.Message) > 1024 || strings.ToValidUTF8(e.Message, "") != e.Message {
			t.Errorf("name of %d bytes, reason of %d, message of %d: %q", len(e.Name), len(e.Reason), len(e.Message), e.Message)
		}
	})
}

// TestStopWritesWhatWaits checks that Stop writes the events that wait, as far as the grace period allows, such as
// the reason why the shutdown rolled back a gang. The next leader does not wait longer.
func TestStopWritesWhatWaits(t *testing.T) {
	tests := map[string]struct {
		slow time.Duration
		took time.Duration
		// written is the number of events written, of ten.
		written int
	}{
		"an API server that is well": {slow: 100 * time.Millisecond, took: time.Second, written: 10},
		"one that is slow":           {slow: 900 * time.Millisecond, took: eventGrace, written: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &eventStore{slow: tt.slow}
				w := NewWriter(s.take, "volcano", func(string) {})
				ctx, cancel := context.WithCancel(context.Background())
				w.Start(ctx)
				r := NewRecorder(w)
				for i := range 10 {
					r.Event(pod(i).Obj(), v1.EventTypeWarning, "PreBindFailed", "shutdown")
				}
				begin := time.Now()
				w.Stop(ctx)
				if took := time.Since(begin); took != tt.took {
					t.Errorf("stop took %v, want %v", took, tt.took)
				}
				if got := len(s.arrived()); got != tt.written {
					t.Errorf("%d of 10 events were written, want %d", got, tt.written)
				}
				cancel() // The process ends.
				synctest.Wait()
				r.Event(pod(11).Obj(), v1.EventTypeWarning, "PreBindFailed", "too late")
				settled(time.Minute)
				if got := len(s.arrived()); got != 0 {
					t.Errorf("%d events after the end", got)
				}
			})
		})
	}
}

// TestMailboxIsBounded checks that the mailbox is bounded: a full mailbox has room only for namespaces that use less
// than their share.
func TestMailboxIsBounded(t *testing.T) {
	box := newMailbox(10)
	post := func(namespace string, i int) bool {
		return box.post(&queuedEvent{about: v1.ObjectReference{Namespace: namespace}, message: fmt.Sprint(i)})
	}
	taken := map[string]int{}
	for _, namespace := range []string{"a", "b", "c"} {
		for i := range 100 {
			if post(namespace, i) {
				taken[namespace]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 5, "c": 3}, taken); diff != "" {
		t.Errorf("letters taken (-want +got):\n%s", diff)
	}
}
