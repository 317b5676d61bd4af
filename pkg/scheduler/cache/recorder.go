package cache

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/lru"
)

// rememberedEvents bounds how many (object, reason) pairs the recorder remembers the last message of.
const rememberedEvents = 1 << 16

// recorder passes on an event only when it says something new: an event with the same object, reason and message
// as the object's last one of that reason is dropped. A cycle that finds nothing changed thus writes no event.
// Evictions are told each time.
type recorder struct {
	record.EventRecorder
	mu   sync.Mutex
	last *lru.Cache
}

type eventKey struct {
	uid    types.UID
	reason string
}

func newRecorder(next record.EventRecorder) *recorder {
	return &recorder{EventRecorder: next, last: lru.New(rememberedEvents)}
}

func (r *recorder) news(object runtime.Object, reason, message string) bool {
	accessor, err := meta.Accessor(object)
	if err != nil || reason == "Evict" {
		return true
	}
	key := eventKey{accessor.GetUID(), reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last.Get(key); ok && last == message {
		return false
	}
	r.last.Add(key, message)
	return true
}

// Event records the event unless it only repeats the last one.
func (r *recorder) Event(object runtime.Object, eventType, reason, message string) {
	if r.news(object, reason, message) {
		r.EventRecorder.Event(object, eventType, reason, message)
	}
}

// Eventf is Event with a format. Upstream passes ready messages as the format, so a format without arguments is
// taken as it is.
func (r *recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...interface{}) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	r.Event(object, eventType, reason, message)
}

// AnnotatedEventf is Eventf with annotations on the event.
func (r *recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...interface{}) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	if r.news(object, reason, message) {
		r.EventRecorder.AnnotatedEventf(object, annotations, eventType, reason, "%s", message)
	}
}
