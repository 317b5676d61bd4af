// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
)

// placeTime is how long a member's running steps count against perGang, which limits how many members of a transaction
// run steps at the same time. A write takes milliseconds; a longer step mostly waits for something else, such as a
// volume provisioner. If members with long steps kept counting, a large gang would wait for one batch of perGang
// members after the other.
const placeTime = 100 * time.Millisecond

// startWaiting starts the chains of waiting members. At most perGang chains of the transaction run at a time.
// Chains that have run for placeTime do not count.
func (r *run) startWaiting() {
	for _, m := range r.roster.startable(r.e.options.perGang) {
		r.work.Go(func() { r.chain(m) })
	}
}

// chain runs the member's steps in order. If the member fails before its last step has returned, chain rolls back its
// steps.
func (r *run) chain(m *member) {
	defer after(placeTime, func() { r.roster.givePlace(m) }).stop()
	for i := range m.Steps {
		if !r.roster.beginStep(m) {
			break
		}
		err := r.step(m, &m.Steps[i])
		if err != nil {
			r.roster.fail(m, err)
		}
		r.roster.returned(m)
		if err != nil {
			break
		}
	}
	if !r.roster.pass(m) {
		r.undo(m)
	}
}

// step runs one step and waits for it to return. The member may fail earlier, at the deadline or by a cancellation.
// step still waits then, because a step can be rolled back only after it has returned.
func (r *run) step(m *member, s *Step) error {
	ctx, cancel := context.WithTimeoutCause(m.ctx, s.timeout(), s.failure(m.Member, s.overdue()))
	defer cancel()
	if s.timeout() > r.e.options.stuckAfter {
		defer after(r.e.options.stuckAfter, func() { r.roster.report(m) }).stop()
	}
	start := time.Now()
	givenUp := make(chan struct{})
	inTime := context.AfterFunc(ctx, func() {
		defer close(givenUp)
		cause := context.Cause(ctx)
		r.roster.fail(m, cause)
		r.e.observer.StepDone(s.Plugin, cause, time.Since(start))
	})
	err := protect(s, m, func() error { return s.PreBind(ctx, m.Task, m.Node) })
	if !inTime() {
		<-givenUp
		return context.Cause(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil { // the cancellation caused the step's error
			err = cause
		} else {
			err = s.failure(m.Member, err)
		}
	}
	r.e.observer.StepDone(s.Plugin, err, time.Since(start))
	return err
}

func (s *Step) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return DefaultStepTimeout
}

func (s *Step) overdue() error {
	return fmt.Errorf("timed out after %v: %w", s.timeout(), context.DeadlineExceeded)
}

func (s *Step) failure(m *Member, err error) *StepError {
	return &StepError{Plugin: s.Plugin, Pod: m.key(), Node: m.Node, Err: err}
}

// protect turns a panic of the plugin's function into a *PanicError. It logs the stack, because error messages, which
// are shown in events and conditions, do not contain it.
func protect(s *Step, m *member, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked := &PanicError{Value: v, Stack: debug.Stack()}
			klog.Background().Error(panicked, "Plugin panicked", "plugin", s.Plugin, "pod", m.key(), "node", m.Node,
				"stack", string(panicked.Stack))
			err = panicked
		}
	}()
	return f()
}
