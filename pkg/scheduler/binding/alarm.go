// SPDX-License-Identifier: Apache-2.0

package binding

import "time"

// alarm runs a function once after a delay, unless stop is called before. A nil alarm never fires.
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

// stop prevents the alarm's function from running. If the function already runs, stop waits for it. stop may be called
// several times, by one goroutine at a time.
func (a *alarm) stop() {
	if a == nil || a.stopped {
		return
	}
	a.stopped = true
	if !a.timer.Stop() {
		<-a.done
	}
}
