// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// letter is an event that waits to be written.
type letter struct {
	about                      v1.ObjectReference
	annotations                map[string]string
	eventType, reason, message string
	first, last                time.Time
	// times is how often it was told by now.
	times int32
	done  []func(there bool)
}

// subject is the object that events are about, in whatever version. Who tells of one by its name alone gives no UID.
type subject struct {
	kind, namespace, name string
	uid                   types.UID
}

func subjectOf(about v1.ObjectReference) subject {
	return subject{about.Kind, about.Namespace, about.Name, about.UID}
}

type letterKey struct {
	about           subject
	reason, message string
}

// mailbox is a queue of letters that is fair to namespaces: they take turns, one letter each, and while a letter of a
// namespace is being written the next one of it waits. So neither many letters nor a slow admission webhook of one
// namespace hold up the others', and each namespace's letters stay in order.
//
// It is bounded: once it holds that many letters, a namespace that has its share of them gets no more in, and nobody once
// it holds twice as many.
type mailbox struct {
	// most is how many letters it holds before namespaces are held to their share.
	most int

	mu    sync.Mutex
	some  *sync.Cond
	total int
	// waiting are the letters of each namespace that has some, or whose letter is being written.
	waiting map[string][]*letter
	// turns are the namespaces with letters of which none is being written.
	turns  []string
	known  map[letterKey]*letter
	closed bool
}

func newMailbox(most int) *mailbox {
	m := &mailbox{most: most, waiting: map[string][]*letter{}, known: map[letterKey]*letter{}}
	m.some = sync.NewCond(&m.mu)
	return m
}

func (l *letter) key() letterKey { return letterKey{subjectOf(l.about), l.reason, l.message} }

// post puts the letter into the box; false when there is no room for it. One that waits already counts once more.
func (m *mailbox) post(l *letter) bool {
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

// take waits for a letter whose turn it is; nil when the box is closed and empty, or the context ended.
func (m *mailbox) take(ctx context.Context) *letter {
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

// written gives the letter's namespace its next turn.
func (m *mailbox) written(l *letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	namespace := l.about.Namespace
	if len(m.waiting[namespace]) == 0 {
		delete(m.waiting, namespace)
	} else {
		m.turns = append(m.turns, namespace)
	}
	m.some.Broadcast() // to those who wait for a turn, and those who wait for the end
}

// close takes no more letters; those that are there can still be taken.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.some.Broadcast()
}
