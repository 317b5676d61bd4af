// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"slices"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Bind replies as the pod's script says. After the end of the script, it behaves like a working API server.
func (w *harness) Bind(ctx context.Context, m *Member) error {
	p := w.pod(m)
	var r reply
	w.at(p, func() {
		p.log("bind")
		w.expect(p, !p.ran.running && !p.released && !p.bound, "bind in a wrong state")
		w.expect(p, p.ran.begun == len(p.script.steps) && p.ran.well == len(p.script.steps), "bind after %d steps, %d well", p.ran.begun, p.ran.well)
		w.expectGoing(p, "bind")
		w.expect(p, p.cancelled.IsZero() || !p.cancelled.Before(time.Now()), "bind after it was cancelled")
		w.expectQuorum(p)
		if p.calls.binds < len(p.script.binds) {
			r = p.script.binds[p.calls.binds]
		}
		p.calls.binds++
	})
	if err := spend(ctx, r.takes, false); err != nil {
		return err
	}
	var err error
	w.at(p, func() {
		err = w.answer(p, r)
		p.gone = p.gone || r.terminates
	})
	return err
}

func (w *harness) answer(p *pod, r reply) error {
	if r.overtaken && p.on == "" && !p.gone {
		p.on, p.foreign = "elsewhere", true
		if r.here {
			p.on = p.Node
		}
	}
	switch {
	case errors.Is(r.err, errForbidden), errors.Is(r.err, errInvalid): // An admission plugin runs before the storage.
		return r.err
	case p.gone:
		return errNotFound
	case p.on != "":
		return errConflict
	case r.lost:
	case r.late > 0:
		time.AfterFunc(r.late, func() {
			w.at(p, func() { w.apply(p) })
		})
	case r.err == nil || classify(r.err) == unclear:
		w.apply(p)
	}
	return r.err
}

// apply binds the pod.
func (w *harness) apply(p *pod) {
	if p.gone || p.on != "" {
		return
	}
	w.expect(p, !p.released, "bound after it was released")
	p.on = p.Node
}

// expectQuorum checks, at the first Binding of a transaction, that the members that passed all steps and were not
// cancelled reach the minimum of their gang.
func (w *harness) expectQuorum(p *pod) {
	tx := w.turns.inProgress[p.Task.Job]
	if tx == nil || !slices.Contains(tx.Members, p.Member) {
		w.expect(p, false, "bind outside the transaction's turn")
		return
	}
	var well []*Member
	for _, m := range tx.Members {
		q := w.pods[m.Task.UID]
		if q.calls.binds > 0 {
			return
		}
		cancelled := !q.cancelled.IsZero() && q.cancelled.Before(time.Now())
		if q.ran.well == len(q.script.steps) && !cancelled {
			well = append(well, m)
		}
	}
	for _, gang := range tx.Gangs() {
		terms, all, have := tx.TermsOf(gang), membersOf(tx.Members, gang), membersOf(well, gang)
		w.expect(p, !terms.Strict || terms.Count == CountSatisfied || have == all, "first bind with %d of %d members of strict gang %s", have, all, gang)
		if terms.Count == CountBound {
			for _, q := range w.pods {
				if q.Task.Job == gang && q.bound { // including pods deleted since, which the engine did not cause
					have++
				}
			}
		}
		w.expect(p, terms.Count == CountSatisfied || have >= w.minimum[gang], "first bind of gang %s with %d of %d", gang, have, w.minimum[gang])
	}
}

// landed reports whether the member's own Binding has bound the pod.
func (p *pod) landed() bool { return p.on == p.Node && !p.foreign }

// GetBinding fails as scripted, and afterwards returns the actual state.
func (w *harness) GetBinding(_ context.Context, m *Member) (fate PodBinding, err error) {
	p := w.pod(m)
	w.at(p, func() {
		p.log("lookup")
		w.expectGoing(p, "lookup")
		if p.calls.lookups < len(p.script.lookups) {
			err = p.script.lookups[p.calls.lookups]
		}
		p.calls.lookups++
		if err == nil {
			fate = PodBinding{Gone: p.gone, Node: p.on, Foreign: p.foreign}
		}
	})
	return fate, err
}

// deletePod deletes the pod in the API server, and then notifies the engine.
func (w *harness) deletePod(id api.TaskID, cause error) {
	w.mu.Lock()
	p := w.pods[id]
	p.gone, p.on = true, ""
	w.mu.Unlock()
	w.cancel(id, cause)
}

// cancel cancels the pod in the engine. The pod counts as cancelled once Cancel has returned.
func (w *harness) cancel(id api.TaskID, cause error) {
	p := w.pods[id]
	w.engine.Cancel(p.Task.Job, id, cause)
	w.at(p, func() { p.cancel() })
}

// cancel records that the engine knows that the pod must not be bound.
func (p *pod) cancel() {
	if p.submitted {
		p.cancelled = time.Now()
	}
}

func (w *harness) deleteNode(node string, cause error) {
	w.engine.CancelNode(node, cause)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pods {
		if p.Node == node {
			p.cancel()
		}
	}
}

func (w *harness) abort() {
	w.engine.Abort()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aborted = time.Now()
}

func (w *harness) pod(m *Member) *pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[m.Task.UID]
}

// submit submits the members to the engine. Only the first transaction in the queue of a gang may run.
func (w *harness) submit(gang api.JobID, members ...*Member) error {
	return w.submitGangGroup(gang, nil, members...)
}

// submitGangGroup does the same for a gang group. The gang is the first of the group.
func (w *harness) submitGangGroup(gang api.JobID, gangGroup *GangGroup, members ...*Member) error {
	t := &Transaction{Gang: gang, GangGroup: gangGroup, Members: members, Lost: map[*Member]error{}}
	w.mu.Lock()
	for _, m := range members {
		if err := w.pods[m.Task.UID].script.lost; err != nil {
			t.Lost[m] = err
		}
	}
	w.turns.add(t)
	w.mu.Unlock()
	err := w.engine.Submit(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.turns.remove(t, t.Gangs())
		return err
	}
	for _, m := range members {
		w.pods[m.Task.UID].submitted = true
	}
	return nil
}

func (w *harness) Bound(m *Member) {
	p := w.pod(m)
	inFlight := w.engine.InFlight(p.Task.Job)
	w.at(p, func() {
		p.log("bound")
		w.expect(p, inFlight, "bound in a gang that is not in flight")
		w.expect(p, !p.bound && !p.released, "settled twice")
		w.expect(p, p.landed() || p.gone, "said to be bound on %s, is on %q", p.Node, p.on)
		p.bound = true
	})
}

func (w *harness) Released(m *Member, cause error) {
	p := w.pod(m)
	rollingBack := w.engine.Failing(p.Task.Job)
	w.at(p, func() {
		p.log("released(" + kind(cause) + ")")
		w.expect(p, rollingBack, "released in a gang that is not rolling back")
		w.expect(p, !p.bound && !p.released, "settled twice")
		w.expect(p, !p.ran.running, "released while a step runs")
		w.expect(p, !p.landed(), "released and bound")
		w.expect(p, p.owed() < 0, "released with step %d not rolled back", p.owed())
		p.released, p.held = true, false
	})
}

func (w *harness) Ended(r Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.turns.inProgress[r.Gang].Members {
		p := w.pods[m.Task.UID]
		abandoned := slices.ContainsFunc(r.Abandoned, func(f Failure) bool { return f.Member == m })
		w.expect(p, p.bound || p.released || abandoned, "not settled at the end")
		w.expect(p, p.bound == slices.Contains(r.Bound, m), "result and ledger differ")
		w.expect(p, p.released == slices.ContainsFunc(r.Failed, func(f Failure) bool { return f.Member == m }), "result and ledger differ")
		w.expect(p, !abandoned || !w.engine.going(), "abandoned without Abort")
	}
	w.expectFair(r)
	w.results = append(w.results, r)
	for _, gang := range r.Gangs {
		w.expect(nil, w.turns.inProgress[gang] == w.turns.inProgress[r.Gang], "ended before a former transaction of gang %s", gang)
	}
	w.turns.remove(w.turns.inProgress[r.Gang], r.Gangs)
}

// expectFair checks that members fail for lack of a quorum only if their gang cannot be bound, and that then no
// member is bound.
func (w *harness) expectFair(r Result) {
	givenUp := 0
	for _, f := range r.Failed {
		p := w.pods[f.Member.Task.UID]
		w.expect(p, len(r.Bound) == 0 || !errors.Is(f.Err, ErrDraining), "cut short in a gang of which %d are bound", len(r.Bound))
		if errors.Is(f.Err, ErrNoQuorum) {
			givenUp++
		}
	}
	if givenUp == 0 {
		return
	}
	p := w.pods[r.Failed[0].Member.Task.UID]
	w.expect(p, len(r.Bound) == 0 && r.QuorumErr != nil, "given up for its gang, of which %d are bound", len(r.Bound))
	w.expect(p, w.lacks(r) || transient(r.QuorumErr), "given up with %d members left, for %v", givenUp, r.QuorumErr)
}

// lacks reports whether a gang of the gang group cannot be bound: too few of its members remain without a failure of
// their own, or it is strict and one of its members failed.
func (w *harness) lacks(r Result) bool {
	tx := w.turns.inProgress[r.Gang]
	for _, gang := range tx.Gangs() {
		well, lost := 0, 0
		for _, f := range slices.Concat(r.Failed, r.Abandoned) {
			switch {
			case f.Member.Task.Job != gang:
			case errors.Is(f.Err, ErrNoQuorum):
				well++
			default:
				lost++
			}
		}
		terms := tx.TermsOf(gang)
		if w.enough(terms, well) != nil || terms.Strict && terms.Count != CountSatisfied && lost > 0 {
			return true
		}
	}
	return false
}

func (e *Engine) going() bool { return e.ctx.Err() == nil }

// kind returns the name of the error in a trace.
func kind(err error) string {
	var step *StepError
	var refusal *BindError
	var panicked *PanicError
	switch {
	case errors.As(err, &step) && errors.As(err, &panicked):
		return step.Plugin + " panicked"
	case errors.As(err, &step) && errors.Is(err, context.DeadlineExceeded):
		return step.Plugin + " overdue"
	case errors.As(err, &step):
		return step.Plugin + " failed"
	case errors.Is(err, ErrPodGone):
		return "pod gone"
	case errors.As(err, &refusal):
		return "bind failed"
	case errors.Is(err, ErrNoQuorum):
		return "no quorum"
	}
	return err.Error()
}
