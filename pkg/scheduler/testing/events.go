// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// Events is an event recorder that stores every event, in order.
type Events struct {
	mu   sync.Mutex
	list []string
}

var _ record.EventRecorder = (*Events)(nil)

// Take returns the events since the last call of Take, each as "Type Reason name: message".
func (e *Events) Take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

// Event stores the event.
func (e *Events) Event(object runtime.Object, eventType, reason, message string) {
	name := "?"
	if reference, ok := object.(*v1.ObjectReference); ok {
		name = reference.Name
	} else if accessor, err := meta.Accessor(object); err == nil {
		name = accessor.GetName()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, fmt.Sprintf("%s %s %s: %s", eventType, reason, name, message))
}

// Eventf stores the event. A format without arguments is stored unchanged, because the cache also passes finished
// messages as the format.
func (e *Events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	e.Event(object, eventType, reason, format)
}

// AnnotatedEventf stores the event without its annotations.
func (e *Events) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	e.Eventf(object, eventType, reason, format, args...)
}
