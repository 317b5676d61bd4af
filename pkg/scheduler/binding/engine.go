// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"slices"
	"sync"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Engine runs bind transactions. Transactions of different gangs run in parallel. Transactions that have a gang in
// common run one after the other, in the order of submission. All methods are safe for concurrent use, and only Drain
// blocks.
type Engine struct {
	gate     Gatekeeper
	binder   Binder
	ledger   Ledger
	observer Observer
	options  options

	// ctx ends when Abort is called, and is the parent of every other context of the engine.
	ctx   context.Context
	abort context.CancelCauseFunc
	// slots bounds the number of concurrent calls to the API server.
	slots *prioritySemaphore

	// mu guards the maps and counters below; it is never held across a call.
	mu sync.Mutex
	// gangs lists, for each gang, its transactions that have not ended, the oldest first. A transaction of several gangs
	// is listed for each of them. A gang without transactions has no entry.
	gangs    map[api.JobID][]*run
	draining bool
	// submitted is the number of transactions submitted so far.
	submitted int64
	// work counts the goroutines of transactions. No goroutine is added once draining is set.
	work sync.WaitGroup
	// idle is closed when the engine is draining and no transaction is left.
	idle chan struct{}
	// again is closed and replaced to end all current pauses between retries.
	again chan struct{}

	// gauge serializes calls of reportInFlight, which reports the number of transactions to the observer. So the last
	// number that the observer gets is the newest.
	gauge sync.Mutex
}

// New returns an engine without transactions. It has no goroutine of its own; Drain waits for the goroutines of its transactions.
func New(gate Gatekeeper, binder Binder, ledger Ledger, observer Observer, opts ...Option) *Engine {
	e := &Engine{
		gate: gate, binder: binder, ledger: ledger, observer: observer,
		options: defaultOptions(),
		gangs:   map[api.JobID][]*run{},
		idle:    make(chan struct{}),
		again:   make(chan struct{}),
	}
	for _, opt := range opts {
		opt(&e.options)
	}
	e.ctx, e.abort = context.WithCancelCause(context.Background())
	e.slots = newPrioritySemaphore(e.options.apiCalls)
	return e
}

// Submit accepts the transaction and returns at once. Until the Ledger reports a member bound or released, the caller
// must not use the member. After Drain or Abort, Submit accepts no transaction and returns ErrDraining.
func (e *Engine) Submit(t *Transaction) error {
	r := newRun(e, t)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		r.stop()
		return ErrDraining
	}
	r.roster.failStaleMembers(t.Lost)
	e.submitted++
	r.slots = newRequester(t.Gang, e.submitted)
	for _, gang := range t.Gangs() {
		former := e.gangs[gang]
		if len(former) > 0 {
			r.former = append(r.former, former[len(former)-1].ended)
		}
		e.gangs[gang] = append(former, r)
	}
	e.work.Go(r.run)
	return nil
}

// InFlight reports whether the gang has a transaction that has not ended.
func (e *Engine) InFlight(gang api.JobID) bool {
	return slices.ContainsFunc(e.runsOf(gang), func(r *run) bool { return r.roster.open() })
}

// GroupsInFlight returns how many transactions with several gangs have not ended.
func (e *Engine) GroupsInFlight() (n int) {
	for _, r := range e.runs() {
		if len(r.tx.Gangs()) > 1 {
			n++
		}
	}
	return n
}

// Failing reports whether the gang has a transaction that has not ended and has failed members, released or not. These
// members must not be placed again before the transaction ends, because the gang's backoff begins only then.
func (e *Engine) Failing(gang api.JobID) bool {
	return slices.ContainsFunc(e.runsOf(gang), func(r *run) bool { return r.roster.failing() })
}

// Cancel fails one member of the gang with the cause, such as the deletion of its pod. A bound member stays bound. If a
// Binding was already sent, Cancel takes effect once it is known whether the pod is bound.
func (e *Engine) Cancel(gang api.JobID, task api.TaskID, cause error) {
	for _, r := range e.runsOf(gang) {
		r.roster.cancel(func(m *member) bool { return m.Task.UID == task }, cause)
	}
}

// CancelGang fails all members of the gang with a cause such as the deletion of its PodGroup. As with Cancel, a bound
// member stays bound.
func (e *Engine) CancelGang(gang api.JobID, cause error) {
	for _, r := range e.runsOf(gang) {
		r.roster.cancel(func(m *member) bool { return m.Task.Job == gang }, cause)
	}
}

// CancelNode fails all members that are placed on the node with the cause. As with Cancel, a bound member stays bound.
func (e *Engine) CancelNode(node string, cause error) {
	for _, r := range e.runs() {
		r.roster.cancel(func(m *member) bool { return m.Node == node }, cause)
	}
}

// RetryNow ends the pauses between the tries of rollbacks, reads and Bindings, for example because the API server has
// recovered. If a call is running and then fails, its next pause ends at once, too. Later failures of the call are
// followed by pauses as after a first failure.
func (e *Engine) RetryNow() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.again)
	e.again = make(chan struct{})
}

// runsOf returns the gang's transactions, the last one first. A transaction starts when the one before it ends. So a
// caller that ends them in this order prevents the later transactions from starting.
func (e *Engine) runsOf(gang api.JobID) []*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	runs := slices.Clone(e.gangs[gang])
	slices.Reverse(runs)
	return runs
}

// runs returns all transactions. For each gang, the last transaction comes first, as in runsOf.
func (e *Engine) runs() []*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*run
	for gang, runs := range e.gangs {
		for _, r := range slices.Backward(runs) {
			if r.tx.Gang == gang {
				all = append(all, r)
			}
		}
	}
	return all
}

// forget drops a transaction that has ended. It is the oldest transaction of each of its gangs.
func (e *Engine) forget(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, gang := range r.tx.Gangs() {
		if left := e.gangs[gang][1:]; len(left) > 0 {
			e.gangs[gang] = left
		} else {
			delete(e.gangs, gang)
		}
	}
}

func (e *Engine) reportInFlight() {
	e.gauge.Lock()
	defer e.gauge.Unlock()
	e.observer.InFlight(len(e.runs()))
}
