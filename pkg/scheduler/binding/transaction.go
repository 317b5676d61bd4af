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

// Reasons why a member was not bound or a transaction was refused. Errors of steps and binds are not listed here.
var (
	// ErrNoQuorum fails members that did not fail themselves, but whose gang cannot reach its minimum.
	ErrNoQuorum = errors.New("the gang cannot reach its minimum")
	// ErrPodGone fails a member whose pod turns out to be deleted, or to be under deletion, when its bind is settled.
	ErrPodGone = errors.New("the pod was deleted")
	// ErrDraining refuses a transaction after Drain or Abort. It also fails the members that a Drain stops when its
	// context ends.
	ErrDraining = errors.New("the scheduler is shutting down")
	// ErrAborted fails the members of transactions that Abort ended early.
	ErrAborted = errors.New("binding was aborted")
)

// Step is one plugin's part of a member's pre-bind chain.
type Step struct {
	// Plugin names the step in errors, events and metrics.
	Plugin string
	// PreBind prepares the task for the node. A step that does not return by its deadline has failed. It is rolled back
	// once it has returned.
	PreBind func(ctx context.Context, task *api.TaskInfo, node string) error
	// Rollback undoes PreBind, even if PreBind failed half-way; nil if the step needs no rollback. It is retried with
	// backoff until it returns nil or a NotFound API error.
	Rollback func(ctx context.Context, task *api.TaskInfo, node string) error
	// PreCommitCheck checks a passed member again after the whole gang has passed, right before the member is bound. An
	// error fails the member. The check finds changes that were made while other members were prepared. It must be quick
	// and make no remote calls, and may run several times. It may be nil.
	PreCommitCheck func(task *api.TaskInfo, node string) error
	// RollbackIfNotRun reports whether the plugin already did something for the task when the session placed it, such as
	// assuming its volumes. Rollback undoes that, too. So Rollback is called for every member that is not bound, even if
	// PreBind never began.
	RollbackIfNotRun bool
	// Bound is called after Ledger.Bound when the member is bound; it may be nil. After this call, or after a successful
	// Rollback, the step may drop its state for the member. The context has a deadline, and other members wait until
	// Bound returns.
	Bound func(ctx context.Context, task *api.TaskInfo, node string)
	// Timeout bounds one run of PreBind and one run of Rollback; DefaultStepTimeout when zero.
	Timeout time.Duration
}

// Member is one task of a gang with the node chosen for it and the steps that prepare it.
type Member struct {
	// Task is the member's own copy of the task, with a private copy of the pod that steps may annotate.
	Task  *api.TaskInfo
	Node  string
	Steps []Step

	base map[string]string
}

// NewMember returns a member for the task, with a private copy of its pod. Annotations that steps set on this copy are
// staged, that is, written with the Binding.
func NewMember(task *api.TaskInfo, node string, steps []Step) *Member {
	own := task.Clone()
	own.Pod = task.Pod.DeepCopy()
	return &Member{Task: own, Node: node, Steps: steps, base: maps.Clone(own.Pod.Annotations)}
}

// Stage sets an annotation that is written with the Binding. The annotation is written even if the pod already has this
// value, because another client may change it before the pod is bound.
func (m *Member) Stage(key, value string) {
	if m.Task.Pod.Annotations == nil {
		m.Task.Pod.Annotations = map[string]string{}
	}
	m.Task.Pod.Annotations[key] = value
	delete(m.base, key)
}

// StagedAnnotations returns the annotations that steps added or changed on the member's pod.
func (m *Member) StagedAnnotations() map[string]string {
	staged := map[string]string{}
	for key, value := range m.Task.Pod.Annotations {
		if old, ok := m.base[key]; !ok || old != value {
			staged[key] = value
		}
	}
	return staged
}

// Transaction contains the members of a gang, or of a gang group, that one session placed. They are bound together
// or not at all.
type Transaction struct {
	// Gang is the transaction's gang, or the first gang of its gang group.
	Gang api.JobID
	// GangGroup is nil for a gang without conditions beside its minimum.
	GangGroup *GangGroup
	Members   []*Member
	// Lost are the members that were lost before the transaction was submitted, with the reason. None of their steps begins.
	Lost map[*Member]error
}

// Gatekeeper decides whether gangs reach their minima.
type Gatekeeper interface {
	// Quorum returns nil if every gang of the transaction has enough members once the passed members are bound. The gang
	// must reach its minimum and meet its other terms (GangTerms). Members that are already bound or running usually
	// count towards the minimum; the gang's match policy can exclude them. If the gang falls short, Quorum returns an
	// error that says what is missing. Members of the transaction that are not in passed have failed and will not be
	// bound. After an error of the API server that may pass, such as a timeout, the engine calls Quorum again a few times.
	// Steps may run at the same time and change annotations of the members' pods, so Quorum must not read these
	// annotations.
	Quorum(ctx context.Context, t *Transaction, passed []*Member) error
}

// Binder writes Bindings and reads whether pods are bound.
type Binder interface {
	// Bind binds the member's pod, by UID, to the member's node. The same write adds the staged annotations. Bind
	// returns the error of the API client, wrapped or not.
	Bind(ctx context.Context, m *Member) error
	// GetBinding reads the pod's current node from the API server, not from a cache.
	GetBinding(ctx context.Context, m *Member) (PodBinding, error)
}

// PodBinding is the binding of a member's pod according to the API server.
type PodBinding struct {
	// Gone reports whether the pod, by UID, no longer exists or is being deleted. A pod that is being deleted on the member's
	// node still counts as bound.
	Gone bool
	// Node is the node that the pod is bound to; empty for a pod that is not bound.
	Node string
	// Foreign reports whether another client has bound the pod: the pod has none of the annotations that the member's
	// Binding adds.
	Foreign bool
}

// Ledger records which members hold resources. The engine calls its methods from its own goroutines. They must not
// block on the API server. For each member, either Bound or Released is called, once.
type Ledger interface {
	// Bound records that the member's pod is known to be bound.
	Bound(m *Member)
	// Released records that the member will not be bound and its resources are free. Every step that began, or is marked
	// with RollbackIfNotRun, is already rolled back.
	Released(m *Member, cause error)
	// Ended records that every member of the transaction was bound, released, or abandoned by Abort. Engine.InFlight no
	// longer counts the transaction. The gang's next transaction starts after Ended returns.
	Ended(r Result)
}

// Observer receives reports of the engine, for metrics and events. Its methods must not block.
type Observer interface {
	// StepDone reports one run of a step. It is called when the step returns, or when the step is given up because of
	// its deadline or a cancellation.
	StepDone(plugin string, err error, took time.Duration)
	// RollbackDone reports one run of a step's rollback.
	RollbackDone(plugin string, err error)
	// Delayed reports that a member has waited long for a step, a rollback or its bind. It is called again if the member
	// later waits long for another of these.
	Delayed(m *Member, d Delay)
	// DelayEnded reports the end of a reported delay. cause is why the member is not bound; nil when the member is bound
	// or may still be bound. DelayEnded is not called for members that Abort abandons.
	DelayEnded(m *Member, cause error)
	TransactionDone(r Result)
	// InFlight reports the number of transactions that have not ended.
	InFlight(transactions int)
}

// Failure is a member that was not bound, with the reason.
type Failure struct {
	Member *Member
	// Err is a *StepError if a step failed, a *BindError if the bind failed, and a wrapped ErrNoQuorum if only the gang
	// failed. It may also be the cause given to Cancel, CancelGang or CancelNode, ErrDraining or ErrAborted.
	Err error
}

// PodGone reports whether the member failed because its pod no longer exists, according to the watch or to an answer of
// the API server.
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

// Result is the outcome of a transaction that has ended.
type Result struct {
	// Gang is the transaction's field Gang. Gangs are all gangs of the transaction.
	Gang   api.JobID
	Gangs  []api.JobID
	Bound  []*Member
	Failed []Failure
	// Abandoned are the members whose steps were not rolled back, or whose bind was not settled, before Abort. Neither
	// Ledger.Bound nor Ledger.Released was called for them. The next leader recovers them.
	Abandoned []Failure
	// QuorumErr says what the gang lacked for its minimum if no member was bound; nil if the gang had enough members.
	QuorumErr error
	// Took is the time from Submit to the end of the transaction.
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

// PanicError is a panic in a step or a rollback. For a step, a StepError that names the plugin wraps it. Its message
// does not contain the stack, which the engine logs.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return brief.Part(fmt.Sprintf("panic: %v", e.Value)) }

// BindError is a bind that failed for good: the API server rejected it, another client bound the pod first, or it was
// tried too often.
type BindError struct {
	Pod, Node string
	Err       error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("binding pod %s to node %s failed: %s", e.Pod, e.Node, brief.Part(e.Err.Error()))
}

func (e *BindError) Unwrap() error { return e.Err }
