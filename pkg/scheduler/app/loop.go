// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

const (
	// burstDelay is how long the loop waits after a change for further changes, so that one cycle handles a burst of
	// changes.
	burstDelay = 5 * time.Millisecond
	// heartbeat is the longest time without a cycle while any task or PodGroup waits. It bounds the delay after a
	// change that the loop missed or considered irrelevant.
	heartbeat = 15 * time.Second
	// idleBefore is how long no cycle may have run before a cycle counts as the first after a quiet time. After such a
	// cycle, the loop pauses only for burstDelay, and not for as long as the cycle took.
	idleBefore = 500 * time.Millisecond
	// lowUrgencyDelay is the time from a change that cannot help a pending task to the next cycle. It is short because
	// a PodGroup should soon report that its gang runs.
	lowUrgencyDelay = 500 * time.Millisecond
)

// cycler runs scheduling cycles.
type cycler interface {
	// cycle runs one scheduling cycle. It reports whether a later cycle may place a task even if nothing changes.
	cycle() (unsettled bool)
	// waiting reports whether any task or PodGroup waits, including tasks and PodGroups that sessions leave out.
	waiting() bool
	// idle is called instead of cycle when no cycle is needed.
	idle()
}

// loop decides when a cycle runs: soon after a change that may let a task be placed, and otherwise once per period. The
// cycle of a period is skipped if nothing has changed since the last cycle, and that cycle left nothing to do. While
// any task or PodGroup waits, a cycle still runs at every heartbeat.
//
// During a stream of changes, the loop pauses after each cycle for as long as the cycle took, or for the processor time that the
// process used meanwhile if that is less: other processes may have kept it waiting. So the loop uses at most half of one core.
// After a quiet time the pause is short: a second cycle may follow the first almost at once.
type loop struct {
	cycler cycler
	period time.Duration
	// used returns the processor time that the process has used.
	used func() time.Duration

	mu      sync.Mutex
	urgent  bool
	changed bool
	signal  chan struct{}
}

func newLoop(c cycler, period time.Duration) *loop {
	return &loop{cycler: c, period: period, used: processorTime, signal: make(chan struct{}, 1)}
}

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // cannot fail with these arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
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

// takeChanged reports whether wake was called since the last call of takeChanged.
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

// run runs cycles until the context ends. The first cycle runs at once.
func (l *loop) run(ctx context.Context) {
	unsettled := true
	var last, looked time.Time
	for ctx.Err() == nil {
		var rested time.Duration
		changed := l.takeChanged() // reset before the cycle, so that a change during the cycle causes another cycle
		beat := time.Since(looked) >= heartbeat
		if beat {
			looked = time.Now()
		}
		if changed || unsettled || beat && l.cycler.waiting() {
			start, used := time.Now(), l.used()
			looked = start
			unsettled = l.cycler.cycle()
			rest := burstDelay
			if start.Sub(last) < idleBefore {
				rest = max(rest, min(time.Since(start), l.used()-used))
			}
			rested = l.restAfterCycle(ctx, rest)
			last = time.Now()
		} else {
			l.cycler.idle()
		}
		l.awaitWork(ctx, min(l.period, heartbeat)-rested)
	}
}

// restAfterCycle pauses for the duration in rest, but at most for the period of the loop. It returns the length of the
// pause.
func (l *loop) restAfterCycle(ctx context.Context, rest time.Duration) time.Duration {
	rest = min(rest, l.period)
	pause.For(ctx, rest)
	return rest
}

// awaitWork returns when the next cycle is due. After an urgent change, it waits some milliseconds (burstDelay), and
// after another change half a second (lowUrgencyDelay). Without a change, it waits for the duration in left.
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
