// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

// mostNamed bounds how many transactions an error names.
const mostNamed = 5

// Drain accepts no more transactions and waits until the ones in flight have ended. If ctx ends first, it fails all
// members of transactions that have not passed the barrier, so that they roll back, and goes on waiting for these
// rollbacks and for binds under way. After the drain limit it reports the remaining members to the Observer,
// aborts, and returns an error that names the transactions left. It may be called again.
func (e *Engine) Drain(ctx context.Context) error {
	e.refuse()
	select {
	case <-e.idle:
		return nil
	case <-ctx.Done():
	}
	for _, r := range e.runs() {
		r.roster.failAll(ErrDraining)
	}
	overdue, stop := pause.After(e.options.drainLimit)
	defer stop()
	select {
	case <-e.idle:
		return nil
	case <-overdue:
	}
	for _, r := range e.runs() {
		r.roster.reportUnfinished()
	}
	left := e.left()
	e.Abort()
	if len(left) == 0 {
		return nil
	}
	named := strings.Join(left[:min(len(left), mostNamed)], "; ")
	if more := len(left) - mostNamed; more > 0 {
		named += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("%d bind transactions did not end within %v after they were cut short: %s", len(left), e.options.drainLimit, named)
}

// Abort stops at once, for a scheduler that has lost its lease: no step, rollback, bind or look-up starts from here
// on, and the contexts of calls under way end. Members with nothing to undo are released with ErrAborted; the
// others are abandoned. Abort does not wait for them to end; a Drain after it does.
func (e *Engine) Abort() {
	e.refuse()
	e.abort(ErrAborted)
	for _, r := range e.runs() {
		r.roster.failAll(ErrAborted)
	}
}

// refuse makes Submit return ErrDraining, and closes idle once the last transaction has ended.
func (e *Engine) refuse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return
	}
	e.draining = true
	go func() {
		e.work.Wait()
		close(e.idle)
	}()
}

// left describes each transaction that has not ended.
func (e *Engine) left() []string {
	var left []string
	for _, r := range e.runs() {
		left = append(left, r.roster.describe(r.tx.Gang))
	}
	slices.Sort(left)
	return left
}
