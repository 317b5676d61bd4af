// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"sync"
	"time"
)

// alarm starts a session at a given time, by calling wake. Otherwise the next session could start a whole schedule
// period later.
type alarm struct {
	wake func()

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// set replaces the time at which the alarm calls wake. The zero time means never.
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
