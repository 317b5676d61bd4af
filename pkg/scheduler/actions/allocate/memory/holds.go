// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"maps"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// A gang that waits for resources being released keeps its placement in each session, with idle resources for its other members. Pods that leave
// may follow one another without end, so this is bounded: the gangs of a namespace in a queue hold idle resources for holdsFor in all, then they are
// placed on idle resources only for a pause. The pause is firstPause, and twice the last one up to longestPause if gangs hold again. An hour in
// which they neither hold nor pause ends that.
const (
	holdsFor     = 5 * time.Minute
	firstPause   = 5 * time.Minute
	longestPause = time.Hour
	holdsKept    = time.Hour
)

// Holder is who holds idle resources: all gangs of a namespace in a queue, because PodGroups can be made again.
type Holder struct {
	Queue     api.QueueID
	Namespace string
}

// HolderOf returns the holder that the job counts for.
func HolderOf(job *api.JobInfo) Holder { return Holder{job.Queue, job.Namespace} }

// Holds are how long holders have held idle resources, and their pauses.
type Holds struct {
	of map[Holder]*hold
	// session numbers the sessions.
	session uint64
}

type hold struct {
	// spent is how long the holder has held since its last pause; it held last in that session, at that time.
	spent   time.Duration
	session uint64
	at      time.Time
	// pause is the length of its last pause; zero before the first.
	pause time.Duration
	until time.Time
}

func (h *Holds) beginSession(now time.Time) {
	h.session++
	maps.DeleteFunc(h.of, func(_ Holder, of *hold) bool { return now.Sub(of.at) > holdsKept && now.Sub(of.until) > holdsKept })
}

// Note records that the holder holds idle resources in this session. The time since the session before counts if it held in that one too.
func (h *Holds) Note(holder Holder, now time.Time) {
	of := h.of[holder]
	if of == nil {
		if h.of == nil {
			h.of = map[Holder]*hold{}
		}
		of = &hold{at: now}
		h.of[holder] = of
	}
	if of.session == h.session-1 {
		of.spent += now.Sub(of.at)
	}
	of.session, of.at = h.session, now
	if of.spent >= holdsFor {
		of.spent, of.pause = 0, min(max(2*of.pause, firstPause), longestPause)
		of.until = now.Add(of.pause)
	}
}

// PausedUntil returns when the holder's pause ends; zero if it may hold idle resources.
func (h *Holds) PausedUntil(holder Holder, now time.Time) time.Time {
	if of := h.of[holder]; of != nil && now.Before(of.until) {
		return of.until
	}
	return time.Time{}
}
