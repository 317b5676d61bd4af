// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errStep = errors.New("no room")

func TestChain(t *testing.T) {
	playAll(t, map[string]scenario{
		"steps run in order, then the pod is bound": {
			minimum: 1,
			pods:    []script{{steps: steps("a", "b", "c")}},
			want:    []string{"a b c bind bound"},
		},
		"steps are notified of the bind even if one panics, and not of released members": {
			minimum: 1,
			pods: []script{
				{steps: []act{{plugin: "a", notified: true, notifyPanics: true}, {plugin: "b"}, {plugin: "c", notified: true}}},
				{steps: []act{{plugin: "a", notified: true}, {plugin: "b", err: errStep}, {plugin: "c", notified: true, placed: true}}},
			},
			want: []string{"a b c bind bound +a +c", "a b -c -b -a released(b failed)"},
		},
		"pods without steps are bound at once": {
			minimum: 2,
			pods:    []script{{}, {}},
			want:    []string{"bind bound", "bind bound"},
		},
		"a failed chain is rolled back in reverse, the failing step first": {
			minimum: 1,
			pods:    []script{{steps: then(steps("a", "b"), act{plugin: "c", err: errStep})}},
			want:    []string{"a b c -c -b -a released(c failed)"},
		},
		"steps after the failing one never begin": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", err: errStep}, {plugin: "b"}}}},
			want:    []string{"a -a released(a failed)"},
		},
		"a step without a rollback is passed over": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a"}, {plugin: "b", noUndo: true}, {plugin: "c", err: errStep}}}},
			want:    []string{"a b c -c -a released(c failed)"},
		},
		"a panic is the step's failure": {
			minimum: 1,
			pods:    []script{{steps: then(steps("a"), act{plugin: "b", panics: true})}},
			want:    []string{"a b -b -a released(b panicked)"},
		},
		"above the minimum the others are bound": {
			minimum: 2,
			pods:    []script{{steps: steps("a")}, {steps: []act{{plugin: "a", err: errStep}}}, {steps: steps("a")}},
			want:    []string{"a bind bound", "a -a released(a failed)", "a bind bound"},
		},
		"below the minimum no member is bound": {
			minimum: 3,
			pods:    []script{{steps: steps("a", "b")}, {steps: []act{{plugin: "a", takes: time.Second, err: errStep}}}, {}},
			want:    []string{"a b -b -a released(no quorum)", "a -a released(a failed)", "released(no quorum)"},
		},
		"the failure of one lets go of the others as soon as the minimum is out of reach": {
			minimum: 2,
			pods: []script{
				{steps: []act{{plugin: "a", takes: 20 * time.Second}}},
				{steps: []act{{plugin: "a", takes: time.Second, err: errStep}}},
			},
			want: []string{"a -a released(no quorum)", "a -a released(a failed)"},
			took: time.Second,
		},
		"those not yet begun when the minimum gets out of reach never begin": {
			minimum: 3,
			opts:    []Option{withMemberParallelism(1)},
			pods:    []script{{steps: []act{{plugin: "a", err: errStep}}}, {steps: steps("a")}, {steps: steps("a")}},
			want:    []string{"a -a released(a failed)", "released(no quorum)", "released(no quorum)"},
		},
		"a gate that cannot answer is asked again": {
			minimum: 1,
			gate:    []error{errServer, errTimeout, errThrottled},
			pods:    []script{{steps: steps("a")}},
			want:    []string{"a bind bound"},
		},
		"a gate that never answers binds no member": {
			minimum: 1,
			gate:    []error{errServer, errServer, errServer, errServer, errServer},
			pods:    []script{{steps: steps("a")}},
			want:    []string{"a -a released(no quorum)"},
		},
		"a gate that cannot answer does not end a gang early": {
			minimum: 1,
			gate:    []error{errServer},
			pods: []script{
				{steps: []act{{plugin: "a", err: errStep}}},
				{steps: []act{{plugin: "a", takes: time.Second}}},
			},
			want: []string{"a -a released(a failed)", "a bind bound"},
		},
	})
}

// TestUnbegunStepIsRolledBack checks that the effects of a plugin before the chain, such as an assumed volume, are
// rolled back for every member that is not bound.
func TestUnbegunStepIsRolledBack(t *testing.T) {
	assumes := act{plugin: "v", placed: true}
	slow := act{plugin: "a", takes: 10 * time.Second}
	playAll(t, map[string]scenario{
		"when a step before it failed": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", err: errStep}, assumes, {plugin: "b"}}}},
			want:    []string{"a -v -a released(a failed)"},
		},
		"in reverse order among those that have begun": {
			minimum: 1,
			pods:    []script{{steps: []act{assumes, {plugin: "a", err: errStep}, {plugin: "b"}, {plugin: "w", placed: true}}}},
			want:    []string{"v a -w -a -v released(a failed)"},
		},
		"when the chain never had its turn": {
			minimum: 2,
			opts:    []Option{withMemberParallelism(1)},
			pods:    []script{{steps: []act{{plugin: "a", err: errStep}}}, {steps: []act{{plugin: "a"}, assumes}}},
			want:    []string{"a -a released(a failed)", "-v released(no quorum)"},
		},
		"when the member is cancelled while an earlier step runs, once that has returned": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", takes: 10 * time.Second, deaf: true}, assumes}}},
			events: map[time.Duration]func(*testing.T, *harness){
				time.Second:        func(_ *testing.T, w *harness) { w.cancel("p0", errDeleted) },
				10*time.Second - 1: traceIs("p0", "a"),
			},
			want: []string{"a -v -a released(deleted)"},
		},
		"when it is cancelled before its turn": {
			minimum: 1,
			opts:    []Option{withMemberParallelism(1)},
			pods:    []script{{steps: []act{slow}}, {steps: []act{assumes}}},
			events: map[time.Duration]func(*testing.T, *harness){
				placeTime / 2:   func(_ *testing.T, w *harness) { w.cancel("p1", errDeleted) },
				placeTime/2 + 1: traceIs("p1", "-v released(deleted)"),
			},
			want: []string{"a bind bound", "-v released(deleted)"},
		},
		"again until it succeeds": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", err: errStep}, {plugin: "v", placed: true, undo: []error{errServer, errStep}}}}},
			want:    []string{"a -v! -v! -v -a released(a failed)"},
		},
		"and not when it has no rollback": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", err: errStep}, {plugin: "v", placed: true, noUndo: true}}}},
			want:    []string{"a -a released(a failed)"},
		},
		"and not when the member is bound": {
			minimum: 1,
			pods:    []script{{steps: []act{assumes}}},
			want:    []string{"v bind bound"},
		},
	})
}

func TestUnbegunStepOfAQueuedTransactionIsRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, slowStep(10*time.Second))
		w.mustSubmit(t, gang, "q", 1, script{steps: []act{{plugin: "v", placed: true}}})
		w.deletePod("q0", errDeleted)
		synctest.Wait()
		w.wantTraces(t, "a", "-v released(deleted)")
		w.drain(t)
	})
}

func TestAbortLeavesUnbegunStepsToTheNextLeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.mustSubmit(t, gang, "p", 1, slowStep(10*time.Second))
		w.mustSubmit(t, gang, "q", 1, script{steps: []act{{plugin: "v", placed: true}}}, script{steps: steps("a")})
		synctest.Wait()
		w.abort()
		w.drain(t)
		w.wantTraces(t, "a", "", "released("+ErrAborted.Error()+")")
		var abandoned []string // by the transaction that ended first
		for _, result := range w.results {
			for _, left := range result.Abandoned {
				abandoned = append(abandoned, left.Member.Task.Name)
			}
		}
		slices.Sort(abandoned)
		if diff := cmp.Diff([]string{"p0", "q0"}, abandoned); diff != "" {
			t.Errorf("abandoned members are not the ones with a step to roll back (-want +got):\n%s", diff)
		}
	})
}

func TestOverdueStep(t *testing.T) {
	overdue := act{plugin: "b", takes: 40 * time.Second, deaf: true, timeout: 10 * time.Second}
	playAll(t, map[string]scenario{
		"the member fails at the deadline, and is rolled back once the late step has returned": {
			minimum: 1,
			pods:    []script{{steps: then(steps("a"), overdue)}, {steps: steps("a")}},
			events: map[time.Duration]func(*testing.T, *harness){
				10*time.Second - 1: traceIs("p1", "a"),
				10*time.Second + 1: traceIs("p1", "a bind bound"),
				40*time.Second - 1: traceIs("p0", "a b"),
			},
			want: []string{"a b -b -a released(b overdue)", "a bind bound"},
			took: 40 * time.Second,
		},
		"the rest of a gang that is lost does not wait for the late step": {
			minimum: 2,
			pods:    []script{{steps: then(steps("a"), overdue)}, {steps: steps("a")}},
			events: map[time.Duration]func(*testing.T, *harness){
				10*time.Second + 1: traceIs("p1", "a -a released(no quorum)"),
			},
			want: []string{"a b -b -a released(b overdue)", "a -a released(no quorum)"},
			took: 40 * time.Second,
		},
		"a late step gives its place to the next": {
			minimum: 1,
			opts:    []Option{withMemberParallelism(1)},
			pods:    []script{{steps: []act{overdue}}, {steps: steps("a")}},
			events: map[time.Duration]func(*testing.T, *harness){
				10*time.Second + 1: traceIs("p1", "a bind bound"),
			},
			want: []string{"b -b released(b overdue)", "a bind bound"},
		},
		"a late panic is no other failure": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", takes: time.Minute, deaf: true, panics: true}}}},
			want:    []string{"a -a released(a overdue)"},
			took:    time.Minute,
		},
		"a step that minds its context is rolled back at the deadline": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", takes: time.Minute}}}},
			want:    []string{"a -a released(a overdue)"},
			took:    DefaultStepTimeout,
		},
	})
}

func TestRollbackIsRetried(t *testing.T) {
	playAll(t, map[string]scenario{
		"until it succeeds": {
			minimum: 1,
			pods:    []script{{steps: then([]act{{plugin: "a", undo: []error{errServer, errStep}}}, act{plugin: "b", err: errStep})}},
			want:    []string{"a b -b -a! -a! -a released(b failed)"},
		},
		"until its object is gone": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", err: errStep, undo: []error{errServer, errNotFound}}}}},
			want:    []string{"a -a! -a released(a failed)"},
		},
		"before the rollbacks of earlier steps": {
			minimum: 1,
			pods:    []script{{steps: then(steps("a"), act{plugin: "b", err: errStep, undo: []error{errStep, errStep, errStep}})}},
			want:    []string{"a b -b! -b! -b! -b -a released(b failed)"},
		},
	})
}

func TestLongWaitsAreReported(t *testing.T) {
	manyTimes := slices.Repeat([]error{errStep}, 12)
	const begin = "2000-01-01T00:00:00Z" // the start of the clock in a synctest bubble
	tests := map[string]struct {
		steps []act
		want  []string
	}{
		"a rollback that keeps failing": {
			steps: then(steps("a"), act{plugin: "b", err: errStep, undo: manyTimes}),
			want:  []string{"rollback of pre-bind plugin b on node n0 failing since " + begin + ": no room; retrying, the pod's resources stay reserved", "ended"},
		},
		"a rollback that does not return": {
			steps: []act{{plugin: "a", undoTakes: time.Hour}, {plugin: "b", err: errStep}},
			want:  []string{"rollback of pre-bind plugin a on node n0 has not finished since " + begin + ": it waits for other rollbacks of the gang, or hangs; the pod's resources stay reserved until it does; if it never finishes, restart the scheduler", "ended"},
		},
		"a rollback that does not return, after one that failed at first": {
			steps: []act{{plugin: "a", undoTakes: time.Hour}, {plugin: "b", err: errStep, undo: []error{errStep}}},
			want:  []string{"rollback of pre-bind plugin a on node n0 has not finished since " + begin + ": it waits for other rollbacks of the gang, or hangs; the pod's resources stay reserved until it does; if it never finishes, restart the scheduler", "ended"},
		},
		"a late step that does not return, and then its rollback": {
			steps: []act{{plugin: "a", takes: time.Hour, deaf: true, undo: manyTimes}},
			want: []string{
				"pre-bind plugin a on node n0 timed out or was cancelled, and has not returned (running since " + begin + "); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler",
				"ended",
				"rollback of pre-bind plugin a on node n0 failing since 2000-01-01T01:00:00Z: no room; retrying, the pod's resources stay reserved", "ended",
			},
		},
		"a late step that has no rollback": {
			steps: []act{{plugin: "a", takes: time.Hour, deaf: true, noUndo: true}},
			want: []string{
				"pre-bind plugin a on node n0 timed out or was cancelled, and has not returned (running since " + begin + "); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler", "ended",
			},
		},
		"a step that takes long within its timeout": {
			steps: []act{{plugin: "a"}, {plugin: "b", takes: 5 * time.Minute, timeout: time.Hour}, {plugin: "c", takes: 20 * time.Second}},
			want:  []string{"pre-bind plugin b has been running on node n0 since " + begin, "ended"},
		},
		"a step that takes long and then fails": {
			steps: []act{{plugin: "b", takes: 5 * time.Minute, timeout: time.Hour, err: errStep}},
			want:  []string{"pre-bind plugin b has been running on node n0 since " + begin, "ended"},
		},
		"a step that takes long and then is given up": {
			steps: []act{{plugin: "b", takes: time.Hour, timeout: 5 * time.Minute, deaf: true}},
			want: []string{
				"pre-bind plugin b has been running on node n0 since " + begin,
				"pre-bind plugin b on node n0 timed out or was cancelled, and has not returned (running since " + begin + "); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler", "ended",
			},
		},
		"a rollback that succeeds soon is not": {
			steps: []act{{plugin: "a", err: errStep, undo: []error{errStep}}},
		},
		"a step that is done within a minute is not": {
			steps: []act{{plugin: "a", takes: time.Minute - 1, timeout: time.Hour}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(withStuckAfter(time.Minute))
				if err := w.submit(gang, w.members(gang, script{steps: tc.steps})...); err != nil {
					t.Fatal(err)
				}
				w.drain(t)
				if diff := cmp.Diff(tc.want, w.reportedDelays()); diff != "" {
					t.Errorf("unexpected reports (-want +got):\n%s", diff)
				}
				w.noViolations(t)
			})
		})
	}
}

func TestStepErrorNamesPluginPodNodeAndStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		if err := w.submit(gang, w.members(gang, script{steps: []act{{plugin: "a", panics: true}}})...); err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		err := w.results[0].Failed[0].Err
		if want := "pre-bind plugin a failed for pod ns/p0 on node n0: panic: told to"; err.Error() != want {
			t.Errorf("error is %q, want %q", err, want)
		}
		var panicked *PanicError
		if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "preBind") {
			t.Errorf("no stack that leads to the step in %v", panicked)
		}
		if w.stepsDone["a"] != 1 {
			t.Errorf("step reported %d times, want once", w.stepsDone["a"])
		}
	})
}

// TestAMemberThatPassesWhileTheMinimumIsReadIsNoticed checks that the last member's success is not lost if it comes while
// the engine waits for an answer of the Gatekeeper about the members that are left.
func TestAMemberThatPassesWhileTheMinimumIsReadIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.gate = slices.Repeat([]error{errCut}, 3)
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a", err: errStep}}}, slowStep(150*time.Millisecond))
		w.drain(t)
		w.wantTraces(t, "a -a released(a failed)", "a bind bound")
	})
}

// TestMembersLostInAnOutageDoNotRefuseTheOthers checks that a member that fails while the Gatekeeper cannot answer does
// not end the gang, whose other members still reach the minimum.
func TestMembersLostInAnOutageDoNotRefuseTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.gate = slices.Repeat([]error{errCut}, 5)
		late := script{steps: []act{{plugin: "a", takes: 150 * time.Millisecond, err: errStep}}}
		w.mustSubmit(t, gang, "p", 1, script{steps: []act{{plugin: "a", err: errStep}}}, late, slowStep(time.Second))
		w.drain(t)
		w.wantTraces(t, "a -a released(a failed)", "a -a released(a failed)", "a bind bound")
	})
}

// TestADeletedNodeOfOthersDoesNotShortenTheWaitForTheMinimum checks that the deletion of a node on which a gang has no
// member uses up none of the tries to read the gang's minimum.
func TestADeletedNodeOfOthersDoesNotShortenTheWaitForTheMinimum(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		w.gate = slices.Repeat([]error{errCut}, 4)
		w.mustSubmit(t, gang, "p", 1, script{})
		synctest.Wait()
		asked := len(w.gate)
		for range 10 {
			w.engine.CancelNode("elsewhere", errStep)
			synctest.Wait()
		}
		if len(w.gate) < asked {
			t.Errorf("the minimum was read %d times at once", asked-len(w.gate))
		}
		w.drain(t)
		w.wantTraces(t, "bind bound")
	})
}
