// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// bubble runs the test with a harness under a fake clock, and then fails the test for each violation that the harness
// found.
func bubble(t *testing.T, f func(t *testing.T, w *harness), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(opts...)
		f(t, w)
		w.noViolations(t)
	})
}

// mustSubmit submits a transaction of pods named after the prefix.
func (w *harness) mustSubmit(t *testing.T, gang api.JobID, prefix string, minimum int, scripts ...script) {
	t.Helper()
	w.setMinimum(gang, minimum)
	var members []*Member
	for i, s := range scripts {
		name := fmt.Sprintf("%s%d", prefix, i)
		members = append(members, w.member(gang, name, "node-"+name, s))
	}
	if err := w.submit(gang, members...); err != nil {
		t.Fatal(err)
	}
}

func (w *harness) wantTraces(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.traces()); diff != "" {
		t.Errorf("unexpected traces (-want +got):\n%s", diff)
	}
}

func slowStep(d time.Duration) script { return script{steps: []act{{plugin: "a", takes: d}}} }

func TestSlowStepDoesNotDelayAnotherGang(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		hung := script{steps: []act{{plugin: "a", takes: time.Hour, deaf: true}}}
		for i := range 100 {
			w.mustSubmit(t, gang, "p"+string(rune('A'+i)), 1, hung)
		}
		w.mustSubmit(t, "ns/quick", "q", 1, script{steps: steps("a")})
		synctest.Wait()
		traceIs("q0", "a bind bound")(t, w)
		w.drain(t)
	})
}

func TestTransactionsOfAGangRunInTurn(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, slowStep(10*time.Second))
		w.mustSubmit(t, gang, "q", 1, slowStep(10*time.Second))
		w.mustSubmit(t, gang, "r", 1, slowStep(10*time.Second))
		time.Sleep(15 * time.Second)
		w.wantTraces(t, "a bind bound", "a", "")
		w.drain(t)
		w.wantTraces(t, "a bind bound", "a bind bound", "a bind bound")
	})
}

func TestNextTransactionWaitsForTheRollbacksOfTheFormer(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a", err: errStep, undoTakes: 10 * time.Second}}})
		w.mustSubmit(t, gang, "q", 1, script{})
		time.Sleep(10*time.Second - 1)
		w.wantTraces(t, "a", "")
		w.drain(t)
		w.wantTraces(t, "a -a released(a failed)", "bind bound")
	})
}

func TestQueuedMemberIsReleasedWithoutWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, slowStep(10*time.Second))
		w.mustSubmit(t, gang, "q", 1, script{})
		w.mustSubmit(t, gang, "r", 1, script{})
		w.deletePod("q0", errDeleted)
		synctest.Wait()
		w.wantTraces(t, "a", "released(deleted)", "")
		w.drain(t)
		w.wantTraces(t, "a bind bound", "released(deleted)", "bind bound")
	})
}

func TestInFlightAndFailing(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		type state struct{ InFlight, Failing bool }
		want := func(want state) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, state{w.engine.InFlight(gang), w.engine.Failing(gang)}); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
		}
		want(state{})
		w.mustSubmit(t, gang, "p", 1,
			script{steps: []act{{plugin: "a", takes: 2 * time.Second, err: errStep, undoTakes: 2 * time.Second}}}, slowStep(6*time.Second))
		time.Sleep(time.Second)
		want(state{InFlight: true})
		time.Sleep(2 * time.Second)
		want(state{InFlight: true, Failing: true})
		time.Sleep(2 * time.Second)
		want(state{InFlight: true, Failing: true}) // The member is released, and the gang's backoff has not begun.
		time.Sleep(2 * time.Second)
		want(state{})
	})
}

// lastWord is a ledger that reads the state of the gang when its transaction ends.
type lastWord struct {
	*harness
	inFlight []bool
}

func (l *lastWord) Ended(r Result) {
	l.inFlight = append(l.inFlight, l.engine.InFlight(r.Gang))
	l.harness.Ended(r)
}

// TestAGangIsNotInFlightWhenItsEndIsReported checks that the gang is no longer in flight when the end of its
// transaction is reported.
func TestAGangIsNotInFlightWhenItsEndIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		l := &lastWord{harness: w}
		w.engine.ledger = l
		w.mustSubmit(t, gang, "p", 1, slowStep(time.Second))
		w.drain(t)
		if diff := cmp.Diff([]bool{false}, l.inFlight); diff != "" {
			t.Errorf("in flight when its end was reported (-want +got):\n%s", diff)
		}
	})
}

func TestChainsOfOneGangAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		quick := slowStep(placeTime / 2)
		w.mustSubmit(t, gang, "p", 1, quick, quick, quick, quick, quick)
		w.drain(t)
		if w.peak != 2 {
			t.Errorf("%d chains at a time, want 2", w.peak)
		}
	}, withMemberParallelism(2))
}

// TestWaitingStepsTakeNoPlace checks that members with long steps, such as the creation of a volume, wait together. A
// gang of 512 whose steps take 29 s each must not need eight rounds of such steps.
func TestWaitingStepsTakeNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 512, slices.Repeat([]script{slowStep(29 * time.Second)}, 512)...)
		w.drain(t)
		if took := w.results[0].Took; took > 30*time.Second {
			t.Errorf("the gang took %v, want its members to wait together", took)
		}
	})
}

// TestAStepThatWaitsFreesOnePlace checks that a long step lets one more member start, and that its later cancellation
// does not let another one start.
func TestAStepThatWaitsFreesOnePlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		waits, quick := slowStep(20*time.Second), slowStep(placeTime/2)
		w.mustSubmit(t, gang, "p", 1, waits, waits, quick, quick, quick, quick, quick, quick)
		time.Sleep(placeTime + placeTime/4)
		w.deletePod("p0", errDeleted)
		w.deletePod("p1", errDeleted)
		synctest.Wait()
		r := w.engine.runsOf(gang)[0]
		r.roster.mu.Lock()
		running := r.roster.count[statePreparing]
		r.roster.mu.Unlock()
		if running != 2 {
			t.Errorf("%d chains are under way, want 2", running)
		}
		w.drain(t)
	}, withMemberParallelism(2))
}

func TestDrainLetsTransactionsFinish(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, slowStep(10*time.Second))
		w.mustSubmit(t, gang, "q", 1, script{})
		w.drain(t)
		w.wantTraces(t, "a bind bound", "bind bound")
		if err := w.submit(gang, w.member(gang, "r0", "n", script{})); !errors.Is(err, ErrDraining) {
			t.Errorf("Submit after Drain returned %v, want ErrDraining", err)
		}
		w.drain(t) // again, without any wait
	})
}

func TestDrainCutShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, "ns/binding", "b", 1, script{binds: []reply{{takes: 4 * time.Second, err: errThrottled}}})
		w.mustSubmit(t, "ns/preparing", "p", 1, script{steps: []act{{plugin: "a"}, {plugin: "b", takes: 20 * time.Second}}})
		w.mustSubmit(t, "ns/preparing", "q", 1, script{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := w.engine.Drain(ctx); err != nil {
			t.Error(err)
		}
		w.wantTraces(t, "bind bind bound", "a b -b -a released("+ErrDraining.Error()+")", "released("+ErrDraining.Error()+")")
	})
}

func TestDrainReturnsAndNamesUnfinishedMembers(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a", takes: time.Hour, deaf: true}}}, script{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := w.engine.Drain(ctx)
		want := "1 bind transactions did not end within 20s after they were cut short: gang ns/gang is rolling back, with 1 of 2 members neither bound nor released, " +
			"pod ns/p0: pre-bind plugin a on node node-p0 timed out or was cancelled, and has not returned (running since 2000-01-01T00:00:00Z); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler"
		if err == nil || err.Error() != want {
			t.Errorf("Drain returned %v, want %s", err, want)
		}
		if len(w.reportedDelays()) != 1 || !strings.Contains(want, w.reportedDelays()[0]) {
			t.Errorf("reported %q, want that the step has not returned", w.reportedDelays())
		}
		if took := time.Since(start); took != 25*time.Second {
			t.Errorf("Drain took %v, want 25s", took)
		}
		w.drain(t) // The late step ends.
		w.wantTraces(t, "a", "released("+ErrDraining.Error()+")")
	})
}

// TestAWaitThatADrainReportedMayEnd checks that a wait that a drain reported may still end before the process ends.
func TestAWaitThatADrainReportedMayEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a", takes: 5 * time.Second, deaf: true, noUndo: true}}})
		synctest.Wait()
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.engine.Drain(cut); err == nil {
			t.Error("Drain returned no error, and a step had not returned")
		}
		w.drain(t)
		w.wantTraces(t, "a released("+ErrDraining.Error()+")")
		if got := len(w.reportedDelays()); got != 2 || w.reportedDelays()[1] != "ended" {
			t.Errorf("reported %q, want a wait and its end", w.reportedDelays())
		}
	}, withDrainLimit(time.Second))
}

// TestUnfinishedWorkAfterADrainIsReported checks that unfinished work is reported after a drain: a rollback that ends
// later, and another one that is left to the next leader.
func TestUnfinishedWorkAfterADrainIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a"}, {plugin: "b", err: errStep, undoTakes: 5 * time.Second}}})
		synctest.Wait()
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.engine.Drain(cut); err == nil {
			t.Error("Drain returned no error, and a rollback had not returned")
		}
		w.drain(t)
		w.wantTraces(t, "a b -b")
		var plugins []string
		for _, text := range w.reportedDelays() {
			plugin, _, _ := strings.Cut(strings.TrimPrefix(text, "rollback of pre-bind plugin "), " ")
			plugins = append(plugins, plugin)
		}
		if diff := cmp.Diff([]string{"b", "a"}, plugins); diff != "" {
			t.Errorf("plugins with a reported rollback (-want +got):\n%s", diff)
		}
	}, withDrainLimit(time.Second))
}

func TestDrainNamesFewOfManyThatAreLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		for i := range 300 {
			w.mustSubmit(t, api.JobID(fmt.Sprintf("ns/g%03d", i)), fmt.Sprintf("p%03d-", i), 1, script{steps: []act{{plugin: "a", takes: time.Hour, deaf: true}}})
		}
		synctest.Wait()
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		err := w.engine.Drain(cut)
		if err == nil || !strings.HasSuffix(err.Error(), "; and 295 more") || len(err.Error()) > 2000 {
			t.Errorf("Drain returned %v", err)
		}
		w.drain(t)
	})
}

func TestAbort(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, "ns/preparing", "a", 1, script{steps: []act{{plugin: "a"}, {plugin: "b", takes: 20 * time.Second}, {plugin: "c"}}})
		w.mustSubmit(t, "ns/nothing-to-undo", "b", 1, script{}, script{steps: []act{{plugin: "a", takes: 20 * time.Second, noUndo: true}}})
		w.mustSubmit(t, "ns/binding", "c", 1, script{binds: []reply{{takes: 8 * time.Second}}}, script{binds: []reply{{err: errThrottled, lost: true}}})
		w.mustSubmit(t, "ns/settling", "d", 1, script{binds: []reply{{err: errCut}}, lookups: []error{errServer, errServer, errServer, errServer, errServer}})
		w.mustSubmit(t, "ns/rollback", "e", 1, script{steps: []act{{plugin: "a", err: errStep, undo: []error{errServer, errServer, errServer, errServer, errServer}}}})
		time.Sleep(time.Second)
		before := w.traces()
		w.abort()
		synctest.Wait()
		after := w.traces()
		w.drain(t)
		aborted := " released(" + ErrAborted.Error() + ")"
		for i, end := range map[int]string{1: aborted[1:], 2: aborted, 4: aborted} {
			before[i] += end
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("something was begun after Abort (-before +after):\n%s", diff)
		}
		abandoned := map[api.JobID]int{}
		for _, r := range w.results {
			abandoned[r.Gang] = len(r.Abandoned)
		}
		want := map[api.JobID]int{"ns/preparing": 1, "ns/nothing-to-undo": 0, "ns/binding": 1, "ns/settling": 1, "ns/rollback": 1}
		if diff := cmp.Diff(want, abandoned); diff != "" {
			t.Errorf("unexpected numbers of abandoned members (-want +got):\n%s", diff)
		}
		for _, r := range w.results {
			if r.Gang == "ns/rollback" && !errors.Is(r.Abandoned[0].Err, errStep) {
				t.Errorf("the member whose rollback was cut short failed of %v, want its own failure", r.Abandoned[0].Err)
			}
		}
		if err := w.engine.Submit(&Transaction{Gang: gang}); !errors.Is(err, ErrDraining) {
			t.Errorf("Submit after Abort returned %v, want ErrDraining", err)
		}
	})
}

func TestUndoOfARefusedTransaction(t *testing.T) {
	refused := func(t *testing.T, w *harness, undo ...error) *Member {
		t.Helper()
		m := w.member(gang, "p0", "n", script{steps: []act{
			{plugin: "v", placed: true}, {plugin: "a"}, {plugin: "w", placed: true, undo: undo}, {plugin: "x", placed: true, noUndo: true},
		}})
		if err := w.submit(gang, m); !errors.Is(err, ErrDraining) {
			t.Fatalf("Submit returned %v, want ErrDraining", err)
		}
		return m
	}
	bubble(t, func(t *testing.T, w *harness) {
		w.drain(t)
		if err := w.engine.Undo(refused(t, w, errNotFound)); err != nil {
			t.Error(err)
		}
		w.wantTraces(t, "-w -v")
	})
	bubble(t, func(t *testing.T, w *harness) {
		w.drain(t)
		want := "rolling back pre-bind plugin w for pod ns/p0 on node n: no room"
		if err := w.engine.Undo(refused(t, w, errStep)); err == nil || err.Error() != want {
			t.Errorf("Undo returned %v, want %s", err, want)
		}
		w.wantTraces(t, "-w!")
	})
	bubble(t, func(t *testing.T, w *harness) {
		w.abort()
		m := refused(t, w)
		time.Sleep(time.Second)
		if err := w.engine.Undo(m); !errors.Is(err, ErrAborted) {
			t.Errorf("Undo returned %v, want ErrAborted", err)
		}
		w.wantTraces(t, "")
	})
}

// TestUndoIsBounded checks that a rollback has a time limit of its own, whatever the timeout of the step, because a
// session waits for it.
func TestUndoIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		m := w.member(gang, "p0", "n", script{})
		m.Steps = []Step{{
			Plugin: "v", RollbackIfNotRun: true, Timeout: time.Hour,
			Rollback: func(ctx context.Context, _ *api.TaskInfo, _ string) error {
				<-ctx.Done()
				return ctx.Err()
			},
		}}
		start := time.Now()
		if err := w.engine.Undo(m); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != w.engine.options.callTimeout {
			t.Errorf("Undo returned %v after %v, want that of its deadline after %v", err, time.Since(start), w.engine.options.callTimeout)
		}
	})
}

// TestNoMemberPassesTheBarrierAfterAbort checks that no member passes the barrier once Abort has ended the engine's
// context, even before Abort has failed the members.
func TestNoMemberPassesTheBarrierAfterAbort(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		r := newRun(w.engine, &Transaction{Gang: gang, Members: w.members(gang, script{})})
		w.engine.abort(ErrAborted)
		if r.roster.commit(w.engine.ctx, r.roster.members, 0) {
			t.Error("a member is being bound after Abort")
		}
	})
}

func TestTransactionWithoutMembersEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 0)
		w.drain(t)
		if len(w.results) != 1 {
			t.Errorf("%d transactions ended, want 1", len(w.results))
		}
	})
}
