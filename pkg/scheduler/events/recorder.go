// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/lru"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// rememberedEvents limits for how many combinations of object and reason the recorder keeps the last message.
	rememberedEvents = 1 << 16
	// Lifetime is how long the API server keeps an event by default (flag --event-ttl). After this time the recorder
	// accepts an equal event again.
	Lifetime = time.Hour
	// mostOfReason limits the length of an event's reason, in bytes.
	mostOfReason = 128
)

// Recorder passes on only new events. It drops an event whose message equals the last message of the same object, type
// and reason, if that last event is being written or can still be read. So a cycle without changes writes no event. A
// cycle that finds the cause of a lost event again records the event again. Evictions are always recorded. The lengths
// of messages are limited.
type Recorder struct {
	out Outlet

	mu   sync.Mutex
	last *lru.Cache
}

// Outlet delivers the events that a Recorder passes on.
type Outlet interface {
	// Send accepts the event without blocking. It calls done once, possibly before it returns. The argument of done is
	// false if the event was lost and a retry may succeed; otherwise it is true.
	Send(e Notice, done func(there bool))
}

// Notice is an event to be recorded.
type Notice struct {
	Object                runtime.Object
	Annotations           map[string]string
	Type, Reason, Message string
}

// Object is the object that events are about.
type Object interface {
	metav1.Object
	runtime.Object
}

// eventKey identifies the events of an object that replace each other. The type is a part of the key, because two
// events of different types may have the same reason: a normal event of a plugin, and a warning about the gang.
type eventKey struct {
	uid               types.UID
	eventType, reason string
}

// lastEvent describes the last event that was recorded for an eventKey. message is a digest of the event's message.
type lastEvent struct {
	message uint64
	at      time.Time
}

var _ record.EventRecorder = (*Recorder)(nil)

// NewRecorder returns a recorder that has recorded no events yet. It passes events to out.
func NewRecorder(out Outlet) *Recorder {
	return &Recorder{out: out, last: lru.New(rememberedEvents)}
}

func (r *Recorder) record(e Notice) {
	e.Reason, e.Message = brief.Cut(e.Reason, mostOfReason), brief.Text(e.Message)
	accessor, err := meta.Accessor(e.Object)
	if err != nil || e.Reason == "Evict" {
		r.out.Send(e, func(bool) {})
		return
	}
	key := eventKey{accessor.GetUID(), e.Type, e.Reason}
	message := apiwrite.Digest(e.Message)
	if !r.isNews(key, message) {
		return
	}
	r.out.Send(e, func(there bool) { r.recordDelivery(key, message, there) })
}

// isNews reports whether an event with this key (object, type and reason) is new: its message differs from the last
// message of the key, or the last message is older than Lifetime. If so, isNews records the message as the last one.
func (r *Recorder) isNews(key eventKey, message uint64) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last.Get(key); ok {
		if last := last.(lastEvent); last.message == message && now.Sub(last.at) < Lifetime {
			return false
		}
	}
	r.last.Add(key, lastEvent{message, now})
	return true
}

// recordDelivery records whether the event with this message was delivered (`there` is true) or lost. It does nothing
// if a newer event of the same object, type and reason has replaced the event.
func (r *Recorder) recordDelivery(key eventKey, message uint64, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last.Get(key); !ok || last.(lastEvent).message != message {
		return
	}
	if there {
		r.last.Add(key, lastEvent{message, time.Now()})
	} else {
		r.last.Remove(key)
	}
}

// Again records the event, unless an equal event was recorded before and can still be read. It does nothing if a
// different message was recorded last for the same object, type and reason.
func (r *Recorder) Again(object Object, eventType, reason, message string) {
	r.mu.Lock()
	last, ok := r.last.Get(eventKey{object.GetUID(), eventType, reason})
	r.mu.Unlock()
	if !ok || last.(lastEvent).message == apiwrite.Digest(brief.Text(message)) {
		r.Event(object, eventType, reason, message)
	}
}

// Event records the event, unless the event only repeats the last event of the object with the same reason.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.record(Notice{Object: object, Type: eventType, Reason: reason, Message: message})
}

// Eventf does the same as Event, with a format. A format without arguments is used unchanged, because upstream passes
// complete messages as the format.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf does the same as Eventf, and adds annotations to the event.
func (r *Recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	r.record(Notice{Object: object, Annotations: annotations, Type: eventType, Reason: reason, Message: message})
}

// Direct is an outlet that records events at once with the embedded recorder, without a queue or retries. The embedded
// recorder must never lose an event, for example because it records in memory.
type Direct struct{ record.EventRecorder }

// Send records the event at once with the embedded recorder.
func (d Direct) Send(e Notice, done func(there bool)) {
	d.AnnotatedEventf(e.Object, e.Annotations, e.Type, e.Reason, "%s", e.Message)
	done(true)
}
