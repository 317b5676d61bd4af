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
	// rememberedEvents bounds how many (object, reason) pairs the recorder remembers the last message of.
	rememberedEvents = 1 << 16
	// Lifetime is how long the API server keeps an event, unless its --event-ttl says otherwise. What still holds
	// after that is told once more.
	Lifetime = time.Hour
	// mostOfReason bounds an event's reason, in bytes.
	mostOfReason = 128
)

// Recorder passes on an event only when it says something new: an event with the same object, reason and message
// as the object's last one of that reason is dropped, as long as that one is on its way or can be read. A cycle that finds
// nothing changed thus writes no event, and one that finds what was lost on its way tells it again. Evictions are told each
// time. Messages are bounded.
type Recorder struct {
	out Outlet

	mu   sync.Mutex
	last *lru.Cache
}

// Outlet takes events to those who read them.
type Outlet interface {
	// Send takes the event along and does not wait. It calls done once, maybe before it returns: there is false when the
	// event was lost and another try may fare better.
	Send(e Notice, done func(there bool))
}

// Notice is an event as it is told.
type Notice struct {
	Object                runtime.Object
	Annotations           map[string]string
	Type, Reason, Message string
}

// Object is what events are about.
type Object interface {
	metav1.Object
	runtime.Object
}

// eventKey tells events apart. Of one reason a plugin has a normal event, and the verdict on the gang a warning.
type eventKey struct {
	uid               types.UID
	eventType, reason string
}

// telling is what was told last; its message is kept as a digest.
type telling struct {
	message uint64
	at      time.Time
}

var _ record.EventRecorder = (*Recorder)(nil)

// NewRecorder makes a recorder that has told nothing yet.
func NewRecorder(out Outlet) *Recorder {
	return &Recorder{out: out, last: lru.New(rememberedEvents)}
}

func (r *Recorder) tell(e Notice) {
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
	r.out.Send(e, func(there bool) { r.settle(key, message, there) })
}

// isNews is true if the message is not what was told last, and takes it for told from now on.
func (r *Recorder) isNews(key eventKey, message uint64) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last.Get(key); ok {
		if last := last.(telling); last.message == message && now.Sub(last.at) < Lifetime {
			return false
		}
	}
	r.last.Add(key, telling{message, now})
	return true
}

// settle notes what became of an event, unless a newer one has taken its place.
func (r *Recorder) settle(key eventKey, message uint64, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last.Get(key); !ok || last.(telling).message != message {
		return
	}
	if there {
		r.last.Add(key, telling{message, time.Now()})
	} else {
		r.last.Remove(key)
	}
}

// Again records the event unless it can still be read, or something else has been told since.
func (r *Recorder) Again(object Object, eventType, reason, message string) {
	r.mu.Lock()
	last, ok := r.last.Get(eventKey{object.GetUID(), eventType, reason})
	r.mu.Unlock()
	if !ok || last.(telling).message == apiwrite.Digest(brief.Text(message)) {
		r.Event(object, eventType, reason, message)
	}
}

// Event records the event unless it only repeats the last one.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.tell(Notice{Object: object, Type: eventType, Reason: reason, Message: message})
}

// Eventf is Event with a format. Upstream passes ready messages as the format, so a format without arguments is
// taken as it is.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf is Eventf with annotations on the event.
func (r *Recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	r.tell(Notice{Object: object, Annotations: annotations, Type: eventType, Reason: reason, Message: message})
}

// Direct is the outlet to a recorder that loses nothing, such as one in memory.
type Direct struct{ record.EventRecorder }

// Send records the event at once.
func (d Direct) Send(e Notice, done func(there bool)) {
	d.AnnotatedEventf(e.Object, e.Annotations, e.Type, e.Reason, "%s", e.Message)
	done(true)
}
