// SPDX-License-Identifier: Apache-2.0

package binding

import "time"

// alarm runs a function once after a while, unless it is stopped before. A nil alarm never does.
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

// stop returns when the function will not run any more, and does not run. It may be called again, by one goroutine at a
// time.
func (a *alarm) stop() {
	if a == nil || a.stopped {
		return
	}
	a.stopped = true
	if !a.timer.Stop() {
		<-a.done
	}
}
