// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
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
//	         former one of        every member passed or failed,
//	         the gang ended       those that passed are enough
//	queued ────────────────► pre-bind ─────────────────────────► bind ───────┐ all bound
//	                            │                                            │ or released
//	                            │ too few are left, whether found            ▼
//	                            │ early or at the barrier                  ended
//	                            ▼                                            ▲
//	                         rollback ───────────────────────────────────────┘
//
// The step from pre-bind to bind is the barrier. It is taken under mu, with a slot for the first Binding in hand and
// no member lost since the verdict, so that nothing comes between the verdict and the first Binding. From there on
// members succeed or fail one by one.
type run struct {
	e         *Engine
	tx        *Transaction
	members   []*member
	submitted time.Time
	// slots are the transaction's share of the engine's.
	slots *contender
	// former are closed when the gangs' former transactions have ended, those that were in flight.
	former []<-chan struct{}
	// ended is closed at the very end.
	ended chan struct{}
	// stop frees the members' contexts.
	stop context.CancelFunc
	// changed wakes run.run after members passed or failed.
	changed chan struct{}
	// undoing holds one element for each rollback under way.
	undoing chan struct{}
	// work are the chains, rollbacks and binds of members; run.run waits for them.
	work sync.WaitGroup
	// quorumErr is what the gang lacked; only run.run uses it.
	quorumErr error

	// telling keeps reports of delays in the order of what they tell.
	telling sync.Mutex
	// mu is held for book-keeping alone, never across a call. It guards what follows, and the state of members.
	mu    sync.Mutex
	phase phase
	// count is the number of members in each state.
	count [numStates]int
	// next is the first member that may be waiting.
	next int
	// slow counts the members in preparing that have given their place to another.
	slow int
	// lost counts the members that failed before the barrier.
	lost int
	// ready is when every member had passed its steps or failed.
	ready time.Time
	// gateErr is why the gang's minimum could not be read when that was tried last.
	gateErr error
	// cutShort is true if a Drain is about to abort: every wait is worth telling.
	cutShort bool
	// orphans are failed members that no goroutine is rolling back yet.
	orphans []*member
}

func newRun(e *Engine, t *Transaction) *run {
	r := &run{
		e: e, tx: t,
		submitted: time.Now(),
		ended:     make(chan struct{}),
		changed:   make(chan struct{}, 1),
		undoing:   make(chan struct{}, e.perGang),
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(e.ctx)
	r.members = make([]*member, len(t.Members))
	for i, m := range t.Members {
		r.members[i] = newMember(ctx, m)
	}
	r.count[stateWaiting] = len(r.members)
	return r
}

// run takes the transaction from its submission to its end.
func (r *run) run() {
	r.e.reportInFlight()
	r.awaitTurn()
	r.prepare()
	late := r.setReady()
	if chosen, slot := r.barrier(); len(chosen) > 0 {
		r.bindAll(chosen, slot)
	}
	late.stop()
	r.work.Wait()
	r.end()
}

// awaitTurn waits for the gangs' former transactions. Members that fail meanwhile are released at once.
func (r *run) awaitTurn() {
	for len(r.former) > 0 {
		r.adoptOrphans()
		select {
		case <-r.former[0]:
			r.former = r.former[1:]
		case <-r.changed:
		}
	}
	r.enter(phasePreBind)
}

// judgeEvery is how often, at most, it is asked whether a gang that loses members can reach its minimum yet: each time
// costs a read of its PodGroup and a count of its tasks, and members of a gang are mostly lost by the hundred.
const judgeEvery = 100 * time.Millisecond

// prepare starts the members' chains and returns when each has passed or failed. As soon as those lost put the
// minimum out of reach the others are failed too, so that their capacity is free again soon.
func (r *run) prepare() {
	var (
		judged int
		asked  time.Time
		again  *alarm
	)
	defer func() { again.stop() }()
	for {
		r.adoptOrphans()
		undecided, lost := r.progress()
		if undecided == 0 {
			return
		}
		if early := judgeEvery - time.Since(asked); lost > judged && early <= 0 {
			again.stop()
			again = nil
			r.abortIfHopeless()
			judged, asked = lost, time.Now()
		} else if lost > judged && again == nil {
			again = after(early, r.notify)
		}
		r.startWaiting()
		<-r.changed
	}
}

// end closes the books of the transaction.
func (r *run) end() {
	r.stop()
	result := r.result()
	r.enter(phaseEnded)
	r.e.ledger.Ended(result)
	r.e.observer.TransactionDone(result)
	r.e.forget(r)
	close(r.ended)
	r.e.reportInFlight()
}

func (r *run) result() Result {
	result := Result{Gang: r.tx.Gang, Gangs: r.tx.Gangs(), QuorumErr: r.quorumErr, Took: time.Since(r.submitted)}
	for _, m := range r.members {
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

func (r *run) enter(p phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
}

// notify wakes run.run, if it waits, and else lets its next wait return at once.
func (r *run) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// forgetChange drops a wake-up whose cause the caller is about to see for itself.
func (r *run) forgetChange() {
	select {
	case <-r.changed:
	default:
	}
}

func (r *run) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase != phaseEnded
}

func (r *run) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[stateFailed]+r.count[stateReleased] > 0
}

func (r *run) describe() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	unsettled := len(r.members) - r.count[stateBound] - r.count[stateReleased] - r.count[stateAbandoned]
	return fmt.Sprintf("gang %s is %s with %d of %d members unsettled%s", r.tx.Gang, r.phase, unsettled, len(r.members), r.firstDelay())
}
