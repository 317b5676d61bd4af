// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"encoding/json"
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
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// eventStore is an API server for events.
type eventStore struct {
	corev1.EventInterface
	mu     sync.Mutex
	events []*v1.Event
	// results has, by result, how many events the writer has reported.
	results map[string]int
	// answer returns the error for a write, or nil to accept it.
	answer func(event *v1.Event) error
	// slow is how long a write takes.
	slow time.Duration
}

// CreateWithEventNamespaceWithContext stores the event.
func (s *eventStore) CreateWithEventNamespaceWithContext(ctx context.Context, event *v1.Event) (*v1.Event, error) {
	if !pause.For(ctx, s.slow) {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		if err := s.answer(event); err != nil {
			return nil, err
		}
	}
	s.events = append(s.events, event)
	return event, nil
}

// PatchWithEventNamespaceWithContext updates the event's count and message if the event exists.
func (s *eventStore) PatchWithEventNamespaceWithContext(_ context.Context, event *v1.Event, patch []byte) (*v1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Name == event.Name {
			return e, json.Unmarshal(patch, e)
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, event.Name)
}

// arrived returns the events in the store, which forgets them as if they had expired.
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

func (s *eventStore) observe(result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[result]++
}

// withEvents runs f with a recorder that writes to the store.
func withEvents(t *testing.T, f func(t *testing.T, r *Recorder, s *eventStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &eventStore{results: map[string]int{}}
		w := NewWriter(s, "volcano", s.observe)
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

// TestEventsArrive checks how many of 5,000 events that are recorded at once arrive, once each, and that the results of
// all are counted.
func TestEventsArrive(t *testing.T) {
	away := func(during time.Duration) func(*v1.Event) error {
		up := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(during) // A synctest bubble begins in that year.
		return func(*v1.Event) error {
			if time.Now().Before(up) {
				return errNoServer
			}
			return nil
		}
	}
	rejected := func(*v1.Event) error { return apierrors.NewInternalError(errBroken) }
	tests := map[string]struct {
		answer func(event *v1.Event) error
		slow   time.Duration
		within time.Duration
		want   map[string]int
	}{
		"an API server that is well":     {within: time.Second, want: map[string]int{"written": 5_000}},
		"one that is slow":               {slow: 20 * time.Millisecond, within: 13 * time.Second, want: map[string]int{"written": 5_000}},
		"one that is away for a minute":  {answer: away(time.Minute), within: 61 * time.Second, want: map[string]int{"written": 5_000}},
		"one that is away for 3 minutes": {answer: away(3 * time.Minute), within: 182 * time.Second, want: map[string]int{"written": 5_000 - workers, "dropped": workers}},
		"one that rejects all":           {answer: rejected, within: time.Second, want: map[string]int{"rejected": 5_000}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
				s.answer, s.slow = tt.answer, tt.slow
				recordThousands(r)
				recordThousands(r) // The next cycle records the events again.
				settled(tt.within)
				distinct := map[string]bool{}
				arrived := s.arrived()
				for _, e := range arrived {
					distinct[e] = true
				}
				if want := tt.want["written"]; len(distinct) != want || len(arrived) != want {
					t.Errorf("%d events arrived, %d of them distinct, want %d once", len(arrived), len(distinct), want)
				}
				if diff := cmp.Diff(tt.want, s.results); diff != "" {
					t.Errorf("results (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnEventThatExistsIsWritten checks that an event counts as written that an earlier try stored without an answer.
func TestAnEventThatExistsIsWritten(t *testing.T) {
	withEvents(t, func(t *testing.T, r *Recorder, s *eventStore) {
		var names []string
		s.answer = func(event *v1.Event) error {
			if names = append(names, event.Name); len(names) == 1 {
				return errNoServer
			}
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, event.Name)
		}
		r.Event(pod(0).Obj(), v1.EventTypeWarning, "Unschedulable", "no room")
		settled(time.Minute)
		if len(names) != 2 || names[0] != names[1] {
			t.Errorf("tries wrote the events %q, want one event twice", names)
		}
		if diff := cmp.Diff(map[string]int{"written": 1}, s.results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
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
		if diff := cmp.Diff("Unschedulable p1 x1: no room for another", arrived[len(arrived)-1]); diff != "" {
			t.Errorf("last event (-want +got):\n%s", diff)
		}
		if last := arrived[len(arrived)-2]; !strings.Contains(last, "(combined from similar events): no room 5") {
			t.Errorf("last event of the object is %q, want one of the last messages", last)
		}
		if diff := cmp.Diff(map[string]int{"written": objectBurst + 9 + 1, "dropped": 600 - objectBurst - 9}, s.results); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
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
		group := schedtest.MakePodGroup().Name("g").Obj()
		for i := range 12 {
			group.ResourceVersion = fmt.Sprint(i)
			r.Eventf(group, v1.EventTypeNormal, "Evict", "preempted")
			settled(time.Millisecond)
		}
		if diff := cmp.Diff([]string{"Evict g x12: preempted"}, s.arrived()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		r.Eventf(group, v1.EventTypeNormal, "Evict", "preempted")
		settled(time.Millisecond)
		if diff := cmp.Diff([]string{"Evict g x13: preempted"}, s.arrived()); diff != "" {
			t.Errorf("events after the first has expired (-want +got):\n%s", diff)
		}
	})
}

// TestNamespaceLeavesRoomForOthers checks that the events of one namespace do not fill the queue.
func TestNamespaceLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &eventStore{results: map[string]int{}}
		w := NewWriter(s, "volcano", s.observe)
		for _, namespace := range []string{"a", "b", "c", "d", "e"} {
			for range waitingOfNamespace + 1 {
				w.enqueue(&v1.Event{ObjectMeta: pod(0).Namespace(namespace).Obj().ObjectMeta})
			}
		}
		want := map[string]int{"a": waitingOfNamespace, "b": waitingOfNamespace, "c": waitingOfNamespace, "d": waitingOfNamespace}
		if diff := cmp.Diff(want, w.waiting); diff != "" {
			t.Errorf("waiting events (-want +got):\n%s", diff)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.Start(ctx)
		w.Stop(t.Context())
		if len(w.waiting) != 0 {
			t.Errorf("%v events wait after the end", w.waiting)
		}
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
		"an API server that is well": {slow: 100 * time.Millisecond, took: 200 * time.Millisecond, written: 10},
		"one that is slow":           {slow: 1100 * time.Millisecond, took: stopGrace, written: workers},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &eventStore{slow: tt.slow, results: map[string]int{}}
				w := NewWriter(s, "volcano", s.observe)
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
