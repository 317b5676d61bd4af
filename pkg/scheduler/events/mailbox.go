// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// queuedEvent is an event that waits to be written.
type queuedEvent struct {
	about                      v1.ObjectReference
	annotations                map[string]string
	eventType, reason, message string
	first, last                time.Time
	// times is how often the event was recorded so far.
	times int32
	done  []func(there bool)
}

// subject is the object that events are about, in any version. The UID is empty if the caller knows only its name.
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

// mailbox is a queue of events that is fair to namespaces. They take turns, one event each, and while an event of a
// namespace is being written, the namespace's next event waits. So neither many events nor a slow admission webhook of
// one namespace delay the events of others, and each namespace's events stay in order.
//
// It is bounded by its field most: once it holds that many events, it rejects events of a namespace that already has its
// share, and once it holds twice as many, it rejects all events.
type mailbox struct {
	// most is how many events the mailbox holds before namespaces are limited to their share.
	most int

	mu    sync.Mutex
	some  *sync.Cond
	total int
	// waiting are the events of each namespace that has some, or whose event is being written.
	waiting map[string][]*queuedEvent
	// turns are the namespaces that have waiting events and no write under way.
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

// post adds the event; false when the mailbox has no room for it. If an equal event waits already, the count of that
// event is increased instead.
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

// next waits for the next event; nil when the mailbox is closed and empty, or the context ended.
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

// written records that the event has been written, so that its namespace may have its next turn.
func (m *mailbox) written(l *queuedEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	namespace := l.about.Namespace
	if len(m.waiting[namespace]) == 0 {
		delete(m.waiting, namespace)
	} else {
		m.turns = append(m.turns, namespace)
	}
	m.some.Broadcast() // wakes the goroutines in next, also when the mailbox is closed
}

// close refuses further events; waiting ones can still be taken.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.some.Broadcast()
}
