// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

const ms = time.Millisecond

// script is a cycler with scripted results. It records when each cycle began, as the time since begin.
type script struct {
	begin time.Time
	// takes is the duration of each cycle, and unsettled is its result.
	takes     time.Duration
	unsettled bool
	// waitsForCPU is the part of takes in which the process does not run, and used the processor time that it has used.
	waitsForCPU, used time.Duration
	// waits is the result of waiting.
	waits bool

	cycles []time.Duration
	idles  int
}

func (s *script) cycle() bool {
	s.cycles = append(s.cycles, time.Since(s.begin).Truncate(ms))
	time.Sleep(s.takes)
	s.used += s.takes - s.waitsForCPU
	return s.unsettled
}

func (s *script) waiting() bool { return s.waits }

func (s *script) idle() { s.idles++ }

func TestWhenCyclesRun(t *testing.T) {
	tests := map[string]struct {
		script script
		// wakes are the reported changes, by time.
		wakes map[time.Duration]cache.Urgency
		runs  time.Duration
		want  []time.Duration
		idles int
		// period is the period of the loop. 0 means a second.
		period time.Duration
	}{
		"the first at once, and none while nothing changes": {
			runs: 3500 * ms, want: []time.Duration{0}, idles: 3,
		},
		"once a period while something is left to do": {
			script: script{unsettled: true}, runs: 3500 * ms, want: []time.Duration{0, 1000 * ms, 2000 * ms, 3000 * ms},
		},
		"a period does not restart with the rest after a long cycle": {
			script: script{unsettled: true, takes: 400 * ms}, runs: 3 * time.Second,
			want: []time.Duration{0, 1400 * ms, 2800 * ms},
		},
		"a burst is one cycle": {
			wakes: map[time.Duration]cache.Urgency{100 * ms: cache.WakeNow, 101 * ms: cache.WakeNow, 102 * ms: cache.WakeNow, 104 * ms: cache.WakeNow},
			runs:  900 * ms, want: []time.Duration{0, 105 * ms},
		},
		"two changes far apart are two cycles": {
			wakes: map[time.Duration]cache.Urgency{100 * ms: cache.WakeNow, 200 * ms: cache.WakeNow},
			runs:  900 * ms, want: []time.Duration{0, 105 * ms, 205 * ms},
		},
		"what is not urgent waits half a second": {
			wakes: map[time.Duration]cache.Urgency{100 * ms: cache.WakeDelayed, 200 * ms: cache.WakeDelayed},
			runs:  1500 * ms, want: []time.Duration{0, 600 * ms},
		},
		"what is not urgent waits no longer than the period": {
			wakes: map[time.Duration]cache.Urgency{800 * ms: cache.WakeDelayed},
			runs:  1900 * ms, want: []time.Duration{0, 1000 * ms},
		},
		"what is not urgent is served with what is": {
			wakes: map[time.Duration]cache.Urgency{100 * ms: cache.WakeDelayed, 200 * ms: cache.WakeNow},
			runs:  900 * ms, want: []time.Duration{0, 205 * ms},
		},
		"a change during a cycle gets the next, without a rest after a pause": {
			script: script{takes: 50 * ms}, wakes: map[time.Duration]cache.Urgency{20 * ms: cache.WakeNow},
			runs: 900 * ms, want: []time.Duration{0, 60 * ms},
		},
		"in a stream of changes the loop rests as long as it works": {
			script: script{takes: 50 * ms}, wakes: map[time.Duration]cache.Urgency{20 * ms: cache.WakeNow, 70 * ms: cache.WakeNow, 200 * ms: cache.WakeNow},
			runs: 900 * ms, want: []time.Duration{0, 60 * ms, 165 * ms, 270 * ms},
		},
		"it rests for less if it could not work all the time": {
			script: script{takes: 50 * ms, waitsForCPU: 40 * ms}, wakes: map[time.Duration]cache.Urgency{20 * ms: cache.WakeNow, 70 * ms: cache.WakeNow, 200 * ms: cache.WakeNow},
			runs: 900 * ms, want: []time.Duration{0, 60 * ms, 125 * ms, 205 * ms},
		},
		"it rests also if cycles take longer than a quiet time": {
			script: script{takes: 700 * ms}, runs: 4 * time.Second, want: []time.Duration{0, 710 * ms, 2115 * ms, 3520 * ms},
			wakes: map[time.Duration]cache.Urgency{100 * ms: cache.WakeNow, 800 * ms: cache.WakeNow, 1500 * ms: cache.WakeNow, 2200 * ms: cache.WakeNow, 2900 * ms: cache.WakeNow, 3200 * ms: cache.WakeNow},
		},
		"at every heartbeat while anything waits although nothing is left to do": {
			script: script{waits: true}, runs: 40_500 * ms, want: []time.Duration{0, 15 * time.Second, 30 * time.Second}, idles: 38,
		},
		"at every heartbeat, too, when the period is longer than the watchdog is patient": {
			script: script{waits: true}, period: 10 * time.Minute,
			runs: 40_500 * ms, want: []time.Duration{0, 15 * time.Second, 30 * time.Second},
		},
		"the watchdog sees a loop with nothing to do and a long period": {
			period: 10 * time.Minute, runs: 40_500 * ms, want: []time.Duration{0}, idles: 2,
		},
		"a heartbeat is counted from the last cycle": {
			script: script{waits: true}, wakes: map[time.Duration]cache.Urgency{9500 * ms: cache.WakeNow},
			runs: 25 * time.Second, want: []time.Duration{0, 9505 * ms, 24_505 * ms}, idles: 23,
		},
		"what is not urgent waits half a second after something urgent, too": {
			wakes: map[time.Duration]cache.Urgency{100 * ms: cache.WakeNow, 300 * ms: cache.WakeDelayed},
			runs:  950 * ms, want: []time.Duration{0, 105 * ms, 800 * ms},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &tt.script
				s.begin = time.Now()
				if tt.period == 0 {
					tt.period = time.Second
				}
				l := newLoop(s, tt.period)
				l.used = func() time.Duration { return s.used }
				for at, urgency := range tt.wakes {
					time.AfterFunc(at, func() { l.wake(urgency) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.runs)
				defer cancel()
				l.run(ctx)
				if diff := cmp.Diff(tt.want, s.cycles); diff != "" {
					t.Errorf("cycles (-want +got):\n%s", diff)
				}
				if s.idles != tt.idles {
					t.Errorf("%d idle periods, want %d", s.idles, tt.idles)
				}
			})
		})
	}
}

func TestLoopEndsWithItsContext(t *testing.T) {
	tests := map[string]script{
		"while it waits for work": {},
		"while it rests":          {takes: 300 * ms},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.begin = time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 400*ms)
				defer cancel()
				newLoop(&s, time.Second).run(ctx)
				if ended := time.Since(s.begin); ended != 400*ms {
					t.Errorf("the loop ended after %v, want 400ms", ended)
				}
			})
		})
	}
}

// TestWakeNeverBlocks checks that wake never blocks. Informer handlers and the engine's goroutines call it.
func TestWakeNeverBlocks(t *testing.T) {
	l := newLoop(&script{}, time.Second)
	for range 1000 {
		l.wake(cache.WakeNow)
	}
	if !l.takeChanged() || l.takeChanged() {
		t.Error("the wake-ups are not combined")
	}
}
