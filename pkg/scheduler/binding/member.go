// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"time"
)

type memberState int

const (
	stateWaiting memberState = iota
	statePreparing
	statePassed
	stateBinding
	stateBound
	stateFailed
	stateReleased
	stateAbandoned
	numStates
)

// member is a Member under way:
//
//	           fewer than         last step        barrier: the gang
//	           perGang prepare    returned nil     has enough               Binding is known to hold
//	waiting ───────────────► preparing ─────► passed ─────────────► binding ────────────────────────► bound
//	   │                         │              │                      │
//	   │ cancelled               │ step failed  │ cancelled            │ rejected for good, overtaken,
//	   │                         │ or overdue,  │                      │ tried too often, or
//	   │                         │ cancelled    │                      │ cancelled and known not to hold
//	   ▼                         ▼              ▼                      ▼
//	failed ◄─────────────────────┴──────────────┴──────────────────────┘
//	   │
//	   ├───────► released     every step that has begun, or is marked with RollbackIfNotRun, is rolled back
//	   └───────► abandoned    Abort came before that, or before the bind was settled
//
// A member without steps goes from waiting to passed at once. A member whose bind Abort left unsettled goes from binding to
// abandoned. "Cancelled" stands for Cancel, CancelGang, CancelNode, a Drain that cuts the transaction short, Abort, and a
// gang that falls below its minimum. A member leaves preparing at once when it is cancelled or a step is overdue; its chain's
// goroutine lives on until that step returns, and rolls back then. The states bound, released and abandoned are final.
// Ledger.Bound is called before a member enters state bound, and Ledger.Released before it enters state released.
type member struct {
	*Member
	// ctx ends, with the cause, when the member fails or when its bind must stop.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// roster.mu guards the fields below.

	state memberState
	// err is why the member failed; it is set once.
	err error
	// begun is the number of steps that have begun, in order. running reports whether the last of these steps still
	// runs.
	begun   int
	running bool
	// slow reports whether the member's steps have run for placeTime, so that it no longer counts against
	// perGang.
	slow bool
	// kept is the number of steps, counted from the first, that still may need a rollback. The steps after them are
	// already rolled back or never need a rollback.
	kept int
	// undoErr is the last failure of the current rollback.
	undoErr error
	// holds reports whether the pod is known to be bound to the member's node. It is set right before Ledger.Bound.
	holds bool
	// bindErr is the last failure of the member's Bindings and look-ups.
	bindErr error
	// since is when the running step or the current rollback began.
	since time.Time
	// waitsFrom is when the member failed, or when its last reported wait ended.
	waitsFrom time.Time
	// reported is the delay that was last reported; nil when it has ended.
	reported *Delay
	// stuck is the alarm that reports a rollback that takes too long.
	stuck *alarm
}

func newMember(ctx context.Context, m *Member) *member {
	own := &member{Member: m, kept: len(m.Steps)}
	own.ctx, own.cancel = context.WithCancelCause(ctx)
	return own
}

// owed returns the index of the next step to roll back, which is the last step that needs a rollback; -1 when no step
// needs one.
func (m *member) owed() int {
	for i := m.kept - 1; i >= 0; i-- {
		if m.Steps[i].Rollback != nil && (i < m.begun || m.Steps[i].RollbackIfNotRun) {
			return i
		}
	}
	return -1
}

// key returns the member's pod as namespace/name.
func (m *Member) key() string { return m.Task.Namespace + "/" + m.Task.Name }

// contracts converts members to the exported type Member, which the Gatekeeper takes.
func contracts(members []*member) []*Member {
	out := make([]*Member, len(members))
	for i, m := range members {
		out[i] = m.Member
	}
	return out
}
