// SPDX-License-Identifier: Apache-2.0

// Package events records events outside the session loop.
//
// A Recorder drops an event that would only repeat the last event of an object. The Writer writes the other events to
// the API server, with client-go's correlator. Events may be lost under load, and are counted then: conditions say the
// same, and are never lost.
package events

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// rememberedEvents limits for how many combinations of object, type and reason the recorder keeps the last message.
	rememberedEvents = 1 << 16
	// Lifetime is how long the API server keeps an event by default (flag --event-ttl). After this time the recorder
	// records an equal event again.
	Lifetime = time.Hour
	// mostOfReason limits the length of an event's reason, in bytes.
	mostOfReason = 128
)

// Recorder passes on only new events. It drops an event whose message equals the last message of the same object, type
// and reason, if that message is younger than Lifetime. So a cycle without changes writes no event. Evictions are
// always recorded. The lengths of messages are limited.
type Recorder struct {
	to   record.EventRecorder
	last *cache.LRUExpireCache // digests of messages by eventKey
}

// eventKey identifies the events of an object that replace each other. The type is a part of the key, because two
// events of different types may have the same reason: a normal event of a plugin, and a warning about the gang.
type eventKey struct {
	uid               types.UID
	eventType, reason string
}

var _ record.EventRecorder = (*Recorder)(nil)

// NewRecorder returns a recorder that has recorded no events yet. It passes events on to another recorder.
func NewRecorder(to record.EventRecorder) *Recorder {
	return &Recorder{to: to, last: cache.NewLRUExpireCache(rememberedEvents)}
}

// Again records the event, unless any event of the pod with the same type and reason is younger than Lifetime.
func (r *Recorder) Again(pod *v1.Pod, eventType, reason, message string) {
	if _, recorded := r.last.Get(eventKey{pod.UID, eventType, reason}); !recorded {
		r.Event(pod, eventType, reason, message)
	}
}

// Event records the event, unless the event only repeats the last event of the object with the same type and reason.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
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
	reason, message = brief.Cut(reason, mostOfReason), brief.Text(message)
	if accessor, err := meta.Accessor(object); err == nil && reason != "Evict" {
		key, digest := eventKey{accessor.GetUID(), eventType, reason}, apiwrite.Digest(message)
		if last, ok := r.last.Get(key); ok && last == digest {
			return
		}
		r.last.Add(key, digest, Lifetime)
	}
	r.to.AnnotatedEventf(object, annotations, eventType, reason, "%s", message)
}
