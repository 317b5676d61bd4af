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
//	           a place in         last step        barrier: the gang
//	           the gang is free   returned nil     has enough               Binding is known to hold
//	waiting ───────────────► preparing ─────► passed ─────────────► binding ────────────────────────► bound
//	   │                         │              │                      │
//	   │ cancelled               │ step failed  │ cancelled            │ refused for good, overtaken,
//	   │                         │ or overdue,  │                      │ tried too often, or
//	   │                         │ cancelled    │                      │ cancelled and known not to hold
//	   ▼                         ▼              ▼                      ▼
//	failed ◄─────────────────────┴──────────────┴──────────────────────┘
//	   │
//	   ├───────► released     every step that has begun, or is marked with RollbackUnbegun, is rolled back
//	   └───────► abandoned    Abort came before that, or before the bind was settled
//
// A member without steps goes from waiting to passed at once, and one whose bind Abort left unsettled goes from
// binding to abandoned. "Cancelled" is all of: Cancel, CancelNode, a Drain cut short, Abort, and the gang falling
// below its minimum. A member leaves preparing at once when it is cancelled or a step is overdue; its chain's
// goroutine lives on until that step returns, and rolls back then. The states bound, released and abandoned are
// final: the Ledger is told before the first two are entered.
type member struct {
	*Member
	// ctx ends, with the cause, when the member fails or a bind under way is to be given up.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// What follows is guarded by run.mu.

	state memberState
	// err is why the member failed; it is set once.
	err error
	// begun counts the steps, from the first on, that have begun; running is set while the last of these runs.
	begun   int
	running bool
	// slow is true if the member is preparing and has given its place to another.
	slow bool
	// kept counts the steps, from the first on, that are not rolled back: those after them are, or never need to be.
	kept int
	// undoErr is the last failure of the rollback of the last step that is owed one.
	undoErr error
	// holds is true once it is clear that its Binding holds, right before the Ledger is told.
	holds bool
	// bindErr is the last failure of its Bindings and look-ups.
	bindErr error
	// since is when the step that runs began, or the rollback of the last step that is owed one.
	since time.Time
	// waitsFrom is when the member failed, or when what it was told to wait for had ended.
	waitsFrom time.Time
	// told is the delay that was reported last; nil when that has ended.
	told *Delay
	// stuck reports a rollback that takes long.
	stuck *alarm
}

func newMember(ctx context.Context, m *Member) *member {
	own := &member{Member: m, kept: len(m.Steps)}
	own.ctx, own.cancel = context.WithCancelCause(ctx)
	return own
}

// owed is the last step that is to be rolled back if the member is not bound; -1 when there is none.
func (m *member) owed() int {
	for i := m.kept - 1; i >= 0; i-- {
		if m.Steps[i].Rollback != nil && (i < m.begun || m.Steps[i].RollbackUnbegun) {
			return i
		}
	}
	return -1
}

// key is the member's pod as namespace/name.
func (m *Member) key() string { return m.Task.Namespace + "/" + m.Task.Name }

// move is called with mu held.
func (r *run) move(m *member, to memberState) {
	r.count[m.state]--
	r.count[to]++
	m.state = to
	if m.slow {
		m.slow = false
		r.slow--
	}
}

// lose makes err the failure of a member before the barrier, and tells whether it did. It is called with mu held.
func (r *run) lose(m *member, err error) bool {
	switch m.state {
	case stateWaiting, statePassed:
		r.orphans = append(r.orphans, m)
	case statePreparing: // its chain rolls it back
	default:
		return false
	}
	r.lost++
	r.discard(m, err)
	return true
}

// discard is called with mu held.
func (r *run) discard(m *member, err error) {
	m.err = err
	r.move(m, stateFailed)
	m.waitsFrom = time.Now()
	if !m.running {
		m.since = m.waitsFrom
	}
	if m.running || m.owed() >= 0 {
		m.stuck = after(r.e.stuckAfter, func() { r.tell(m) })
	}
}

// fail fails the member when it has not passed the barrier. When it has, and is being bound, it makes the bind be
// given up.
func (r *run) fail(m *member, err error) {
	r.mu.Lock()
	r.lose(m, err)
	r.mu.Unlock()
	m.cancel(err)
	r.notify()
}

// failAll fails, as one, all members that have not passed the barrier, and lets the others be.
func (r *run) failAll(err error) {
	var lost []*member
	r.mu.Lock()
	for _, m := range r.members {
		if r.lose(m, err) {
			lost = append(lost, m)
		}
	}
	r.mu.Unlock()
	for _, m := range lost {
		m.cancel(err)
	}
	r.notify()
}

// loseEarly fails the members that were lost before the transaction was submitted.
func (r *run) loseEarly() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if err, lost := r.tx.Lost[m.Member]; lost && r.lose(m, err) {
			m.cancel(err)
		}
	}
}

// cancel fails the matching members, as fail does, and as one: what is left of the gang fails of nothing else meanwhile.
func (r *run) cancel(match func(*member) bool, cause error) {
	var matching []*member
	r.mu.Lock()
	for _, m := range r.members {
		if match(m) {
			r.lose(m, cause)
			matching = append(matching, m)
		}
	}
	r.mu.Unlock()
	for _, m := range matching {
		m.cancel(cause)
	}
	r.notify()
}

// progress counts the members that have neither passed nor failed, and those lost so far.
func (r *run) progress() (undecided, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[stateWaiting] + r.count[statePreparing], r.lost
}

// alive returns the members that have not failed before the barrier, and how many have.
func (r *run) alive() (alive []*member, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if m.state <= statePassed {
			alive = append(alive, m)
		}
	}
	return alive, r.lost
}

// contracts are the members as the Gatekeeper knows them.
func contracts(members []*member) []*Member {
	out := make([]*Member, len(members))
	for i, m := range members {
		out[i] = m.Member
	}
	return out
}
