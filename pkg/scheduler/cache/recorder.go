// SPDX-License-Identifier: Apache-2.0

package cache

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

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// rememberedEvents bounds how many (object, reason) pairs the recorder remembers the last message of.
	rememberedEvents = 1 << 16
	// eventLifetime is how long the API server keeps an event, unless its --event-ttl says otherwise. What still holds
	// after that is told once more.
	eventLifetime = time.Hour
	// mostOfReason bounds an event's reason, in bytes.
	mostOfReason = 128
)

// recorder passes on an event only when it says something new: an event with the same object, reason and message
// as the object's last one of that reason is dropped, as long as that one is on its way or can be read. A cycle that finds
// nothing changed thus writes no event, and one that finds what was lost on its way tells it again. Evictions are told each
// time. Messages are bounded.
type recorder struct {
	out outlet

	mu   sync.Mutex
	last *lru.Cache
}

// outlet takes events to those who read them.
type outlet interface {
	// send takes the event along and does not wait. It calls done once, maybe before it returns: there is false when the
	// event was lost and another try may fare better.
	send(e notice, done func(there bool))
}

// notice is an event as it is told.
type notice struct {
	object                     runtime.Object
	annotations                map[string]string
	eventType, reason, message string
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

var _ record.EventRecorder = (*recorder)(nil)

func newRecorder(out outlet) *recorder {
	return &recorder{out: out, last: lru.New(rememberedEvents)}
}

func (r *recorder) tell(e notice) {
	e.reason, e.message = brief.Cut(e.reason, mostOfReason), brief.Text(e.message)
	accessor, err := meta.Accessor(e.object)
	if err != nil || e.reason == "Evict" {
		r.out.send(e, func(bool) {})
		return
	}
	key := eventKey{accessor.GetUID(), e.eventType, e.reason}
	message := digest(e.message)
	if !r.isNews(key, message) {
		return
	}
	r.out.send(e, func(there bool) { r.settle(key, message, there) })
}

// isNews says whether the message is not what was told last, and takes it for told from now on.
func (r *recorder) isNews(key eventKey, message uint64) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last.Get(key); ok {
		if last := last.(telling); last.message == message && now.Sub(last.at) < eventLifetime {
			return false
		}
	}
	r.last.Add(key, telling{message, now})
	return true
}

// settle notes what became of an event, unless a newer one has taken its place.
func (r *recorder) settle(key eventKey, message uint64, there bool) {
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

// again records the event unless it can still be read, or something else has been told since.
func (r *recorder) again(object metav1.Object, e notice) {
	r.mu.Lock()
	last, ok := r.last.Get(eventKey{object.GetUID(), e.eventType, e.reason})
	r.mu.Unlock()
	if !ok || last.(telling).message == digest(brief.Text(e.message)) {
		r.tell(e)
	}
}

// Event records the event unless it only repeats the last one.
func (r *recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.tell(notice{object: object, eventType: eventType, reason: reason, message: message})
}

// Eventf is Event with a format. Upstream passes ready messages as the format, so a format without arguments is
// taken as it is.
func (r *recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf is Eventf with annotations on the event.
func (r *recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	r.tell(notice{object: object, annotations: annotations, eventType: eventType, reason: reason, message: message})
}

// direct is the outlet to a recorder that loses nothing, such as one in memory.
type direct struct{ record.EventRecorder }

func (d direct) send(e notice, done func(there bool)) {
	d.AnnotatedEventf(e.object, e.annotations, e.eventType, e.reason, "%s", e.message)
	done(true)
}
