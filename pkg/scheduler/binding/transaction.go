package binding

import (
	"context"
	"fmt"
	"maps"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Step is one plugin's part of a member's pre-bind chain.
type Step struct {
	// Plugin names the step in errors, events and metrics.
	Plugin string
	// PreBind prepares the task for the node.
	PreBind func(ctx context.Context, task *api.TaskInfo, node string) error
	// Rollback undoes PreBind, also one that failed half-way; nil when there is nothing to undo.
	Rollback func(ctx context.Context, task *api.TaskInfo, node string) error
	// Timeout bounds one run of PreBind and one run of Rollback.
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

// Transaction is a gang's members of one session that are bound together or not at all.
type Transaction struct {
	Gang    api.JobID
	Members []*Member
}

// Gatekeeper knows the gang's minimum.
type Gatekeeper interface {
	// Quorum returns nil when the gang is at or above its minimum with these members bound beside those already
	// bound or running, and an error that says what is missing otherwise.
	Quorum(ctx context.Context, gang api.JobID, passed []*Member) error
}

// Binder writes bindings and reads their fate.
type Binder interface {
	// Bind binds the member's pod to its node, with its staged annotations, in one write.
	Bind(ctx context.Context, m *Member) error
	// Lookup reads where the pod is now.
	Lookup(ctx context.Context, m *Member) (Fate, error)
}

// Fate is what the API server says of a member's pod.
type Fate struct {
	// Gone is set when the pod, by UID, exists no more or is being deleted.
	Gone bool
	// Node is the node the pod is bound to, empty while it is bound to none.
	Node string
}

// Ledger keeps the books: which member holds resources. Its methods are called from the engine's goroutines,
// once for each member, and must not block on the API server.
type Ledger interface {
	// Bound tells that the member's pod is bound for sure.
	Bound(m *Member)
	// Released tells that the member will not be bound and that every step it began is rolled back: its
	// resources are free.
	Released(m *Member, cause error)
	// Ended tells that every member of the transaction was either bound or released.
	Ended(r Result)
}

// Observer is told of what happens, for metrics and events.
type Observer interface {
	StepDone(plugin string, err error, took time.Duration)
	RollbackDone(plugin string, err error)
	// RollbackStuck is called once for a member whose rollback has kept failing for a while.
	RollbackStuck(m *Member, plugin string, err error)
	TransactionDone(r Result)
	InFlight(transactions int)
}

// Failure is a member that was not bound, and why.
type Failure struct {
	Member *Member
	// Err is a *StepError when a step failed, a *BindError when the bind failed, ErrNoQuorum (wrapped) when the
	// member was well but its gang was not, or the cause given to Cancel.
	Err error
}

// Result is how a transaction ended.
type Result struct {
	Gang   api.JobID
	Bound  []*Member
	Failed []Failure
	// QuorumErr says what the gang lacked when nobody was bound; nil when it had enough.
	QuorumErr error
	Took      time.Duration
}

// StepError is the failure of one plugin's step.
type StepError struct {
	Plugin, Pod, Node string
	Err               error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("pre-bind plugin %s failed for pod %s on node %s: %v", e.Plugin, e.Pod, e.Node, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// BindError is a bind the API server refused for good.
type BindError struct {
	Pod, Node string
	Err       error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("binding pod %s to node %s failed: %v", e.Pod, e.Node, e.Err)
}

func (e *BindError) Unwrap() error { return e.Err }
