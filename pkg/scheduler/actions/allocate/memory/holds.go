// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"maps"
	"time"
)

// A gang that waits for resources being released keeps its placement in each session, with idle resources for its other members. Pods that leave
// may follow one another without end, so a leaky bucket bounds this for each namespace: the time in which its gangs hold idle resources fills the
// bucket, and a quarter of the time in which they do not drains it. When 5 minutes are in it the namespace's gangs are placed on idle resources only
// until it is empty. So a namespace holds idle resources for at most a fifth of a long time, and is never paused if it holds them for less.
const (
	holdsFor = 5 * time.Minute
	// drainsIn is how many times as long held time takes to drain.
	drainsIn = 4
	pause    = drainsIn * holdsFor
)

// Holds is how long gangs have held idle resources, by namespace: queues and PodGroups are the tenant's to choose and to make again.
type Holds struct {
	of map[string]*hold
	// session numbers the sessions.
	session uint64
}

type hold struct {
	// held is the time in the bucket, at most holdsFor, when gangs of the namespace held last: in that session, at that time.
	held    time.Duration
	session uint64
	at      time.Time
	// until is the end of the last pause.
	until time.Time
}

// beginSession forgets namespaces whose buckets are empty.
func (h *Holds) beginSession(now time.Time) {
	h.session++
	maps.DeleteFunc(h.of, func(_ string, of *hold) bool { return now.Sub(of.at) > pause })
}

// Note records that a gang of the namespace holds idle resources in this session. The time since the session before counts if one did in that too.
func (h *Holds) Note(namespace string, now time.Time) {
	of := h.of[namespace]
	if of == nil {
		if h.of == nil {
			h.of = map[string]*hold{}
		}
		of = &hold{at: now}
		h.of[namespace] = of
	}
	if passed := now.Sub(of.at); of.session+1 >= h.session {
		of.held = min(of.held+passed, holdsFor)
	} else {
		of.held = max(of.held-passed/drainsIn, 0)
	}
	of.session, of.at = h.session, now
	if of.held == holdsFor {
		of.until = now.Add(pause)
	}
}

// PausedUntil returns when the namespace's pause ends; zero if its gangs may hold idle resources.
func (h *Holds) PausedUntil(namespace string, now time.Time) time.Time {
	if of := h.of[namespace]; of != nil && now.Before(of.until) {
		return of.until
	}
	return time.Time{}
}
