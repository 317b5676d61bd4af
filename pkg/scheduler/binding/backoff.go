// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// memory is how long a Backoff remembers a gang after its wait has ended, in multiples of the longest wait.
const memory = 10

// Backoff keeps gangs that failed from being tried again too soon: each failure in a row doubles the gang's wait.
// All methods are safe for concurrent use. Time is kept by one timer; a gang that neither fails again nor is
// forgotten within ten times the longest wait is dropped, so memory is bounded by the failures of that time.
//
//	          Failed                      wait over, Retry...
//	unknown ─────────► waiting (blocked) ─────────────────────► remembered (free)
//	   ▲                  ▲     │                                  │  │
//	   │                  └─────┼──────────── Failed, wait doubled ┘  │
//	   └──────── Forget ────────┴──────────── Forget, long ago ───────┘
type Backoff struct {
	initial, longest time.Duration
	jitter           float64
	wake             func()

	// waking is held while wake runs.
	waking sync.Mutex

	// mu guards the fields below.
	mu      sync.Mutex
	gangs   map[api.JobID]*gangWait
	timer   *time.Timer
	due     time.Time
	stopped bool
}

type gangWait struct {
	// length is the wait before jitter.
	length time.Duration
	began  time.Time
	until  time.Time
	over   bool
	// touched reports whether something the gang depends on changed during the current try.
	touched bool
	// early is the shortest time that a wait lasts before RetrySoon ends it. It doubles each time a wait is cut short, and
	// halves with each wait that runs to its end.
	early time.Duration
	// cut reports whether the wait ends earlier than the backoff says.
	cut    bool
	reason string
	nodes  []string
	// avoid are the nodes that the gang failed on and should avoid. The list starts again when the gang fails on one of
	// them.
	avoid []string
}

// NewBackoff returns a Backoff whose waits grow from initial to longest, each made longer by a random part of up to
// jitter times itself. It calls wake, which must not block, whenever waits have ended.
func NewBackoff(initial, longest time.Duration, jitter float64, wake func()) *Backoff {
	b := &Backoff{initial: initial, longest: longest, jitter: jitter, wake: wake, gangs: map[api.JobID]*gangWait{}}
	b.timer = time.AfterFunc(longest, b.expire)
	b.timer.Stop()
	return b
}

// Failed makes the gang wait, twice as long as after its last failure, and returns the end of the wait. If a retry was
// requested during the failed try, that try may not have seen the change: the wait is then as short as a first one, or as
// RetrySoon allows. The reason is shown to users; nodes lists where the gang failed, see Avoid and RetryNode.
func (b *Backoff) Failed(gang api.JobID, reason string, nodes ...string) (until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.gangs[gang]
	if w == nil {
		w = &gangWait{length: b.initial, early: b.initial}
		b.gangs[gang] = w
	} else {
		if !w.over && !time.Now().Before(w.until) {
			b.end(w) // the timer is about to end the wait, too
		}
		w.length = min(2*w.length, b.longest)
	}
	length := w.length
	if w.cut = w.touched && w.early < length; w.cut {
		length = w.early
	}
	w.began = time.Now()
	w.until = w.began.Add(b.jittered(length))
	w.touched = false
	w.over, w.reason, w.nodes = false, reason, slices.Clone(nodes)
	if slices.ContainsFunc(nodes, func(node string) bool { return slices.Contains(w.avoid, node) }) {
		w.avoid = nil // no other node was left, so the list starts again
	}
	w.avoid = append(w.avoid, nodes...)
	slices.Sort(w.avoid)
	w.avoid = slices.Compact(w.avoid)
	b.alarm(w.until)
	return w.until
}

// Blocked reports whether the gang must wait, and if so why and until when.
func (b *Backoff) Blocked(gang api.JobID) (reason string, until time.Time, blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.gangs[gang]
	if w == nil || w.over || !time.Now().Before(w.until) {
		return "", time.Time{}, false
	}
	return w.reason, w.until, true
}

// RetryNow ends the gang's wait. Its next wait is as long as if this one had run to its end.
func (b *Backoff) RetryNow(gang api.JobID) {
	b.retry(func(id api.JobID, _ *gangWait) bool { return id == gang })
}

// RetrySoon ends the gang's wait once it has lasted as long as a first wait. It is for changes that the gang's own steps
// and their rollback may have caused, or that happen periodically: if these ended the wait at once, the gang would retry in
// a loop without a pause. If such changes end several waits in a row, the shortest wait doubles too, so that they cause at
// most about twice as many tries.
func (b *Backoff) RetrySoon(gang api.JobID) {
	b.soon(func(id api.JobID, _ *gangWait) bool { return id == gang })
}

// RetryNodeSoon is RetrySoon for the gangs that failed on the node. They need not avoid the node from here on.
func (b *Backoff) RetryNodeSoon(node string) {
	b.soon(func(_ api.JobID, w *gangWait) bool { return w.failedOn(node) })
}

// RetryNode ends the waits of the gangs that failed on the node. They need not avoid the node from here on.
func (b *Backoff) RetryNode(node string) {
	b.retry(func(_ api.JobID, w *gangWait) bool { return w.failedOn(node) })
}

// failedOn reports whether the gang failed on the node. It also removes the node from the nodes to avoid.
func (w *gangWait) failedOn(node string) bool {
	avoided, ok := slices.BinarySearch(w.avoid, node)
	if ok {
		w.avoid = slices.Delete(w.avoid, avoided, avoided+1)
	}
	return ok || slices.Contains(w.nodes, node)
}

// Avoid lists, sorted, the nodes that the gang failed on and should avoid if it can. A node is listed until the gang
// succeeds, the node changes, or the gang fails on it again because no other node was left.
func (b *Backoff) Avoid(gang api.JobID) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.gangs[gang]; w != nil {
		return slices.Clone(w.avoid)
	}
	return nil
}

// RetryAll ends all waits.
func (b *Backoff) RetryAll() {
	b.retry(func(api.JobID, *gangWait) bool { return true })
}

// Forget drops the gang, because it succeeded or was deleted: its next failure counts as its first.
func (b *Backoff) Forget(gang api.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.gangs, gang)
}

// Stop ends the timer: wake is not called after Stop has returned. It must not be called from wake.
func (b *Backoff) Stop() {
	b.mu.Lock()
	b.stopped = true
	b.timer.Stop()
	b.mu.Unlock()
	b.waking.Lock()
	defer b.waking.Unlock()
}

// retry ends the waits of the gangs that match accepts, and restores their shortest wait to the length of a first one.
func (b *Backoff) retry(match func(api.JobID, *gangWait) bool) {
	b.mu.Lock()
	ended := false
	now := time.Now()
	for id, w := range b.gangs {
		if !match(id, w) {
			continue
		}
		w.early = b.initial
		if w.over {
			w.touched = true
			continue
		}
		w.over, w.cut, w.until = true, false, now
		ended = true
	}
	b.mu.Unlock()
	if ended {
		b.callWake()
	}
}

// soon shortens the waits of the gangs that match accepts to their shortest wait.
func (b *Backoff) soon(match func(api.JobID, *gangWait) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, w := range b.gangs {
		if !match(id, w) {
			continue
		}
		if w.over {
			w.touched = true
			continue
		}
		if earliest := w.began.Add(w.early); earliest.Before(w.until) {
			w.until, w.cut = earliest, true
			b.alarm(earliest)
		}
	}
}

// end ends a wait that has lasted its time.
func (b *Backoff) end(w *gangWait) {
	w.over = true
	if w.cut {
		w.early = min(2*w.early, b.longest)
	} else {
		w.early = max(w.early/2, b.initial)
	}
	w.cut = false
}

func (b *Backoff) jittered(d time.Duration) time.Duration {
	if b.jitter <= 0 {
		return d
	}
	return wait.Jitter(d, b.jitter)
}

// alarm makes the timer fire at the given time or earlier. It is called with mu held.
func (b *Backoff) alarm(at time.Time) {
	if b.stopped || (!b.due.IsZero() && !at.Before(b.due)) {
		return
	}
	b.due = at
	b.timer.Reset(time.Until(at))
}

// expire ends the waits that are over, drops gangs that were remembered long enough, and sets the timer for the next time.
func (b *Backoff) expire() {
	b.mu.Lock()
	b.due = time.Time{}
	ended := false
	now := time.Now()
	for id, w := range b.gangs {
		next := w.until
		if w.over {
			next = w.until.Add(memory * b.longest)
		}
		switch {
		case next.After(now):
			b.alarm(next)
		case w.over:
			delete(b.gangs, id)
		default:
			b.end(w)
			ended = true
			b.alarm(now.Add(memory * b.longest))
		}
	}
	b.mu.Unlock()
	if ended {
		b.callWake()
	}
}

func (b *Backoff) callWake() {
	b.waking.Lock()
	defer b.waking.Unlock()
	b.mu.Lock()
	stopped := b.stopped
	b.mu.Unlock()
	if !stopped {
		b.wake()
	}
}
