// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// cycleLimit is how long the loop may give no sign of life.
	cycleLimit = 2 * time.Minute
	// panicLimit is how long cycles may panic one after the other before health says so; finding the culprit takes
	// seconds. The process gives up after cycleLimit.
	panicLimit = 30 * time.Second
	// watchPeriod is how often the watchdog looks.
	watchPeriod = time.Second
)

var (
	errHung      = errors.New("the scheduling loop hangs; the lease is given up and whatever is in flight is left to the next leader to recover")
	errPanicking = errors.New("every scheduling cycle panics; the lease is given up")
)

// watchdog knows whether the scheduling loop is alive. Before the loop runs, while another process leads or caches are
// being filled, it is not watched.
type watchdog struct {
	mu       sync.Mutex
	watching bool
	// last is the loop's last sign of life, and panics counts the cycles that panicked since one was well. They are no
	// nearer to an end since the first of them, or since a culprit was last found.
	last, since time.Time
	panics      int
	what        string
	// waits returns the condition that the process waits for before the loop runs, and since when; nil when unknown.
	waits func() (what string, since time.Time)
}

func newWatchdog() *watchdog { return &watchdog{} }

// start begins to watch, and the function returned ends it.
func (w *watchdog) start() (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching, w.last, w.panics = true, time.Now(), 0
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watching = false
	}
}

// beat notes a sign of life: a cycle that begins, or a period without need of one.
func (w *watchdog) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
}

// succeeded notes a cycle that came to its end.
func (w *watchdog) succeeded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.panics = time.Now(), 0
}

// panicked notes a cycle that panicked.
func (w *watchdog) panicked(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.what = time.Now(), what
	if w.panics == 0 {
		w.since = w.last
	}
	w.panics++
}

// progressed records that a culprit of panics was found. Further panics may follow, but they are finite.
func (w *watchdog) progressed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = w.last
}

// health returns what is wrong with the loop. hung says that it may never return.
func (w *watchdog) health() (hung bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.watching {
		return false, nil
	}
	if silent := time.Since(w.last); silent > cycleLimit {
		return true, fmt.Errorf("scheduling loop has made no progress for %s", silent.Round(time.Second))
	}
	if w.panics > 1 && time.Since(w.since) > panicLimit {
		return false, fmt.Errorf("the last %d scheduling cycles panicked, for %s: %s", w.panics, time.Since(w.since).Round(time.Second), w.what)
	}
	return false, nil
}

// hopeless returns why the process is to give up.
func (w *watchdog) hopeless() error {
	hung, err := w.health()
	if err == nil {
		return nil
	}
	if hung {
		return fmt.Errorf("%w: %w", errHung, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.since) > cycleLimit {
		return fmt.Errorf("%w: %w", errPanicking, err)
	}
	return nil
}

// ServeHTTP answers health checks.
func (w *watchdog) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	if _, err := w.health(); err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(answer, w.well())
}

// well is the answer of a process with which nothing is wrong.
func (w *watchdog) well() string {
	w.mu.Lock()
	watching, waits := w.watching, w.waits
	w.mu.Unlock()
	if !watching && waits != nil {
		if what, since := waits(); what != "" {
			return fmt.Sprintf("ok: waiting for %s, for %s", what, time.Since(since).Round(time.Second))
		}
	}
	return "ok"
}

// runLoop runs cycles until ctx ends, or until the watchdog despairs of them: then it returns why. A loop that hangs is
// left behind, for the process to end.
func (s *scheduler) runLoop(ctx context.Context, stop context.CancelFunc) error {
	defer s.watchdog.start()()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.loop.run(ctx)
	}()
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
		err := s.watchdog.hopeless()
		if err == nil {
			continue
		}
		stop()
		if !errors.Is(err, errHung) {
			<-ended
		}
		return err
	}
}
