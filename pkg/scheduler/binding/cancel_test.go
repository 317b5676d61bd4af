// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

var errDeleted = errors.New("deleted")

func deletePod(id api.TaskID) func(*testing.T, *harness) {
	return func(_ *testing.T, w *harness) { w.deletePod(id, errDeleted) }
}

func cancelPod(id api.TaskID) func(*testing.T, *harness) {
	return func(_ *testing.T, w *harness) { w.cancel(id, errDeleted) }
}

func TestCancel(t *testing.T) {
	type events = map[time.Duration]func(*testing.T, *harness)
	slow := script{steps: []act{{plugin: "a", takes: 10 * time.Second}}}
	playAll(t, map[string]scenario{
		"a waiting member never begins": {
			minimum: 1,
			opts:    []Option{withMemberParallelism(1)},
			pods:    []script{slow, slow},
			events:  events{placeTime / 2: deletePod("p1")},
			want:    []string{"a bind bound", "released(deleted)"},
		},
		"a member that was lost before it was submitted never begins, and what was done when it was placed is undone": {
			minimum: 1,
			pods: []script{
				{lost: errDeleted, steps: steps("a")},
				{lost: errDeleted, steps: []act{{plugin: "v", placed: true, undo: []error{errServer, errStep}}}},
				{steps: steps("a")},
			},
			want: []string{"released(deleted)", "-v! -v! -v released(deleted)", "a bind bound"},
		},
		"members that were lost before they were submitted are missed": {
			minimum: 2,
			pods:    []script{{lost: errDeleted}, {steps: steps("a")}},
			want:    []string{"released(deleted)", "released(no quorum)"},
		},
		"a running step is let go of, and rolled back": {
			minimum: 1,
			pods:    []script{slow},
			events:  events{time.Second: deletePod("p0")},
			want:    []string{"a -a released(deleted)"},
			took:    time.Second,
		},
		"a deaf step is rolled back when it returns, the others do not wait": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", takes: 20 * time.Second, deaf: true}}}, {}},
			events: events{
				time.Second:     deletePod("p0"),
				time.Second + 1: traceIs("p1", "bind bound"),
			},
			want: []string{"a -a released(deleted)", "bind bound"},
			took: 20 * time.Second,
		},
		"a member that passed is rolled back at once, while others still prepare": {
			minimum: 1,
			pods:    []script{{steps: steps("a", "b")}, slow},
			events: events{
				time.Second:     deletePod("p0"),
				time.Second + 1: traceIs("p0", "a b -b -a released(deleted)"),
			},
			want: []string{"a b -b -a released(deleted)", "a bind bound"},
		},
		"the gang is judged again when a member that passed is lost": {
			minimum: 2,
			pods:    []script{{steps: steps("a")}, slow},
			events:  events{time.Second: cancelPod("p0")},
			want:    []string{"a -a released(deleted)", "a -a released(no quorum)"},
			took:    time.Second,
		},
		"a bind under way that holds stays bound": {
			minimum: 1,
			pods:    []script{{steps: steps("a"), binds: []reply{{takes: 5 * time.Second}}}},
			events:  events{time.Second: cancelPod("p0")},
			want:    []string{"a bind bound"},
		},
		"a bind under way with an unclear answer is settled, and holds": {
			minimum: 1,
			pods:    []script{{binds: []reply{{takes: 5 * time.Second, err: errCut}}}},
			events:  events{time.Second: cancelPod("p0")},
			want:    []string{"bind lookup bound"},
		},
		"a bind under way with an unclear answer is settled, and does not hold": {
			minimum: 1,
			pods:    []script{{steps: steps("a"), binds: []reply{{takes: 5 * time.Second, err: errCut, lost: true}}}},
			events:  events{time.Second: cancelPod("p0")},
			want:    []string{"a bind lookup -a released(deleted)"},
		},
		"an unclear write that arrives after the cancellation still counts": {
			minimum: 1,
			pods:    []script{{binds: []reply{{err: errCut, late: 50 * time.Millisecond}}}},
			events:  events{20 * time.Millisecond: cancelPod("p0")},
			want:    []string{"bind lookup bound"},
		},
		"a pod that is gone is not bound": {
			minimum: 1,
			pods:    []script{{steps: steps("a"), binds: []reply{{takes: 5 * time.Second}}}},
			events:  events{time.Second: deletePod("p0")},
			want:    []string{"a bind lookup -a released(deleted)"},
		},
		"no more Binding is sent after a wait": {
			minimum: 1,
			pods:    []script{{steps: steps("a"), binds: []reply{{err: errThrottled, lost: true}}}},
			events:  events{time.Second: deletePod("p0")},
			want:    []string{"a bind -a released(deleted)"},
			took:    time.Second,
		},
		"a bound member stays bound": {
			minimum: 1,
			pods:    []script{{}, {binds: []reply{{takes: 10 * time.Second}}}},
			events:  events{time.Second: cancelPod("p0")},
			want:    []string{"bind bound", "bind bound"},
		},
		"a member that rolls back already keeps its own failure": {
			minimum: 1,
			pods:    []script{{steps: []act{{plugin: "a", err: errStep, undoTakes: 10 * time.Second}}}},
			events:  events{time.Second: deletePod("p0")},
			want:    []string{"a -a released(a failed)"},
		},
		"unknown gangs and pods are no matter": {
			minimum: 1,
			pods:    []script{slow},
			events: events{time.Second: func(_ *testing.T, w *harness) {
				w.engine.Cancel("ns/other", "p0", errDeleted)
				w.engine.Cancel(gang, "p9", errDeleted)
				w.engine.CancelNode("n9", errDeleted)
			}},
			want: []string{"a bind bound"},
		},
		"a deleted node fails its members": {
			minimum: 1,
			pods:    []script{slow, slow},
			events: events{time.Second: func(_ *testing.T, w *harness) {
				w.deleteNode("n0", errDeleted)
			}},
			want: []string{"a -a released(deleted)", "a bind bound"},
		},
	})
}

// TestCancelBetweenBarrierAndFirstBindJudgesAgain checks that the gate is called again if a pod is deleted between the
// barrier and the first bind. Another gang's bind uses the only slot for API calls when the gang passes its barrier.
func TestCancelBetweenBarrierAndFirstBindJudgesAgain(t *testing.T) {
	tests := map[string]struct {
		minimum int
		want    []string
	}{
		"too few are left: no member is bound": {
			minimum: 2,
			want:    []string{"bind bound", "a -a released(deleted)", "a -a released(no quorum)"},
		},
		"enough are left": {
			minimum: 1,
			want:    []string{"bind bound", "a -a released(deleted)", "a bind bound"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *harness) {
				w.mustSubmit(t, "ns/busy", "p", 1, script{binds: []reply{{takes: slotTime}}})
				synctest.Wait()
				w.mustSubmit(t, gang, "q", tc.minimum, script{steps: steps("a")}, script{steps: steps("a")})
				time.Sleep(slotTime / 2)
				w.deletePod("q0", errDeleted)
				synctest.Wait()
				traceIs("q0", "a -a released(deleted)")(t, w)
				w.drain(t)
				w.wantTraces(t, tc.want...)
			}, withBindParallelism(1))
		})
	}
}

// TestCancelDuringTheVerdictJudgesAgain checks that a pod that is deleted after a call of the gate failed, and before
// the next call, no longer counts for its gang's minimum.
func TestCancelDuringTheVerdictJudgesAgain(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, w *harness) {
			w.gate = []error{errServer}
			w.mustSubmit(t, gang, "p", 2, script{}, script{})
			time.Sleep(50 * time.Millisecond)
			w.deletePod("p0", errDeleted)
			w.drain(t)
			w.wantTraces(t, "released(deleted)", "released(no quorum)")
		})
	}
}

func TestCancelWhileWaitingForItsTurnToBind(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		slow := script{binds: []reply{{takes: slotTime}}}
		w.mustSubmit(t, gang, "p", 1, slow, slow)
		time.Sleep(slotTime / 2)
		w.cancel("p1", errDeleted)
		synctest.Wait()
		w.wantTraces(t, "bind", "released(deleted)")
		w.drain(t)
		w.wantTraces(t, "bind bound", "released(deleted)")
	}, withBindParallelism(1))
}
