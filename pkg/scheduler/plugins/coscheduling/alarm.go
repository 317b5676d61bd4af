// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"sync"
	"time"
)

// alarm has a session open when a time is up. Where the scheduler's period is long nothing else would.
type alarm struct {
	wake func()

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// set replaces the time that was set before; a zero one sets none.
func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if !at.IsZero() && !a.closed {
		a.timer = time.AfterFunc(max(time.Until(at), 0), a.wake)
	}
}

func (a *alarm) close() {
	a.set(time.Time{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}
