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
	// cycleLimit is how long the loop may run without progress before the process exits.
	cycleLimit = 2 * time.Minute
	// panicLimit is how long every cycle may panic before the health check fails. The search for the object that causes
	// the panics takes only seconds. The process exits when every cycle has panicked for cycleLimit.
	panicLimit = 30 * time.Second
	// watchPeriod is how often the watchdog checks the loop.
	watchPeriod = time.Second
)

var (
	errHung      = errors.New("the scheduling loop hangs; releasing the lease, the next leader recovers bind transactions in flight")
	errPanicking = errors.New("every scheduling cycle panics; releasing the lease")
)

// watchdog monitors the scheduling loop. It monitors nothing before the loop runs: while another process leads, or
// while caches are being filled.
type watchdog struct {
	mu       sync.Mutex
	watching bool
	// last is when the loop last made progress. panics counts the cycles that have panicked since the last successful
	// cycle. since is when the first of these cycles panicked, or when an object that causes panics was last found.
	last, since time.Time
	panics      int
	what        string
	// waits returns the condition that the process waits for before the loop runs, and since when; nil if unknown.
	waits func() (what string, since time.Time)
}

func newWatchdog() *watchdog { return &watchdog{} }

// start begins monitoring. The returned function ends the monitoring.
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

// beat records progress: a cycle begins, a gang is processed, or no cycle was needed for a period.
func (w *watchdog) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
}

// succeeded records a cycle that ended normally.
func (w *watchdog) succeeded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.panics = time.Now(), 0
}

// panicked records a cycle that panicked.
func (w *watchdog) panicked(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.what = time.Now(), what
	if w.panics == 0 {
		w.since = w.last
	}
	w.panics++
}

// progressed records that an object that causes panics was found. Other objects may cause further panics, so the time
// limit for panics starts again.
func (w *watchdog) progressed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = w.last
}

// health returns an error if the scheduling loop makes no progress, or if its cycles panic. hung reports that the
// current cycle may never return.
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

// hopeless returns an error if the process should exit.
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

// ServeHTTP responds to health checks.
func (w *watchdog) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	if _, err := w.health(); err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(answer, w.well())
}

// well returns the text of the response to a health check of a healthy process.
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

// runLoop runs cycles until ctx ends, or until the watchdog gives up. If the watchdog gives up, runLoop returns the
// reason. It does not wait for a loop that hangs: the process is about to exit.
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
