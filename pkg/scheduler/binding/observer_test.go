// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"time"
)

// observer checks what the engine reports against the state of the harness.
type observer struct{ w *harness }

func (o observer) StepDone(plugin string, err error, _ time.Duration) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.w.stepsDone[plugin]++
}

func (o observer) RollbackDone(string, error) {}

func (o observer) Delayed(m *Member, d Delay) {
	p := o.w.pod(m)
	o.w.at(p, func() {
		what := fmt.Sprintf("%s in %s", d.Kind, d.Plugin)
		o.w.expect(p, (p.delayed == what) == d.Again, "told that it waits (%s) after %q; again: %t", what, p.delayed, d.Again)
		o.w.expect(p, !d.Again || d.Err != nil, "told again that it waits, without an error: %s", what)
		p.delayed = what
		o.w.delays = append(o.w.delays, d.String())
		o.w.expect(p, !p.released && !p.bound, "told to wait after the end: %s", what)
		running := p.ran.running || p.ran.stopped.Equal(time.Now()) // The engine may not know yet that a step stops at this very moment.
		o.w.expect(p, d.Kind == RollbackStuck || d.Kind == BindWaits || running, "told that a step runs: %s", what)
		o.w.expect(p, d.Kind != BindWaits || p.ran.well == len(p.script.steps), "told to wait for its bind: %s", what)
	})
}

func (o observer) DelayEnded(m *Member, cause error) {
	p := o.w.pod(m)
	o.w.at(p, func() {
		o.w.expect(p, p.delayed != "", "told that no wait has ended")
		o.w.expect(p, cause != nil || !p.released, "told that a wait has ended without why it was released")
		p.delayed = ""
		o.w.delays = append(o.w.delays, "ended")
	})
}

func (o observer) TransactionDone(Result) {}

func (o observer) InFlight(n int) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.w.inFlight = n
}
