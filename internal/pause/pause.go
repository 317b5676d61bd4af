// SPDX-License-Identifier: Apache-2.0

// Package pause waits for a duration or the end of a context, whichever comes first. It does not depend on the
// scheduler.
//
// It never creates a timer that is already due. Under Go 1.26, goroutines of one synctest bubble that receive from such
// timers share the race detector's state of the bubble's timers without a lock, and crash the runtime.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, and reports whether d has passed.
func For(ctx context.Context, d time.Duration) bool {
	passed, stop := After(d)
	defer stop()
	select {
	case <-passed:
		return true
	case <-ctx.Done():
		return false
	}
}

// After returns a channel that is ready once d has passed, or at once if d is 0 or less. stop releases the timer.
func After(d time.Duration) (passed <-chan time.Time, stop func()) {
	if d <= 0 {
		over := make(chan time.Time)
		close(over)
		return over, func() {}
	}
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}
