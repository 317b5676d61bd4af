// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// DefaultStepTimeout bounds a run of a step whose Timeout is zero.
const DefaultStepTimeout = 30 * time.Second

// Why a member was not bound, or a transaction not taken, beside the errors of steps and binds.
var (
	// ErrNoQuorum fails the members that were well in a gang that was not.
	ErrNoQuorum = errors.New("the gang cannot reach its minimum")
	// ErrPodGone fails a member whose pod no longer exists, or is being deleted, when its bind is settled.
	ErrPodGone = errors.New("the pod is gone")
	// ErrDraining refuses a transaction after Drain or Abort, and fails members that a Drain had to cut short.
	ErrDraining = errors.New("the scheduler is shutting down")
	// ErrAborted fails the members of transactions that Abort cut short.
	ErrAborted = errors.New("binding was aborted")
)

// Step is one plugin's part of a member's pre-bind chain.
type Step struct {
	// Plugin names the step in errors, events and metrics.
	Plugin string
	// PreBind prepares the task for the node. A step that does not return by its deadline has failed; it is
	// rolled back once it does return.
	PreBind func(ctx context.Context, task *api.TaskInfo, node string) error
	// Rollback undoes PreBind, also one that failed half-way; nil when there is nothing to undo. It is called
	// again with backoff until it returns nil or a NotFound API error.
	Rollback func(ctx context.Context, task *api.TaskInfo, node string) error
	// LastLook is asked of a member that passed, once the whole gang did and right before it is bound; an error fails the member. It is
	// for what may have changed while others were prepared: it must be quick and call nobody. It may be asked several times; nil when
	// nobody asks.
	LastLook func(task *api.TaskInfo, node string) error
	// RollbackUnbegun is true if the plugin did something for the task before the chain, when the session placed it, such
	// as to assume its volumes. Rollback undoes that too, so it is called for every member that is not bound, whether
	// PreBind has begun or not.
	RollbackUnbegun bool
	// Bound is told that the member is bound, after the Ledger; nil when nobody asks. Like Rollback's success, it ends what the
	// step keeps for the member. Its context has a deadline, and other members wait for it to return.
	Bound func(ctx context.Context, task *api.TaskInfo, node string)
	// Timeout bounds one run of PreBind and one run of Rollback; DefaultStepTimeout when zero.
	Timeout time.Duration
}

// Member is one task of a gang with the node chosen for it and the steps that prepare it.
type Member struct {
	// Task is the member's own: its pod is a private copy that steps may annotate.
	Task  *api.TaskInfo
	Node  string
	Steps []Step

	base map[string]string
}

// NewMember makes a member of the task, with a private copy of its pod: annotations set on that copy by steps
// are staged, and travel in the Binding.
func NewMember(task *api.TaskInfo, node string, steps []Step) *Member {
	own := task.Clone()
	own.Pod = task.Pod.DeepCopy()
	return &Member{Task: own, Node: node, Steps: steps, base: maps.Clone(own.Pod.Annotations)}
}

// Stage stages an annotation, also one that the pod has already: somebody may change it until the pod is bound.
func (m *Member) Stage(key, value string) {
	if m.Task.Pod.Annotations == nil {
		m.Task.Pod.Annotations = map[string]string{}
	}
	m.Task.Pod.Annotations[key] = value
	delete(m.base, key)
}

// StagedAnnotations returns the annotations that steps set on the member's pod: those that are new or changed.
func (m *Member) StagedAnnotations() map[string]string {
	staged := map[string]string{}
	for key, value := range m.Task.Pod.Annotations {
		if old, ok := m.base[key]; !ok || old != value {
			staged[key] = value
		}
	}
	return staged
}

// Transaction is a gang's members of one session, or those of a group of gangs, that are bound together or not at all.
type Transaction struct {
	// Gang is the gang, or the first of the group.
	Gang api.JobID
	// Unit is nil for a gang that asks for its minimum and nothing else.
	Unit    *Unit
	Members []*Member
	// Lost are those of the members that were lost before the transaction was submitted, and why: no step of theirs begins.
	Lost map[*Member]error
}

// Gatekeeper knows the gangs' minima.
type Gatekeeper interface {
	// Quorum returns nil when every gang of the transaction has what it asks for with these members bound, mostly its minimum
	// together with those already bound or running, and an error that says what is missing otherwise. The members of the
	// transaction that are not among them are lost. An error of the API server that may
	// pass, such as a time-out, is no verdict: Quorum is asked again a few times. Steps may be at work on the
	// members meanwhile, so Quorum must not read the annotations of their pods.
	Quorum(ctx context.Context, t *Transaction, passed []*Member) error
}

// Binder writes bindings and reads their fate.
type Binder interface {
	// Bind binds the member's pod, by UID, to its node, with its staged annotations, in one write. It returns the
	// error of the API client as it is or wrapped.
	Bind(ctx context.Context, m *Member) error
	// GetBinding reads from the API server, not from a cache, where the pod is now.
	GetBinding(ctx context.Context, m *Member) (PodBinding, error)
}

// PodBinding is what the API server says of a member's pod.
type PodBinding struct {
	// Gone is set when the pod, by UID, exists no more or is being deleted. A pod that is being deleted on the
	// member's node still counts as bound.
	Gone bool
	// Node is the node the pod is bound to, empty while it is bound to none.
	Node string
}

// Ledger keeps the books: which member holds resources. Its methods are called from the engine's goroutines, and
// must not block on the API server. Each member is either Bound or Released, once.
type Ledger interface {
	// Bound tells that the member's pod is bound for sure.
	Bound(m *Member)
	// Released tells that the member will not be bound and that every step it began, or that is marked with
	// RollbackUnbegun, is rolled back: its resources are free.
	Released(m *Member, cause error)
	// Ended tells that every member of the transaction was either bound or released, or abandoned by Abort.
	// Engine.InFlight has forgotten the transaction by then; the gang's next one starts after Ended returns.
	Ended(r Result)
}

// Observer is told of what happens, for metrics and events. Its methods must not block.
type Observer interface {
	// StepDone tells of one run of a step: when it returned, or when it was given up by deadline or cancellation.
	StepDone(plugin string, err error, took time.Duration)
	// RollbackDone tells of one run of a rollback.
	RollbackDone(plugin string, err error)
	// Delayed tells that a member has been waiting long for a step, a rollback or its bind, and again when it goes on to wait
	// for another.
	Delayed(m *Member, d Delay)
	// DelayEnded tells that a member of which Delayed told waits no longer. The cause is why it is not bound; nil when it
	// is, or still may be. It does not come for members that Abort left.
	DelayEnded(m *Member, cause error)
	TransactionDone(r Result)
	// InFlight tells how many transactions have not ended.
	InFlight(transactions int)
}

// Failure is a member that was not bound, and why.
type Failure struct {
	Member *Member
	// Err is a *StepError when a step failed, a *BindError when the bind failed, ErrNoQuorum (wrapped) when the
	// member was well but its gang was not, the cause given to Cancel or CancelNode, ErrDraining or ErrAborted.
	Err error
}

// PodGone reports whether the member failed because its pod no longer exists, as the watch or the answer to a call shows.
func (f Failure) PodGone() bool {
	if errors.Is(f.Err, ErrPodGone) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(f.Err, &status) || !apierrors.IsNotFound(f.Err) {
		return false
	}
	what := status.Status().Details
	return what != nil && what.Kind == "pods" && what.Name == f.Member.Task.Name
}

// Result is how a transaction ended.
type Result struct {
	// Gang is the transaction's, and Gangs are all of them.
	Gang   api.JobID
	Gangs  []api.JobID
	Bound  []*Member
	Failed []Failure
	// Abandoned are the members that Abort left with steps not rolled back or a bind not settled: the Ledger was
	// told neither Bound nor Released. They are for the next leader's recovery.
	Abandoned []Failure
	// QuorumErr says what the gang lacked when nobody was bound; nil when it had enough.
	QuorumErr error
	// Took is the time since Submit.
	Took time.Duration
}

// StepError is the failure of one plugin's step.
type StepError struct {
	Plugin, Pod, Node string
	Err               error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("pre-bind plugin %s failed for pod %s on node %s: %s", e.Plugin, e.Pod, e.Node, brief.Part(e.Err.Error()))
}

func (e *StepError) Unwrap() error { return e.Err }

// PanicError is a panic in a step, beneath the StepError that names the plugin, or in a rollback. Its message leaves
// out the stack, which the engine logs.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return brief.Part(fmt.Sprintf("panic: %v", e.Value)) }

// BindError is a bind that failed for good: refused by the API server, overtaken by another, or tried too often.
type BindError struct {
	Pod, Node string
	Err       error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("binding pod %s to node %s failed: %s", e.Pod, e.Node, brief.Part(e.Err.Error()))
}

func (e *BindError) Unwrap() error { return e.Err }
