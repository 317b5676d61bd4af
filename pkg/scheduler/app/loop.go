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
	// burstDelay is how long the loop waits for further changes of a burst before a cycle.
	burstDelay = 5 * time.Millisecond
	// heartbeat is the longest time without a cycle while anything waits. It bounds the harm if a change was misjudged,
	// or missed.
	heartbeat = 15 * time.Second
	// idleBefore is how long the loop must have been without cycles so that it does not rest after the next cycle.
	idleBefore = 500 * time.Millisecond
	// lowUrgencyDelay is how long a change that cannot help a pending task waits for a cycle. It is short because a
	// PodGroup should soon report that its gang runs.
	lowUrgencyDelay = 500 * time.Millisecond
)

// cycler runs scheduling cycles.
type cycler interface {
	// cycle runs one cycle. It reports whether a later cycle may place something even if nothing changes.
	cycle() (unsettled bool)
	// waiting reports whether any task or PodGroup waits, in sessions or left out of them.
	waiting() bool
	// idle is called after a period in which no cycle was needed.
	idle()
}

// loop decides when a cycle runs: soon after a change that may let a task be placed, and at least once a period, unless
// nothing has changed since the last cycle and that cycle left nothing to do. Even then a cycle runs at every heartbeat
// while anything waits.
//
// In a stream of changes the loop rests after each cycle for as long as the cycle took, so that it uses half a core and
// not one. A change after a quiet time is not delayed: the cycle that it causes may be followed by another at once.
type loop struct {
	cycler cycler
	period time.Duration

	mu      sync.Mutex
	urgent  bool
	changed bool
	signal  chan struct{}
}

func newLoop(c cycler, period time.Duration) *loop {
	return &loop{cycler: c, period: period, signal: make(chan struct{}, 1)}
}

// wake requests a cycle. It never blocks.
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

// takeChanged reports whether anything changed since the last call, and resets that.
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

// run runs cycles until the context ends. The first one runs at once.
func (l *loop) run(ctx context.Context) {
	unsettled := true
	var last, looked time.Time
	for ctx.Err() == nil {
		var rested time.Duration
		changed := l.takeChanged() // first, so that a change signaled after this gets a cycle of its own
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

// restAfterCycle pauses, at most for a period, and returns the length of the pause.
func (l *loop) restAfterCycle(ctx context.Context, rest time.Duration) time.Duration {
	rest = min(rest, l.period)
	pause.For(ctx, rest)
	return rest
}

// awaitWork waits until there is a reason for a cycle: an urgent change, and the rest of its burst; a less urgent
// change that has waited long enough; or the end of the remaining time.
func (l *loop) awaitWork(ctx context.Context, left time.Duration) {
	period, stop := pause.After(left)
	defer stop()
	var soon <-chan time.Time
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-period:
			return
		case <-soon:
			return
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
