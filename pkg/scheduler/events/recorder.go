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
	// rememberedEvents bounds how many last messages, by object and reason, the recorder keeps.
	rememberedEvents = 1 << 16
	// Lifetime is how long the API server keeps an event, unless its --event-ttl says otherwise. After that an event whose
	// cause persists is recorded again.
	Lifetime = time.Hour
	// mostOfReason bounds an event's reason, in bytes.
	mostOfReason = 128
)

// Recorder passes on only new events. It drops an event that has the same object, reason and message as the last one of
// that object and reason, as long as that one is being written or can still be read. So a cycle that finds nothing
// changed writes no event, and a cycle that finds the cause of a lost event records it again. Evictions are always
// recorded. Messages are bounded.
type Recorder struct {
	out Outlet

	mu   sync.Mutex
	last *lru.Cache
}

// Outlet delivers events.
type Outlet interface {
	// Send accepts the event without blocking. It calls done once, possibly before it returns. done gets false if the
	// event was lost and a retry may succeed.
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

// eventKey identifies the events of an object that replace each other. The type is part of it, because for one reason a
// plugin may record a normal event, and the gang's verdict a warning.
type eventKey struct {
	uid               types.UID
	eventType, reason string
}

// lastEvent is the last event of a key. Its message is stored as a digest.
type lastEvent struct {
	message uint64
	at      time.Time
}

var _ record.EventRecorder = (*Recorder)(nil)

// NewRecorder returns a recorder that has no last events.
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

// isNews reports whether the message differs from the last message of the key, or that one is older than Lifetime. It then
// records the message as the last.
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

// recordDelivery records whether an event was delivered, unless a newer one has replaced it.
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

// Again records the event unless it can still be read, or a different message was recorded since.
func (r *Recorder) Again(object Object, eventType, reason, message string) {
	r.mu.Lock()
	last, ok := r.last.Get(eventKey{object.GetUID(), eventType, reason})
	r.mu.Unlock()
	if !ok || last.(lastEvent).message == apiwrite.Digest(brief.Text(message)) {
		r.Event(object, eventType, reason, message)
	}
}

// Event records the event unless it only repeats the last one.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.record(Notice{Object: object, Type: eventType, Reason: reason, Message: message})
}

// Eventf is Event with a format. Upstream passes complete messages as the format, so a format without arguments is used
// unchanged.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf is Eventf with annotations on the event.
func (r *Recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	r.record(Notice{Object: object, Annotations: annotations, Type: eventType, Reason: reason, Message: message})
}

// Direct records events at once with the embedded recorder, without a queue or retries. It is for recorders that never lose
// an event, such as one in memory.
type Direct struct{ record.EventRecorder }

// Send records the event at once.
func (d Direct) Send(e Notice, done func(there bool)) {
	d.AnnotatedEventf(e.Object, e.Annotations, e.Type, e.Reason, "%s", e.Message)
	done(true)
}
