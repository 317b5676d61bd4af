// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

const (
	// burstDelay is how long a burst of changes is gathered before a cycle.
	burstDelay = 5 * time.Millisecond
	// lagPoll and lagPatience: how often and how long a cycle waits for the change it was woken for to reach the cache.
	lagPoll     = time.Millisecond
	lagPatience = 50 * time.Millisecond
	// A change that was not waited for any longer is late. It is looked for again and again, with pauses between these
	// two that are a tenth of how late it is: minutes after an outage of the API server it may still come.
	latePoll        = 10 * time.Millisecond
	longestLatePoll = time.Second
	// heartbeat is the longest time without a cycle while anything waits. What changed may be misjudged, or not have been
	// seen at all: then it is this that bounds the harm.
	heartbeat = 15 * time.Second
	// idleBefore is how long no cycle must have run for the next one to need no rest after it.
	idleBefore = 500 * time.Millisecond
	// lowUrgencyDelay is how long a change that cannot help a pending task waits at the most: a PodGroup is to say soon that
	// its gang runs.
	lowUrgencyDelay = 500 * time.Millisecond
)

// cycler runs scheduling cycles.
type cycler interface {
	// cycle runs one cycle and says whether something is left that a later cycle may place although nothing changes.
	cycle() (unsettled bool)
	// lagging is true if a change that was told has not reached the cache yet. One that is late does not count.
	lagging() bool
	// setLate makes the changes that have not reached the cache late.
	setLate()
	// arrived is true if late changes have reached the cache since it was last asked; the other result, if more are to come.
	arrived() (some, more bool)
	// waiting is true if any task or PodGroup waits, be it in sessions or left out of them.
	waiting() bool
	// idle is told of a period in which no cycle was needed.
	idle()
}

// loop decides when a cycle runs: soon after something changed that may let a task be placed, and at least once a
// period, unless nothing changed since the last cycle and that cycle left nothing to do. Then one runs at every
// heartbeat while anything waits all the same.
//
// A cycle waits a moment for the changes that it was woken for to reach the cache, and then goes on without them, for the
// others' sake. The late ones get a cycle of their own as soon as they have come.
//
// In a stream of changes the loop rests after a cycle as long as the cycle took, so that it costs half a core and not
// one. A change after a pause does not pay for that: the cycle that answers it may be followed by another at once.
type loop struct {
	cycler cycler
	period time.Duration
	// lateSince is when changes were last made late, zero when none are, and lookAt when they are looked for next. Only
	// run's goroutine uses them.
	lateSince, lookAt time.Time

	mu      sync.Mutex
	urgent  bool
	changed bool
	signal  chan struct{}
}

func newLoop(c cycler, period time.Duration) *loop {
	return &loop{cycler: c, period: period, signal: make(chan struct{}, 1)}
}

// wake asks for a cycle. It never blocks.
func (l *loop) wake(u cache.Urgency) {
	l.mu.Lock()
	l.changed = true
	l.urgent = l.urgent || u == cache.WakeNow
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// takeChanged returns whether anything changed since it was last called, and forgets it.
func (l *loop) takeChanged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed, l.urgent = false, false
	select {
	case <-l.signal:
	default:
	}
	return changed
}

// run runs cycles until the context ends. The first runs at once.
func (l *loop) run(ctx context.Context) {
	unsettled := true
	var last, looked time.Time
	for ctx.Err() == nil {
		var rested time.Duration
		changed := l.takeChanged() // first: a change told from here on gets a cycle of its own, which waits for it
		l.awaitCache(ctx)
		beat := time.Since(looked) >= heartbeat
		if beat {
			looked = time.Now()
		}
		if changed || unsettled || beat && l.cycler.waiting() {
			start := time.Now()
			looked = start
			unsettled = l.cycler.cycle()
			rest := burstDelay
			if start.Sub(last) < idleBefore {
				rest = max(rest, time.Since(start))
			}
			last = start
			rested = l.restAfterCycle(ctx, rest)
		} else {
			l.cycler.idle()
		}
		l.awaitWork(ctx, min(l.period, heartbeat)-rested)
	}
}

// awaitCache waits a little for the changes that were told to reach the cache. Those that have not by then are late.
func (l *loop) awaitCache(ctx context.Context) {
	deadline := time.Now().Add(lagPatience)
	for l.cycler.lagging() && ctx.Err() == nil {
		if time.Now().After(deadline) {
			l.cycler.setLate()
			l.lateSince = time.Now()
			l.lookAt = l.lateSince.Add(latePoll)
			return
		}
		pause.For(ctx, lagPoll)
	}
}

// lookForLate asks for a cycle when late changes have arrived.
func (l *loop) lookForLate() {
	some, more := l.cycler.arrived()
	if some {
		l.wake(cache.WakeNow)
	}
	if !more {
		l.lateSince = time.Time{}
		return
	}
	l.lookAt = time.Now().Add(min(max(time.Since(l.lateSince)/10, latePoll), longestLatePoll))
}

// restAfterCycle pauses, for a period at the most, and returns for how long.
func (l *loop) restAfterCycle(ctx context.Context, rest time.Duration) time.Duration {
	rest = min(rest, l.period)
	pause.For(ctx, rest)
	return rest
}

// awaitWork waits for an urgent change and then for the rest of its burst, for a change that is not urgent to have
// waited long enough, or for as long as is left.
func (l *loop) awaitWork(ctx context.Context, left time.Duration) {
	period, stop := pause.After(left)
	defer stop()
	var soon <-chan time.Time
	for ctx.Err() == nil {
		var late <-chan time.Time
		if !l.lateSince.IsZero() {
			late, _ = pause.After(time.Until(l.lookAt))
		}
		select {
		case <-ctx.Done():
		case <-period:
			return
		case <-soon:
			return
		case <-late:
			l.lookForLate()
		case <-l.signal:
			if l.isUrgent() {
				pause.For(ctx, burstDelay)
				return
			}
			if soon == nil {
				timer := time.NewTimer(lowUrgencyDelay)
				defer timer.Stop()
				soon = timer.C
			}
		}
	}
}

func (l *loop) isUrgent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.urgent
}
