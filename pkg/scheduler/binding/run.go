// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"sync"
	"time"
)

// phase is how far a transaction has come.
type phase int

const (
	phaseQueued phase = iota
	phasePreBind
	phaseBind
	phaseRollback
	phaseEnded
)

func (p phase) String() string {
	return [...]string{"queued", "in pre-bind", "binding", "rolling back", "ended"}[p]
}

// run is a transaction under way. One goroutine, run.run, takes it through its phases:
//
//	         earlier              every member passed or failed,
//	         transactions ended   the passed members are enough
//	queued ────────────────► pre-bind ─────────────────────────► bind ───────┐ all bound
//	                            │                                            │ or released
//	                            │ too few members are left, found            ▼
//	                            │ early or at the barrier                  ended
//	                            ▼                                            ▲
//	                         rollback ───────────────────────────────────────┘
//
// The transition from pre-bind to bind is the barrier. It happens under roster.mu, when the run has a slot for the
// first Binding and no member was lost since the Gatekeeper found enough passed members. So no loss comes between this
// answer of the Gatekeeper and the first Binding. After the barrier, members succeed or fail one by one.
type run struct {
	e         *Engine
	tx        *Transaction
	roster    *roster
	submitted time.Time
	// slots requests slots of the engine for calls of this transaction.
	slots *requester
	// former are the earlier transactions of the same gangs that were in flight at submission. Each channel is closed
	// when that transaction ends.
	former []<-chan struct{}
	// ended is closed when the transaction has ended.
	ended chan struct{}
	// stop releases the members' contexts.
	stop context.CancelFunc
	// undoing holds one element for each rollback that runs.
	undoing chan struct{}
	// work counts the goroutines that run chains, rollbacks and binds of members; run.run waits for them.
	work sync.WaitGroup
	// quorumErr says what the gang lacked for its minimum; only run.run uses it.
	quorumErr error
}

func newRun(e *Engine, t *Transaction) *run {
	r := &run{
		e: e, tx: t,
		submitted: time.Now(),
		ended:     make(chan struct{}),
		undoing:   make(chan struct{}, e.options.perGang),
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(e.ctx)
	r.roster = newRoster(ctx, t.Members, e.observer, e.options.stuckAfter)
	return r
}

// run takes the transaction from its submission to its end.
func (r *run) run() {
	r.e.reportInFlight()
	r.awaitPreviousTransactions()
	r.prepare()
	late := r.roster.setReady()
	if chosen, slot := r.barrier(); len(chosen) > 0 {
		r.bindAll(chosen, slot)
	}
	late.stop()
	r.work.Wait()
	r.end()
}

// awaitPreviousTransactions waits until earlier transactions of the same gangs have ended. Members that fail during
// that time are released at once.
func (r *run) awaitPreviousTransactions() {
	for len(r.former) > 0 {
		r.startPendingRollbacks()
		select {
		case <-r.former[0]:
			r.former = r.former[1:]
		case <-r.roster.changed:
		}
	}
	r.roster.enter(phasePreBind)
}

// judgeEvery is the shortest time between two checks whether a gang that has lost members can still reach its minimum.
// Each check reads the gang's PodGroup and counts its tasks, and a gang often loses hundreds of members at once.
const judgeEvery = 100 * time.Millisecond

// prepare starts the members' chains and returns when each member has passed or failed. As soon as the gang can no
// longer reach its minimum because of lost members, prepare fails the other members, too. Their resources are then free
// again soon.
func (r *run) prepare() {
	var (
		judged int
		asked  time.Time
		again  *alarm
	)
	defer func() { again.stop() }()
	for {
		r.startPendingRollbacks()
		undecided, lost := r.roster.progress()
		if undecided == 0 {
			return
		}
		if early := judgeEvery - time.Since(asked); lost > judged && early <= 0 {
			again.stop()
			again = nil
			if r.abortIfBelowMinimum() { // otherwise further members failed meanwhile: judge again
				judged = lost
			}
			asked = time.Now()
			continue // abortIfBelowMinimum may have taken the value of roster.changed, so read the members again
		} else if lost > judged && again == nil {
			again = after(early, r.roster.notify)
		}
		r.startWaiting()
		<-r.roster.changed
	}
}

// end reports the end of the transaction to ledger and observer.
func (r *run) end() {
	r.stop()
	result := r.result()
	r.roster.enter(phaseEnded)
	r.e.ledger.Ended(result)
	r.e.observer.TransactionDone(result)
	r.e.forget(r)
	close(r.ended)
	r.e.reportInFlight()
}

func (r *run) result() Result {
	result := Result{Gang: r.tx.Gang, Gangs: r.tx.Gangs(), QuorumErr: r.quorumErr, Took: time.Since(r.submitted)}
	for _, m := range r.roster.members {
		switch m.state {
		case stateBound:
			result.Bound = append(result.Bound, m.Member)
		case stateAbandoned:
			result.Abandoned = append(result.Abandoned, Failure{Member: m.Member, Err: m.err})
		default:
			result.Failed = append(result.Failed, Failure{Member: m.Member, Err: m.err})
		}
	}
	return result
}
