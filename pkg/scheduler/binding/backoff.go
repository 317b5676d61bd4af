// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// memory is how many times its longest wait a Backoff remembers a gang for after its wait has ended.
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

	// mu guards what follows.
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
	// touched is true if something the gang depends on changed while it was being tried.
	touched bool
	// early is how long a wait lasts at least before RetrySoon ends it. It doubles each time one is cut short, and halves
	// with each wait that runs its time.
	early time.Duration
	// cut is true if the wait ends earlier than it would have.
	cut    bool
	reason string
	nodes  []string
	// avoid are the nodes the gang failed on since the last time it was placed on one of them all the same.
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

// Failed makes the gang wait, twice as long as after its last failure, and returns until when. When a retry was asked for
// while it was being tried, that try may not have seen what changed: the wait is as short as a first one, or as RetrySoon
// allows. The reason is for people; the nodes are those it failed on, see Avoid and RetryNode.
func (b *Backoff) Failed(gang api.JobID, reason string, nodes ...string) (until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.gangs[gang]
	if w == nil {
		w = &gangWait{length: b.initial, early: b.initial}
		b.gangs[gang] = w
	} else {
		if !w.over && !time.Now().Before(w.until) {
			b.end(w) // the timer is about to
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
		w.avoid = nil // nothing else was left: begin anew
	}
	w.avoid = append(w.avoid, nodes...)
	slices.Sort(w.avoid)
	w.avoid = slices.Compact(w.avoid)
	b.alarm(w.until)
	return w.until
}

// Blocked tells whether the gang must wait, and then why and until when.
func (b *Backoff) Blocked(gang api.JobID) (reason string, until time.Time, blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.gangs[gang]
	if w == nil || w.over || !time.Now().Before(w.until) {
		return "", time.Time{}, false
	}
	return w.reason, w.until, true
}

// RetryNow ends the gang's wait. Its next wait is as long as if this one had run its time.
func (b *Backoff) RetryNow(gang api.JobID) {
	b.retry(func(id api.JobID, _ *gangWait) bool { return id == gang })
}

// RetrySoon ends the gang's wait once it has lasted as long as a first wait does. It is for changes that the gang's own
// steps and their rollback may have made, or that come by the clock: ending the wait for those at once would make it a loop
// without a pause. Where they end one wait after the other the least that a wait lasts doubles too, so that they make for
// about twice as many tries as there would be without them.
func (b *Backoff) RetrySoon(gang api.JobID) {
	b.soon(func(id api.JobID, _ *gangWait) bool { return id == gang })
}

// RetryNodeSoon is RetrySoon for the gangs that failed on the node, which they need not avoid any more.
func (b *Backoff) RetryNodeSoon(node string) {
	b.soon(func(_ api.JobID, w *gangWait) bool { return w.failedOn(node) })
}

// RetryNode ends the waits of the gangs that failed on the node, which they need not avoid any more.
func (b *Backoff) RetryNode(node string) {
	b.retry(func(_ api.JobID, w *gangWait) bool { return w.failedOn(node) })
}

// failedOn is true if the node is one that the gang failed on, and ends its being avoided.
func (w *gangWait) failedOn(node string) bool {
	avoided, ok := slices.BinarySearch(w.avoid, node)
	if ok {
		w.avoid = slices.Delete(w.avoid, avoided, avoided+1)
	}
	return ok || slices.Contains(w.nodes, node)
}

// Avoid lists, sorted, the nodes the gang failed on, which it is better placed without. They count until the gang succeeds,
// until they change, and until it fails on one of them again because nothing else was left.
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

// Forget drops the gang, because it succeeded or is gone: its next failure counts as its first.
func (b *Backoff) Forget(gang api.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.gangs, gang)
}

// Stop ends the timer: wake does not run any more once Stop has returned. It must not be called from wake.
func (b *Backoff) Stop() {
	b.mu.Lock()
	b.stopped = true
	b.timer.Stop()
	b.mu.Unlock()
	b.waking.Lock()
	defer b.waking.Unlock()
}

// retry ends the waits of the gangs that match, and makes their waits early ones again.
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

// soon cuts the waits of the gangs that match to the least that they last.
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

// alarm makes the timer fire by then at the latest. It is called with mu held.
func (b *Backoff) alarm(at time.Time) {
	if b.stopped || (!b.due.IsZero() && !at.Before(b.due)) {
		return
	}
	b.due = at
	b.timer.Reset(time.Until(at))
}

// expire ends the waits that are over, drops gangs remembered for long enough, and sets the timer for the next.
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
