// SPDX-License-Identifier: Apache-2.0

package binding

import "time"

// alarm runs a function once after a delay, unless it is stopped before. A nil alarm never fires.
type alarm struct {
	timer   *time.Timer
	done    chan struct{}
	stopped bool
}

func after(d time.Duration, f func()) *alarm {
	a := &alarm{done: make(chan struct{})}
	a.timer = time.AfterFunc(d, func() {
		defer close(a.done)
		f()
	})
	return a
}

// stop prevents the function from running, or waits for it if it already runs. One goroutine at a time may call it, as
// often as it likes.
func (a *alarm) stop() {
	if a == nil || a.stopped {
		return
	}
	a.stopped = true
	if !a.timer.Stop() {
		<-a.done
	}
}
