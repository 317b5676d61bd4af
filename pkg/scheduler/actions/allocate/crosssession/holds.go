// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"maps"
	"time"
)

// A gang that waits for resources being released keeps its placement in each session, with idle resources for its other
// members. Pods that are being deleted may follow one another without end, so each namespace has a leaky bucket. Time
// in which gangs of the namespace hold idle resources fills the bucket. Time in which they hold none drains the bucket
// at a quarter of that rate. When the bucket holds 5 minutes, the namespace is paused until the bucket is empty. In a
// pause, its gangs are placed on idle resources only, and a gang that must wait keeps no placement. So over a long time
// a namespace holds idle resources for at most a fifth of the time. A namespace that holds them for less than a fifth
// is never paused.
//
// A gang that waits for pods that were evicted for it waits for some minutes at most. It fills the bucket at a quarter
// of the rate, and keeps its placement even in a pause. If it did not fill the bucket, a namespace could hold idle
// resources without limit, by evicting a pod of its own for one gang after the other.
const (
	holdsFor = 5 * time.Minute
	// drainsIn is the ratio of the time in which a namespace's leaky bucket (see above) drains to the time that filled
	// it.
	drainsIn = 4
	pause    = drainsIn * holdsFor
)

// Holds records, by namespace, how long gangs have held idle resources while some of their members waited for resources
// to be released. Queues and PodGroups are not used as keys, because a tenant can choose and recreate them.
type Holds struct {
	of map[string]*hold
	// session is the number of the current session.
	session uint64
}

type hold struct {
	// held is the content of the namespace's leaky bucket at the last call of NoteHold: the time in which its gangs
	// held idle resources, minus the time that has drained, at most holdsFor. session and at are the session and the
	// time of that call.
	held    time.Duration
	session uint64
	at      time.Time
	// passed is the time in which gangs of the namespace held idle resources, as counted by calls of NoteHold in the
	// session. added is the part of it that these calls added to the leaky bucket (held).
	passed, added time.Duration
	// until is the end of the namespace's last pause, which may be over. In a pause, gangs are placed on idle resources
	// only.
	until time.Time
}

// beginSession starts a session. It drops a namespace if its gangs have held no idle resources for so long that its
// leaky bucket is certainly empty.
func (h *Holds) beginSession(now time.Time) {
	h.session++
	maps.DeleteFunc(h.of, func(_ string, of *hold) bool { return now.Sub(of.at) > pause })
}

// NoteHold records that a gang of the namespace holds idle resources in this session. The time since the previous session
// counts if a gang of the namespace held idle resources in that session, too. promised reports whether the gang waits for
// pods that were evicted for it.
func (h *Holds) NoteHold(namespace string, now time.Time, promised bool) {
	of := h.of[namespace]
	if of == nil {
		if h.of == nil {
			h.of = map[string]*hold{}
		}
		of = &hold{at: now}
		h.of[namespace] = of
	}
	if passed := now.Sub(of.at); of.session == h.session {
		of.passed += passed
	} else {
		if of.passed, of.added = passed, 0; of.session+1 < h.session {
			of.held, of.passed = max(of.held-passed/drainsIn, 0), 0
		}
	}
	added := of.passed
	if promised {
		added /= drainsIn
	}
	of.held, of.added = min(of.held+max(added-of.added, 0), holdsFor), max(added, of.added)
	of.session, of.at = h.session, now
	if of.held == holdsFor {
		of.until = now.Add(pause)
	}
}

// PausedUntil returns the end of the namespace's pause, in which its gangs are placed on idle resources only. It
// returns zero if the namespace is not paused.
func (h *Holds) PausedUntil(namespace string, now time.Time) time.Time {
	if of := h.of[namespace]; of != nil && now.Before(of.until) {
		return of.until
	}
	return time.Time{}
}
