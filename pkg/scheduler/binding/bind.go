// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// errUnsettled is the outcome of a bind if Abort came before it was known whether the pod is bound.
var errUnsettled = fmt.Errorf("%w before it was known whether the pod is bound", ErrAborted)

// bindAll binds the members that passed the barrier, and waits for all binds. The first member uses the slot that
// barrier acquired.
func (r *run) bindAll(members []*member, slot *waiter) {
	r.tx.stageInfo(members)
	var next atomic.Int64
	for range min(len(members), r.e.options.perGang) {
		r.work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(members)); i = next.Add(1) - 1 {
				if i == 0 {
					r.bind(members[i], slot)
				} else {
					r.bind(members[i], nil)
				}
			}
		})
	}
	r.work.Wait()
}

// bind binds one member and records the outcome in the ledger. slot is the slot for the first Binding; if it is nil,
// bind acquires one. A member that is not bound is rolled back on another goroutine.
func (r *run) bind(m *member, slot *waiter) {
	err := r.place(m, slot)
	switch {
	case err == nil:
		r.roster.settleDelay(m)
		r.e.ledger.Bound(m.Member)
		r.roster.enterFinalState(m, stateBound)
		r.notifyBound(m)
	case errors.Is(err, errUnsettled):
		r.roster.abandon(m, err)
	default:
		r.roster.unbound(m, err)
		r.work.Go(func() { r.undo(m) })
	}
}

// notifyBound calls the function Bound of each step of the bound member.
func (r *run) notifyBound(m *member) {
	for i := range m.Steps {
		s := &m.Steps[i]
		if s.Bound == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(r.e.ctx, r.e.options.callTimeout)
		_ = protect(s, m, func() error { // protect logs a panic; the member stays bound
			s.Bound(ctx, m.Task, m.Node)
			return nil
		})
		cancel()
	}
}

// place sends Bindings for the member until the pod is known to be bound, and then returns nil. It returns an error if
// the pod is not bound and no more Bindings are sent, or if Abort came first. If the member was cancelled and is known
// not to be bound, the error is the cause of the cancellation.
func (r *run) place(m *member, slot *waiter) error {
	e := r.e
	pauses := e.pauses(e.options.retry)
	tries := tries{most: e.options.attempts}
	doubt := false
	for {
		if slot == nil {
			slot = e.slots.acquire(m.ctx, r.slots)
		}
		if slot == nil {
			return context.Cause(m.ctx)
		}
		err := e.call(slot, func(ctx context.Context) error { return e.binder.Bind(ctx, m.Member) })
		slot = nil
		if err == nil {
			return nil
		}
		r.roster.notBound(m, err)
		// NotFound may be the answer of an admission webhook. Only a read shows whether the pod exists.
		doubt = doubt || classify(err) == unclear || apierrors.IsNotFound(err)
		final := tries.last(err)
		if doubt {
			pauses.atLeast(e.ctx, err, e.options.retry.Duration) // gives a write that is still on its way the time to arrive
			held, lost := r.settleBinding(m)
			if held || errors.Is(lost, errUnsettled) {
				return lost
			}
			if lost != nil {
				final, err = true, lost
			}
		} else if !final {
			pauses.pause(m.ctx, err)
		}
		if m.ctx.Err() != nil {
			return context.Cause(m.ctx)
		}
		if final {
			return &BindError{Pod: m.key(), Node: m.Node, Err: err}
		}
	}
}

// settleBinding reports whether the member's own Binding has bound the pod. lost is nil if the pod may still be bound.
// Otherwise lost says why the pod will not be bound, or that Abort ended the look-up.
func (r *run) settleBinding(m *member) (held bool, lost error) {
	fate, err := r.lookup(m)
	switch {
	case err != nil:
		return false, err
	case fate.Node == m.Node && !fate.Foreign:
		return true, nil
	case fate.Gone:
		return false, ErrPodGone
	case fate.Node != "":
		return false, fmt.Errorf("another scheduler or a user bound the pod to node %s", fate.Node)
	}
	return false, nil
}

// lookup reads the node of the member's pod, and retries until the API server answers or Abort is called.
func (r *run) lookup(m *member) (PodBinding, error) {
	e := r.e
	pauses := e.pauses(e.options.retry)
	for slot := e.slots.acquire(e.ctx, r.slots); slot != nil; slot = e.slots.acquire(e.ctx, r.slots) {
		var fate PodBinding
		err := e.call(slot, func(ctx context.Context) (err error) {
			fate, err = e.binder.GetBinding(ctx, m.Member)
			return err
		})
		if apierrors.IsNotFound(err) {
			return PodBinding{Gone: true}, nil
		}
		if err == nil {
			return fate, nil
		}
		r.roster.notBound(m, err)
		klog.Background().Error(err, "Reading whether a pod is bound failed, retrying", "pod", m.key(), "node", m.Node)
		pauses.pause(e.ctx, err)
	}
	return PodBinding{}, errUnsettled
}

// call makes one call to the API server in an acquired slot, and releases the slot.
func (e *Engine) call(slot *waiter, f func(ctx context.Context) error) error {
	defer e.slots.release(slot)
	defer time.AfterFunc(slotTime, func() { e.slots.lend(slot) }).Stop()
	ctx, cancel := context.WithTimeout(e.ctx, e.options.callTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f(ctx)
}
