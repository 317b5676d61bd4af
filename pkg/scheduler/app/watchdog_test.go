// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func healthOf(w *watchdog) (int, string) {
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

func TestHealth(t *testing.T) {
	tests := map[string]struct {
		story func(w *watchdog)
		code  int
		says  string
		// gives is the error with which the process ends, or nil if it goes on.
		gives error
	}{
		"standing by for long": {story: func(*watchdog) { time.Sleep(time.Hour) }, code: 200, says: "ok"},
		"standing by, and it is known what for": {story: func(w *watchdog) {
			s := &startup{}
			s.set(func() string { return "Godot" })
			w.waits = s.waitsFor
			time.Sleep(time.Minute)
		}, code: 200, says: "ok: waiting for Godot, for 1m0s"},
		"cycles and periods without need of one": {story: func(w *watchdog) {
			w.start()
			for range 100 {
				w.beat()
				w.succeeded()
				time.Sleep(time.Minute)
				w.beat()
				time.Sleep(time.Minute)
			}
		}, code: 200, says: "ok"},
		"a long cycle": {story: func(w *watchdog) { w.start(); w.beat(); time.Sleep(cycleLimit) }, code: 200, says: "ok"},
		"a cycle that does not return": {story: func(w *watchdog) { w.start(); w.beat(); time.Sleep(cycleLimit + time.Second) },
			code: 500, says: "no progress for 2m1s", gives: errHung},
		"a panic now and then": {story: func(w *watchdog) {
			w.start()
			for range 100 {
				w.panicked("oh no")
				time.Sleep(time.Minute)
				w.succeeded()
			}
		}, code: 200, says: "ok"},
		"one panic, and a long cycle after it": {story: func(w *watchdog) {
			w.start()
			w.panicked("oh no")
			w.beat()
			time.Sleep(panicLimit + time.Second)
		}, code: 200, says: "ok"},
		"panics while the culprit is found": {story: func(w *watchdog) {
			w.start()
			for range 50 {
				w.panicked("oh no")
				time.Sleep(100 * time.Millisecond)
			}
		}, code: 200, says: "ok"},
		"panics that go on": {story: func(w *watchdog) {
			w.start()
			for range 40 {
				w.panicked("oh no")
				time.Sleep(time.Second)
			}
		}, code: 500, says: "the last 40 scheduling cycles panicked, for 40s: oh no"},
		"panics for long": {story: func(w *watchdog) {
			w.start()
			for range 130 {
				w.panicked("oh no")
				time.Sleep(time.Second)
			}
		}, code: 500, says: "the last 130 scheduling cycles panicked", gives: errPanicking},
		"panics for long, of which culprits are found": {story: func(w *watchdog) {
			w.start()
			for i := range 300 {
				w.panicked("oh no")
				if i%20 == 0 {
					w.progressed()
				}
				time.Sleep(time.Second)
			}
		}, code: 200, says: "ok"},
		"panics that go on after the last culprit was found": {story: func(w *watchdog) {
			w.start()
			for i := range 140 {
				w.panicked("oh no")
				if i < 10 {
					w.progressed()
				}
				time.Sleep(time.Second)
			}
		}, code: 500, says: "the last 140 scheduling cycles panicked, for 2m11s", gives: errPanicking},
		"a cycle after a term that ended in panics": {story: func(w *watchdog) {
			end := w.start()
			for range 3 {
				w.panicked("oh no")
			}
			end()
			time.Sleep(time.Hour)
			w.start()
			w.beat()
		}, code: 200, says: "ok"},
		"after it has ended": {story: func(w *watchdog) { w.start()(); time.Sleep(time.Hour) }, code: 200, says: "ok"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchdog()
				tt.story(w)
				if code, body := healthOf(w); code != tt.code || !strings.Contains(body, tt.says) {
					t.Errorf("health answers %d %q, want %d %q", code, body, tt.code, tt.says)
				}
				if err := w.hopeless(); !errors.Is(err, tt.gives) {
					t.Errorf("it gives up because of %v, want %v", err, tt.gives)
				}
			})
		})
	}
}

// calmCycler is a cycler in which nothing waits.
type calmCycler struct{}

func (calmCycler) waiting() bool { return false }
func (calmCycler) idle()         {}

// stuckCycler hangs in its cycle until free is closed.
type stuckCycler struct {
	calmCycler
	free chan struct{}
}

func (c *stuckCycler) cycle() bool { <-c.free; return false }

// TestALoopThatHangsIsLeftBehind checks that a loop that hangs is left behind, so that the process releases its
// lease.
func TestALoopThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		stuck := &stuckCycler{free: make(chan struct{})}
		s := &scheduler{watchdog: newWatchdog(), loop: newLoop(stuck, time.Second)}
		start := time.Now()
		err := s.runLoop(ctx, stop)
		if took := time.Since(start); !errors.Is(err, errHung) || took < cycleLimit || took > cycleLimit+5*time.Second {
			t.Errorf("it returned %v after %s, want %v after %s", err, took, errHung, cycleLimit)
		}
		if ctx.Err() == nil {
			t.Error("the loop's context has not ended")
		}
		close(stuck.free)
	})
}

// panickingCycler is a cycler whose cycles panic after 12 seconds.
type panickingCycler struct {
	calmCycler
	dog     *watchdog
	running atomic.Bool
}

func (c *panickingCycler) cycle() bool {
	c.running.Store(true)
	defer c.running.Store(false)
	time.Sleep(12 * time.Second)
	c.dog.panicked("oh no")
	return true
}

// TestALoopThatOnlyPanicsIsEnded checks that a loop whose cycles only panic is ended, and that no cycle is running
// afterwards.
func TestALoopThatOnlyPanicsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		panicking := &panickingCycler{dog: newWatchdog()}
		s := &scheduler{watchdog: panicking.dog, loop: newLoop(panicking, time.Second)}
		if err := s.runLoop(ctx, stop); !errors.Is(err, errPanicking) {
			t.Errorf("it returned %v, want %v", err, errPanicking)
		}
		if panicking.running.Load() {
			t.Error("a cycle runs on")
		}
	})
}
