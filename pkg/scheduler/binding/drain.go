// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

// mostNamed bounds how many transactions an error of Drain names.
const mostNamed = 5

// Drain accepts no more transactions and waits until the transactions in flight have ended. If ctx ends first, Drain
// fails all members of transactions that have not passed the barrier, so that they roll back. It then waits for these
// rollbacks and for running binds, for at most the drain limit. After that it reports the remaining members to the
// Observer, calls Abort, and returns an error that names the unfinished transactions. Drain may be called again.
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

// Abort stops the engine at once, because the scheduler has lost its lease. From then on no step, rollback, bind or
// look-up starts, and the contexts of running calls end. Members with nothing to undo are released with ErrAborted; the
// other members are abandoned. Abort does not wait for the transactions to end. A Drain after Abort does.
func (e *Engine) Abort() {
	e.refuse()
	e.abort(ErrAborted)
	for _, r := range e.runs() {
		r.roster.failAll(ErrAborted)
	}
}

// refuse makes Submit return ErrDraining. Once the last transaction has ended, idle is closed.
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

// left returns a description of each transaction that has not ended.
func (e *Engine) left() []string {
	var left []string
	for _, r := range e.runs() {
		left = append(left, r.roster.describe(r.tx.Gang))
	}
	slices.Sort(left)
	return left
}
