// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// queuedEvent is an event that waits to be written to the API server.
type queuedEvent struct {
	about                      v1.ObjectReference
	annotations                map[string]string
	eventType, reason, message string
	first, last                time.Time
	// times is how often an equal event was recorded so far.
	times int32
	done  []func(there bool)
}

// subject identifies the object that an event is about, in any version of the object. The UID is empty if the caller
// knows only the name.
type subject struct {
	kind, namespace, name string
	uid                   types.UID
}

func subjectOf(about v1.ObjectReference) subject {
	return subject{about.Kind, about.Namespace, about.Name, about.UID}
}

type queuedEventKey struct {
	about           subject
	reason, message string
}

// mailbox is a queue of events that is fair to namespaces. It returns one event of each namespace after another. While
// an event of a namespace is being written, the next event of the namespace waits. So many events, or a slow admission
// webhook, of one namespace do not delay the events of other namespaces. The events of each namespace stay in order.
//
// The field most limits the number of events. Once the mailbox holds that number, it drops new events of namespaces
// that already have an equal part of it. Once it holds twice that number, it drops all new events.
type mailbox struct {
	// most is how many events the mailbox holds before it limits each namespace to an equal part of most.
	most int

	mu    sync.Mutex
	some  *sync.Cond
	total int
	// waiting has, by namespace, the waiting events. A namespace whose last event is being written has an empty list.
	waiting map[string][]*queuedEvent
	// turns has, in order, the namespaces that have waiting events and no event being written.
	turns  []string
	known  map[queuedEventKey]*queuedEvent
	closed bool
}

func newMailbox(most int) *mailbox {
	m := &mailbox{most: most, waiting: map[string][]*queuedEvent{}, known: map[queuedEventKey]*queuedEvent{}}
	m.some = sync.NewCond(&m.mu)
	return m
}

func (l *queuedEvent) key() queuedEventKey {
	return queuedEventKey{subjectOf(l.about), l.reason, l.message}
}

// post adds the event to the mailbox. It returns false if the mailbox is full or closed. If an equal event already
// waits, post increases the count of that event instead.
func (m *mailbox) post(l *queuedEvent) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if same, ok := m.known[l.key()]; ok {
		same.times++
		same.last = l.last
		same.done = append(same.done, l.done...)
		return true
	}
	namespace := l.about.Namespace
	queue, present := m.waiting[namespace]
	sharers := len(m.waiting)
	if !present {
		sharers++
	}
	if m.closed || m.total >= 2*m.most || m.total >= m.most && len(queue) >= m.most/sharers {
		return false
	}
	if !present {
		m.turns = append(m.turns, namespace)
	}
	m.waiting[namespace] = append(queue, l)
	m.known[l.key()] = l
	m.total++
	m.some.Signal()
	return true
}

// next waits for an event and returns it. It returns nil if the mailbox is closed and empty, or if the context has
// ended.
func (m *mailbox) next(ctx context.Context) *queuedEvent {
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.some.Broadcast()
	})()
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.turns) == 0 {
		if ctx.Err() != nil || m.closed && m.total == 0 {
			return nil
		}
		m.some.Wait()
	}
	if ctx.Err() != nil {
		return nil
	}
	namespace := m.turns[0]
	m.turns = m.turns[1:]
	queue := m.waiting[namespace]
	l := queue[0]
	queue[0] = nil
	m.waiting[namespace] = queue[1:]
	delete(m.known, l.key())
	m.total--
	return l
}

// written records that the event is no longer being written. The method next may then return the next event of the
// event's namespace.
func (m *mailbox) written(l *queuedEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	namespace := l.about.Namespace
	if len(m.waiting[namespace]) == 0 {
		delete(m.waiting, namespace)
	} else {
		m.turns = append(m.turns, namespace)
	}
	m.some.Broadcast() // wakes all callers of next: one may take an event, others may end
}

// close makes the mailbox drop further events. Callers of next still get the waiting events.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.some.Broadcast()
}
