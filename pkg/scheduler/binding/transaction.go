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

// Reasons why a member was not bound or a transaction was refused, beside errors of steps and binds.
var (
	// ErrNoQuorum fails members without a failure of their own whose gang cannot reach its minimum.
	ErrNoQuorum = errors.New("the gang cannot reach its minimum")
	// ErrPodGone fails a member whose pod no longer exists, or is being deleted, when its bind is settled.
	ErrPodGone = errors.New("the pod was deleted")
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
	// Rollback undoes PreBind, even if PreBind failed half-way; nil when there is nothing to undo. It is retried with backoff until
	// it returns nil or a NotFound API error.
	Rollback func(ctx context.Context, task *api.TaskInfo, node string) error
	// PreCommitCheck checks a passed member again, right before it is bound and after the whole gang has passed; an error fails the
	// member. It finds changes that were made while other members were prepared. It must be quick and make no calls, and may run
	// several times. It may be nil.
	PreCommitCheck func(task *api.TaskInfo, node string) error
	// RollbackIfNotRun reports whether the plugin did something for the task before the chain, when the session placed it, such as
	// assuming its volumes. Rollback undoes that too, so it is called for every member that is not bound, even if PreBind never
	// began.
	RollbackIfNotRun bool
	// Bound is called after Ledger.Bound when the member is bound; it may be nil. Like a successful Rollback, it ends the state
	// that the step keeps for the member. Its context has a deadline, and other members wait for it to return.
	Bound func(ctx context.Context, task *api.TaskInfo, node string)
	// Timeout bounds one run of PreBind and one run of Rollback; DefaultStepTimeout when zero.
	Timeout time.Duration
}

// Member is one task of a gang with the node chosen for it and the steps that prepare it.
type Member struct {
	// Task is the member's own copy, with a private copy of the pod that steps may annotate.
	Task  *api.TaskInfo
	Node  string
	Steps []Step

	base map[string]string
}

// NewMember returns a member for the task, with a private copy of its pod: annotations that steps set on the copy are staged, and
// are written with the Binding.
func NewMember(task *api.TaskInfo, node string, steps []Step) *Member {
	own := task.Clone()
	own.Pod = task.Pod.DeepCopy()
	return &Member{Task: own, Node: node, Steps: steps, base: maps.Clone(own.Pod.Annotations)}
}

// Stage stages an annotation, even one that the pod already has with this value: another client may change it before the pod is
// bound.
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

// Transaction is the members of a gang, or of a group of gangs, from one session. They are bound together or not at all.
type Transaction struct {
	// Gang is the gang, or the first of the group.
	Gang api.JobID
	// GangGroup is nil for a gang whose only terms are its minimum.
	GangGroup *GangGroup
	Members   []*Member
	// Lost are the members that were lost before the transaction was submitted, with the reason. None of their steps begins.
	Lost map[*Member]error
}

// Gatekeeper knows the gangs' minima.
type Gatekeeper interface {
	// Quorum returns nil if every gang of the transaction has enough members once the passed ones are bound: it reaches its
	// minimum, mostly together with members already bound or running, and meets its other terms (GangTerms). Otherwise it returns
	// an error that says what is missing. Members of the transaction that are not in passed are lost. An error of the API server
	// that may pass, such as a time-out, is no verdict: the engine asks again a few times. Steps may be at work on the members
	// meanwhile, so Quorum must not read the annotations of their pods.
	Quorum(ctx context.Context, t *Transaction, passed []*Member) error
}

// Binder writes Bindings and reads their outcome.
type Binder interface {
	// Bind binds the member's pod, by UID, to its node, with its staged annotations, in one write. It returns the error of the
	// API client, wrapped or not.
	Bind(ctx context.Context, m *Member) error
	// GetBinding reads the pod's current node from the API server, not from a cache.
	GetBinding(ctx context.Context, m *Member) (PodBinding, error)
}

// PodBinding is the binding of a member's pod according to the API server.
type PodBinding struct {
	// Gone reports whether the pod, by UID, no longer exists or is being deleted. A pod that is being deleted on the member's
	// node still counts as bound.
	Gone bool
	// Node is the node the pod is bound to, empty while it is bound to none.
	Node string
}

// Ledger records which members hold resources. Its methods are called from the engine's goroutines, and must not block on the API
// server. Each member is either Bound or Released, once.
type Ledger interface {
	// Bound records that the member's pod is known to be bound.
	Bound(m *Member)
	// Released records that the member will not be bound, and that every step that began or is marked with RollbackIfNotRun is
	// rolled back: its resources are free.
	Released(m *Member, cause error)
	// Ended records that every member of the transaction was bound, released, or abandoned by Abort. Engine.InFlight no longer
	// counts the transaction; the gang's next one starts after Ended returns.
	Ended(r Result)
}

// Observer receives reports, for metrics and events. Its methods must not block.
type Observer interface {
	// StepDone reports one run of a step, when it returned or was given up by deadline or cancellation.
	StepDone(plugin string, err error, took time.Duration)
	// RollbackDone reports one run of a rollback.
	RollbackDone(plugin string, err error)
	// Delayed reports that a member has waited long for a step, a rollback or its bind. It is called again when the member then
	// waits long for something else.
	Delayed(m *Member, d Delay)
	// DelayEnded reports the end of a reported delay. The cause is why the member is not bound; nil when it is bound or still may
	// be. It is not called for members that Abort left.
	DelayEnded(m *Member, cause error)
	TransactionDone(r Result)
	// InFlight reports the number of transactions that have not ended.
	InFlight(transactions int)
}

// Failure is a member that was not bound, and why.
type Failure struct {
	Member *Member
	// Err is a *StepError when a step failed, a *BindError when the bind failed, a wrapped ErrNoQuorum when only the gang failed,
	// the cause given to Cancel or CancelNode, ErrDraining or ErrAborted.
	Err error
}

// PodGone reports whether the member failed because its pod no longer exists, according to the watch or to the answer to a call.
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
	// Gang is the transaction's Gang, and Gangs are all of its gangs.
	Gang   api.JobID
	Gangs  []api.JobID
	Bound  []*Member
	Failed []Failure
	// Abandoned are the members that Abort left with steps not rolled back or a bind not settled: neither Ledger.Bound nor
	// Ledger.Released was called for them. The next leader recovers them.
	Abandoned []Failure
	// QuorumErr says what the gang lacked when no member was bound; nil when it had enough.
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

// BindError is a bind that failed for good: refused by the API server, preceded by a Binding of another client, or tried too
// often.
type BindError struct {
	Pod, Node string
	Err       error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("binding pod %s to node %s failed: %s", e.Pod, e.Node, brief.Part(e.Err.Error()))
}

func (e *BindError) Unwrap() error { return e.Err }
