// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// outage is a harness whose API server cannot be reached before the time back. Calls fail after a moment until then.
type outage struct {
	*harness
	back time.Time
	err  error
}

// call is one request to the API server. It fails if the API server is away when the call begins.
func (o *outage) call(ctx context.Context) error {
	away := time.Now().Before(o.back)
	if err := spend(ctx, rand.N(time.Second), false); err != nil {
		return err
	}
	if away {
		return o.err
	}
	return nil
}

func (o *outage) Bind(ctx context.Context, m *Member) error {
	if err := o.call(ctx); err != nil {
		return err
	}
	return o.harness.Bind(ctx, m)
}

func (o *outage) GetBinding(ctx context.Context, m *Member) (PodBinding, error) {
	if err := o.call(ctx); err != nil {
		return PodBinding{}, err
	}
	return o.harness.GetBinding(ctx, m)
}

// step calls the API server. It is also the step's rollback.
func (o *outage) step(ctx context.Context, _ *api.TaskInfo, _ string) error { return o.call(ctx) }

// minimum reads the gang's minimum from the API server.
type minimum struct{ *outage }

func (m minimum) Quorum(ctx context.Context, tx *Transaction, members []*Member) error {
	if err := m.call(ctx); err != nil {
		return err
	}
	return m.outage.Quorum(ctx, tx, members)
}

// TestTransactionsGoOnSoonAfterAnOutage checks that transactions continue soon after an outage, however long the
// waits between their tries have become.
func TestTransactionsGoOnSoonAfterAnOutage(t *testing.T) {
	const (
		rounds = 100
		// soon is long enough for three calls.
		soon = 3 * time.Second
	)
	inAMinute := apierrors.NewTimeoutError("come again later", 60)
	tests := map[string]struct {
		err error
		// steps reports whether the member has a step, and reads whether the minimum is read from the API server.
		steps, reads bool
		want         string
	}{
		"a step failed, and its rollback does":    {err: errCut, steps: true, want: "released"},
		"... of which it is told to wait":         {err: inAMinute, steps: true, want: "released"},
		"the minimum cannot be read":              {err: inAMinute, reads: true, want: "bound"},
		"... because no server listens":           {err: errCut, reads: true, want: "bound"},
		"it is not known whether a Binding holds": {err: errCut, want: "bound"},
		"... of which it is told to wait then":    {err: inAMinute, want: "bound"},
		"a Binding is put off":                    {err: errThrottled, want: "bound"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var late int
			var worst time.Duration
			for range rounds {
				synctest.Test(t, func(t *testing.T) {
					away := 5*time.Second + rand.N(time.Minute)
					o := &outage{harness: newHarness(), back: time.Now().Add(away), err: tt.err}
					var gate Gatekeeper = o.harness
					if tt.reads {
						gate = minimum{o}
					}
					o.engine = New(gate, o, o, observer{o.harness})
					m := o.member(gang, "p0", "n", script{})
					if tt.steps {
						m.Steps = []Step{{Plugin: "a", PreBind: o.step, Rollback: o.step}}
					}
					if err := o.submit(gang, m); err != nil {
						t.Fatal(err)
					}
					time.Sleep(away)
					o.engine.RetryNow()
					if err := o.engine.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					result := o.results[0]
					took := result.Took - away
					worst = max(worst, took)
					if took > soon {
						late++
					}
					if bound := len(result.Bound) == 1; bound != (tt.want == "bound") {
						t.Errorf("bound: %v, want %s", bound, tt.want)
					}
				})
			}
			if late > 0 {
				t.Errorf("%d of %d transactions ended later than %v after the API server's return, the last after %v", late, rounds, soon, worst)
			}
		})
	}
}

// TestTheGateIsAskedAgain checks that the gate is called again without a limit while the API server does not answer
// and a member can be bound, and about five times otherwise. The count starts again when the API server returns.
func TestTheGateIsAskedAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}
	unauthorized := apierrors.NewUnauthorized("the server starts")
	tests := map[string]struct {
		gate []error
		// back is the number of times that the API server returns, a second apart. deleted reports whether the pod is
		// deleted after a minute.
		back    int
		deleted bool
		want    string
	}{
		"while no server answers":           {gate: slices.Repeat([]error{errCut}, 50), want: "a bind bound"},
		"while no server listens":           {gate: slices.Repeat([]error{refused}, 50), want: "a bind bound"},
		"when it answers with errors":       {gate: slices.Repeat([]error{errServer}, 4), want: "a bind bound"},
		"when it does not know us yet":      {gate: slices.Repeat([]error{unauthorized}, 4), want: "a bind bound"},
		"but not when it answers with more": {gate: slices.Repeat([]error{errServer}, 5), want: "a -a released(no quorum)"},
		"nor when calls take too long":      {gate: slices.Repeat([]error{context.DeadlineExceeded}, 5), want: "a -a released(no quorum)"},
		"and again when it is back":         {gate: slices.Repeat([]error{errServer}, 8), back: 1, want: "a bind bound"},
		"but for a member that is gone":     {gate: slices.Repeat([]error{errCut}, 1000), deleted: true, want: "a -a released(deleted)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *harness) {
				w.gate = tt.gate
				w.mustSubmit(t, gang, "p", 1, script{steps: steps("a")})
				for range tt.back {
					time.Sleep(time.Second)
					w.engine.RetryNow()
				}
				if tt.deleted {
					time.Sleep(time.Minute)
					w.deletePod("p0", errDeleted)
					synctest.Wait()
					traceIs("p0", tt.want)(t, w)
				}
				w.drain(t)
				w.wantTraces(t, tt.want)
			})
		})
	}
}

// TestAGangThatFailedDoesNotWaitForTheGate checks that a gang whose members have all failed does not wait for the
// Gatekeeper, which reads the minimum from the API server. It asks again and again only while a member can still be
// bound.
func TestAGangThatFailedDoesNotWaitForTheGate(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.gate = slices.Repeat([]error{errCut}, 1000)
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a", err: errStep}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.results) != 1 {
			t.Error("its transaction has not ended after a minute")
		}
		w.drain(t)
		w.wantTraces(t, "a -a released(a failed)")
	})
}

// TestWaitsStartOverAfterRetryNow checks that waits start over after RetryNow, as if the failed call had failed for
// the first time.
func TestWaitsStartOverAfterRetryNow(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		var tries []time.Time
		m := w.member(gang, "p0", "n", script{})
		m.Steps = []Step{{Plugin: "a", PreBind: func(context.Context, *api.TaskInfo, string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stepsBegun["a"]++
			return errCut
		}, Rollback: func(context.Context, *api.TaskInfo, string) error {
			tries = append(tries, time.Now())
			if len(tries) == 12 {
				return nil
			}
			return errCut
		}}}
		if err := w.submit(gang, m); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := len(tries)
		w.engine.RetryNow()
		synctest.Wait()
		if len(tries) != before+1 {
			t.Errorf("RetryNow made %d tries, want one", len(tries)-before)
		}
		w.drain(t)
		if pause, first := tries[before+1].Sub(tries[before]), defaultOptions().rollback.Duration; pause > 2*first {
			t.Errorf("the next wait is %v, want the wait of a first failure, about %v", pause, first)
		}
	})
}

// starting is an API server that returns from an outage and forbids all Bindings until it knows its roles.
type starting struct {
	*outage
	roles time.Time
}

func (s *starting) Bind(ctx context.Context, m *Member) error {
	forbidden := time.Now().Before(s.roles)
	if err := s.call(ctx); err != nil {
		return err
	}
	if forbidden {
		return errForbidden
	}
	return s.harness.Bind(ctx, m)
}

// TestAnAPIServerThatStartsLeavesNoGangPartiallyBound checks that a starting API server leaves no gang partially bound.
// Its first rejections, after the barrier, used to count as final, while members whose Bindings were sent later were
// bound.
func TestAnAPIServerThatStartsLeavesNoGangPartiallyBound(t *testing.T) {
	const members, rounds = 300, 20
	for name, unread := range map[string]bool{"away at the barrier": true, "away while binding": false} {
		t.Run(name, func(t *testing.T) {
			for round := range rounds {
				synctest.Test(t, func(t *testing.T) {
					away := 5*time.Second + time.Duration(round)*500*time.Millisecond
					s := &starting{&outage{harness: newHarness(), back: time.Now().Add(away), err: errCut}, time.Now().Add(away + 500*time.Millisecond)}
					s.harness.minimum[gang] = members
					var gate Gatekeeper = s.harness
					if unread {
						gate = minimum{s.outage}
					}
					s.engine = New(gate, s, s, observer{s.harness})
					if err := s.submit(gang, s.members(gang, make([]script, members)...)...); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(s.roles))
					s.engine.RetryNow()
					if err := s.engine.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					if n := len(s.results[0].Bound); n != members {
						t.Errorf("away for %v: %d of %d members are bound", away, n, members)
					}
				})
			}
		})
	}
}
