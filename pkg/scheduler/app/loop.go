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
	// heartbeat is the longest time without a cycle while anything waits. What changed may be misjudged, or not have been
	// seen at all: then it is this that bounds the harm.
	heartbeat = 15 * time.Second
	// idleBefore is how long no cycle must have run for the next one to need no rest after it.
	idleBefore = 500 * time.Millisecond
	// lowUrgencyDelay bounds how long a change that cannot help a pending task waits: a PodGroup should soon report that its
	// gang runs.
	lowUrgencyDelay = 500 * time.Millisecond
)

// cycler runs scheduling cycles.
type cycler interface {
	// cycle runs one cycle and says whether something is left that a later cycle may place although nothing changes.
	cycle() (unsettled bool)
	// waiting reports whether any task or PodGroup waits, in sessions or left out of them.
	waiting() bool
	// idle is called after a period in which no cycle was needed.
	idle()
}

// loop decides when a cycle runs: soon after a change that may let a task be placed, and at least once a period, unless
// nothing changed since the last cycle and that cycle left nothing to do. Even then one runs at every heartbeat while
// anything waits.
//
// In a stream of changes the loop rests after a cycle as long as the cycle took, so that it uses half a core and not one. A
// change after a pause is not delayed: the cycle that it causes may be followed by another at once.
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
		changed := l.takeChanged() // first: a change signaled from here on gets a cycle of its own
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

// restAfterCycle pauses, at most for a period, and returns for how long.
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
