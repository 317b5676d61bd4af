// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

// harness is the environment of an engine: plugins, gate, API server, ledger and observer. All of them follow
// scripts. It keeps a trace for each pod, and a list of violations.
type harness struct {
	// minimum is the minimum of each gang. gate has the errors of the gate's first calls.
	minimum map[api.JobID]int
	gate    []error

	mu         sync.Mutex
	pods       map[api.TaskID]*pod
	turns      turns
	results    []Result
	delays     []string
	inFlight   int
	stepsBegun map[string]int
	stepsDone  map[string]int
	busy, peak int
	aborted    time.Time
	violations []string
	engine     *Engine
}

// script is the behaviour of everything around one pod.
type script struct {
	// lost is why the member was lost before it was submitted.
	lost    error
	steps   []act
	binds   []reply
	lookups []error
}

// act scripts one step.
type act struct {
	plugin string
	// takes is how long PreBind runs. A deaf PreBind ignores the end of its context.
	takes   time.Duration
	deaf    bool
	err     error
	panics  bool
	timeout time.Duration
	noUndo  bool
	// placed reports whether the plugin already did something when the member was placed (Step.RollbackIfNotRun).
	placed bool
	// notified reports whether the step has a function Bound, and notifyPanics whether that function panics.
	notified, notifyPanics bool
	// undo has the errors of the first rollbacks. undoTakes is how long each rollback runs.
	undo      []error
	undoTakes time.Duration
}

// reply scripts one answer of the API server to a Binding. The Binding is applied unless lost is set. If late is set,
// it is applied that long after the answer.
type reply struct {
	takes time.Duration
	err   error
	lost  bool
	late  time.Duration
	// terminates makes the pod's deletion begin right after the answer.
	terminates bool
	// overtaken makes another scheduler bind the pod first, to another node, or to the member's node if here is set.
	overtaken, here bool
}

// stepsRun is what happened to the steps of a pod. running reports whether a step runs, and stopped is when the last one
// ended. begun is the number of started steps, and well the number of steps that succeeded. undos has the numbers of
// rollbacks, and undone the steps that were rolled back.
type stepsRun struct {
	running bool
	stopped time.Time
	begun   int
	well    int
	undos   map[int]int
	undone  map[int]bool
}

type pod struct {
	*Member
	script script
	trace  []string
	ran    stepsRun
	calls  struct{ binds, lookups int }
	// on is the node to which the pod is bound in the API server, and foreign reports whether another scheduler bound it.
	on        string
	foreign   bool
	gone      bool
	cancelled time.Time
	submitted bool
	held      bool
	bound     bool
	released  bool
	// delayed is the reported reason why the pod waits.
	delayed string
}

var (
	_ Gatekeeper = (*harness)(nil)
	_ Binder     = (*harness)(nil)
	_ Ledger     = (*harness)(nil)
	_ Observer   = observer{}
)

func newHarness(opts ...Option) *harness {
	w := &harness{
		minimum:    map[api.JobID]int{},
		pods:       map[api.TaskID]*pod{},
		turns:      turns{inProgress: map[api.JobID]*Transaction{}},
		stepsBegun: map[string]int{},
		stepsDone:  map[string]int{},
	}
	w.engine = New(w, w, w, observer{w}, opts...)
	return w
}

// member adds a pod of the gang that follows the script.
func (w *harness) member(gang api.JobID, name, node string, s script) *Member {
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	p := &pod{script: s, held: true, ran: stepsRun{undone: map[int]bool{}, undos: map[int]int{}}}
	var steps []Step
	for i, a := range s.steps {
		run := scriptedStep{w, p, i, a}
		step := Step{Plugin: a.plugin, Timeout: a.timeout, PreBind: run.preBind, RollbackIfNotRun: a.placed}
		if !a.noUndo {
			step.Rollback = run.rollback
		}
		if a.notified {
			step.Bound = run.bound
		}
		steps = append(steps, step)
	}
	p.Member = NewMember(api.NewTaskInfo(object), node, steps)
	p.Task.Job = gang
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[p.Task.UID] = p
	return p.Member
}

// spend waits for the duration, or until ctx ends. It ignores ctx if deaf is set.
func spend(ctx context.Context, d time.Duration, deaf bool) error {
	if deaf {
		ctx = context.Background()
	}
	if !pause.For(ctx, d) {
		return ctx.Err()
	}
	return nil
}

func (w *harness) Quorum(_ context.Context, tx *Transaction, members []*Member) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gate) > 0 {
		err := w.gate[0]
		w.gate = w.gate[1:]
		return err
	}
	if err := tx.StrictLoss(members); err != nil {
		return err
	}
	for _, gang := range tx.Gangs() {
		have := membersOf(members, gang)
		if err := w.enough(tx.TermsOf(gang), have); err != nil {
			return err
		}
	}
	return nil
}

// enough returns an error if this number of members, bound together, is below the minimum of the gang.
func (w *harness) enough(terms GangTerms, have int) error {
	if terms.Count == CountBound {
		have += w.boundIn(terms.Gang)
	}
	if terms.Count != CountSatisfied && have < w.minimum[terms.Gang] {
		return fmt.Errorf("gang %s has %d of %d", terms.Gang, have, w.minimum[terms.Gang])
	}
	return nil
}

// boundIn returns the number of the gang's bound pods in the API server.
func (w *harness) boundIn(gang api.JobID) int {
	n := 0
	for _, p := range w.pods {
		if p.Task.Job == gang && p.on != "" && p.bound {
			n++
		}
	}
	return n
}

// at runs f under the lock, as an event of the pod.
func (w *harness) at(_ *pod, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// reportedDelays returns the reported delays and the reported ends of delays.
func (w *harness) reportedDelays() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.delays)
}

// owed returns the last step that must be rolled back before the pod is released, or -1.
func (p *pod) owed() int {
	for i, a := range slices.Backward(p.script.steps) {
		if !a.noUndo && !p.ran.undone[i] && (i < p.ran.begun || a.placed) {
			return i
		}
	}
	return -1
}

func (p *pod) log(event string) { p.trace = append(p.trace, event) }

func trace(p *pod) string { return strings.Join(p.trace, " ") }

// expect records a violation unless ok.
func (w *harness) expect(p *pod, ok bool, format string, args ...any) {
	if ok {
		return
	}
	about := ""
	if p != nil {
		about = fmt.Sprintf("%s (%s): ", p.Task.Name, trace(p))
	}
	w.violations = append(w.violations, about+fmt.Sprintf(format, args...))
}

// expectGoing records a violation if something starts after an Abort.
func (w *harness) expectGoing(p *pod, what string) {
	w.expect(p, w.aborted.IsZero() || !time.Now().After(w.aborted), "%s after Abort", what)
}

// traces returns the traces of all pods, sorted by pod name.
func (w *harness) traces() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(w.pods)) {
		out = append(out, trace(w.pods[id]))
	}
	return out
}

// noViolations fails the test for each recorded violation.
func (w *harness) noViolations(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.violations {
		t.Error(v)
	}
	if w.inFlight != 0 {
		t.Errorf("%d transactions are reported in flight at the end", w.inFlight)
	}
	if diff := cmp.Diff(w.stepsBegun, w.stepsDone); diff != "" {
		t.Errorf("steps begun and steps reported differ (-begun +reported):\n%s", diff)
	}
}

// Errors that API servers, and the connections to them, commonly return.
var (
	errForbidden    = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no"))
	errInvalid      = apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, "p", nil)
	errConflict     = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("already assigned"))
	errUnauthorized = apierrors.NewUnauthorized("the token has expired")
	errThrottled    = apierrors.NewTooManyRequests("slow down", 7)
	errServer       = apierrors.NewInternalError(errors.New("etcd has no leader"))
	errTimeout      = apierrors.NewTimeoutError("no answer", 0)
	errNotFound     = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	errCut          = errors.New("http2: client connection lost")
	errGateway      = apierrors.NewGenericServerResponse(http.StatusBadGateway, "POST", schema.GroupResource{}, "p", "", 0, true)
)

func (w *harness) setMinimum(gang api.JobID, minimum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.minimum[gang] = minimum
}
