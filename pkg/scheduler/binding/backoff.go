// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// memory is how long a Backoff remembers a gang after its wait has ended, as a multiple of the longest wait.
const memory = 10

// Backoff delays the next try of gangs that failed. Each failure in a row doubles the gang's wait. All methods are safe
// for concurrent use. One timer ends all waits. After its wait, a gang is remembered for ten times the longest wait,
// and then dropped. So the number of failures in that time bounds the size of a Backoff.
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
	// length is the gang's wait before jitter is added.
	length time.Duration
	began  time.Time
	until  time.Time
	over   bool
	// touched reports whether a retry was requested during the gang's current try, because an object that the gang
	// depends on changed.
	touched bool
	// early is the shortest time that a wait lasts before RetrySoon ends it. early doubles each time RetrySoon shortens
	// a wait. It halves with each wait that is not shortened.
	early time.Duration
	// cut reports whether the gang's current wait was shortened to the duration in the field early.
	cut    bool
	reason string
	nodes  []string
	// with are the gangs that failed in the same transaction, including the gang itself. They are tried together, so a
	// change of one of them is a change for all.
	with []api.JobID
	// avoid are the nodes that the gang failed on and should avoid. When the gang fails again on a node in the list, the
	// list is emptied first.
	avoid []string
}

// NewBackoff returns a Backoff whose waits grow from initial to longest. Each wait is made longer by a random part of
// up to jitter times itself. Backoff calls wake whenever waits have ended; wake must not block.
func NewBackoff(initial, longest time.Duration, jitter float64, wake func()) *Backoff {
	b := &Backoff{initial: initial, longest: longest, jitter: jitter, wake: wake, gangs: map[api.JobID]*gangWait{}}
	b.timer = time.AfterFunc(longest, b.expire)
	b.timer.Stop()
	return b
}

// Failed makes the gang wait, twice as long as after its last failure, and returns the end of the wait. If a retry was
// requested during the failed try, that try may not have seen the change that caused the request. The wait is then only
// as long as a first wait, or as RetrySoon allows. The reason is shown to users. nodes are the nodes on which the gang
// failed, see Avoid and RetryNode.
func (b *Backoff) Failed(gang api.JobID, reason string, nodes ...string) (until time.Time) {
	return b.FailedWith(nil, gang, reason, nodes...)
}

// FailedWith is Failed for a gang that is only tried together with the other gangs in with. RetryNow and RetrySoon for
// one of them also end this gang's wait.
func (b *Backoff) FailedWith(with []api.JobID, gang api.JobID, reason string, nodes ...string) (until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.gangs[gang]
	if w == nil {
		w = &gangWait{length: b.initial, early: b.initial}
		b.gangs[gang] = w
	} else {
		if !w.over && !time.Now().Before(w.until) {
			b.end(w) // the wait is over, but the timer has not ended it yet
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
	w.over, w.reason, w.nodes, w.with = false, reason, slices.Clone(nodes), slices.Clone(with)
	if slices.ContainsFunc(nodes, func(node string) bool { return slices.Contains(w.avoid, node) }) {
		w.avoid = nil // the gang had no other node left, so its list of nodes to avoid starts again
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

// RetryNow ends the wait of the gang, and of the gangs that failed with it, at once. After the next failure, they wait as
// long as if this wait had run to its end.
func (b *Backoff) RetryNow(gang api.JobID) {
	b.retry(func(id api.JobID, w *gangWait) bool { return w.dependsOn(id, gang) })
}

// RetrySoon ends the wait of the gang, and of the gangs that failed with it, once the wait has lasted as long as a first
// wait. It is for changes that the gang's own steps and rollbacks may have caused, or that happen periodically. If such
// changes ended the wait at once, the gang would retry in a loop without a pause. Each time they shorten a wait, the
// shortest wait doubles, too. So the gang tries at most about twice as often as without such changes.
func (b *Backoff) RetrySoon(gang api.JobID) {
	b.soon(func(id api.JobID, w *gangWait) bool { return w.dependsOn(id, gang) })
}

// dependsOn reports whether a change of the gang may help the gang id, whose wait w is: the two are the same gang, or
// failed together.
func (w *gangWait) dependsOn(id, gang api.JobID) bool {
	return id == gang || slices.Contains(w.with, gang)
}

// RetryNodeSoon shortens the waits of the gangs that failed on the node, as RetrySoon does. These gangs no longer avoid
// the node.
func (b *Backoff) RetryNodeSoon(node string) {
	b.soon(func(_ api.JobID, w *gangWait) bool { return w.failedOn(node) })
}

// RetryNode ends the waits of the gangs that failed on the node. These gangs no longer avoid the node.
func (b *Backoff) RetryNode(node string) {
	b.retry(func(_ api.JobID, w *gangWait) bool { return w.failedOn(node) })
}

// failedOn reports whether the gang failed on the node. It also removes the node from the nodes that the gang avoids.
func (w *gangWait) failedOn(node string) bool {
	avoided, ok := slices.BinarySearch(w.avoid, node)
	if ok {
		w.avoid = slices.Delete(w.avoid, avoided, avoided+1)
	}
	return ok || slices.Contains(w.nodes, node)
}

// Avoid lists, sorted, the nodes that the gang failed on and should avoid if possible. A node is listed until the gang
// succeeds, the node changes, or the gang has no other node left and fails on it again.
func (b *Backoff) Avoid(gang api.JobID) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.gangs[gang]; w != nil {
		return slices.Clone(w.avoid)
	}
	return nil
}

// RetryAll ends the waits of all gangs.
func (b *Backoff) RetryAll() {
	b.retry(func(api.JobID, *gangWait) bool { return true })
}

// Forget drops the gang, because it succeeded or was deleted. Its next failure then counts as its first.
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

// retry ends the waits of the gangs that the function match accepts. It also resets gangWait.early, so that RetrySoon may
// shorten their next wait to the initial length again.
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

// soon shortens the waits of the gangs that the function match accepts to gangWait.early, the shortest wait that
// RetrySoon allows. For a gang whose wait is over, it records the request for the gang's next failure
// (gangWait.touched).
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

// end ends a wait whose time has passed, and adjusts gangWait.early, the shortest wait that RetrySoon allows.
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

// expire ends the waits that are over, and drops gangs that were remembered long enough. It sets the timer for the next
// time at which a wait ends or a gang is to be dropped.
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
