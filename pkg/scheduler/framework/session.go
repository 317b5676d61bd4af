// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// Session is one scheduling cycle's view of the cluster: upstream's session with the extension points of this project.
// It is used on the scheduling goroutine only.
type Session struct {
	*vcframework.Session
	cache Cache
	// Action is the name of the running action, or of the last one; empty before the first. The caller that executes
	// actions sets it.
	Action string
	// Pauses are of gangs that have held idle resources for too long; nil without allocate.
	Pauses Pauses
	// currentJob is the job that the session currently works on.
	currentJob *currentJob

	chain chain
	// Placements combines the plugins' answers on where gangs are placed.
	Placements Placements
	// Signers describes the plugins' predicates and node scores.
	Signers   Signers
	reservers reservers
	// stagedAnnotations are the values that annotations had before StageAnnotation; nil where there was none.
	stagedAnnotations map[api.TaskID]map[string]*string
	// explained are the gangs that were not placed.
	explained      map[api.JobID]GangExplanation
	pendingReasons map[api.JobID]PendingReason
	// pendingTimers, observer and pendingCategories belong to the registry.
	pendingTimers     pendingTimers
	observer          GangObserver
	pendingCategories map[string]PendingCategory
	// QueueUse holds the resources that queues use, and their limits.
	QueueUse QueueUse
	// infeasibilityCheckers are the plugins that detect admitted gangs that never fit.
	infeasibilityCheckers []ofPlugin[InfeasibilityChecker]
	// committed are the tasks that the session has added to transactions.
	committed map[api.TaskID]bool
	evictions evictions
	// touched are the names of the nodes on which the session has placed or evicted tasks, even if that was undone; nil
	// if plugins or actions may change nodes in other ways.
	touched map[string]bool
}

// Pauses decides when jobs may not hold idle resources.
type Pauses interface {
	// IdleOnly reports whether allocate may place the job on idle resources only.
	IdleOnly(job *api.JobInfo) bool
	// Paused reports whether gangs of the job's namespace, or of a job that is placed together with it, have held idle resources for too
	// long. No pods are evicted for the job then if it would hold more.
	Paused(job *api.JobInfo) bool
}

func newSession(order []string) *Session {
	ssn := &Session{
		currentJob:        &currentJob{begins: func() {}},
		Signers:           newSigners(),
		stagedAnnotations: map[api.TaskID]map[string]*string{},

		explained:      map[api.JobID]GangExplanation{},
		pendingReasons: map[api.JobID]PendingReason{},
		committed:      map[api.TaskID]bool{},
		pendingTimers:  pendingTimers{},
		observer:       unobserved{},
		chain:          newChain(order),
	}
	paused := func(job *api.JobInfo) bool { return ssn.Pauses != nil && ssn.Pauses.Paused(job) }
	ssn.evictions = evictions{placements: &ssn.Placements, paused: paused, cancelled: map[api.JobID][]*api.TaskInfo{}}
	return ssn
}

// Committed reports whether the session has committed the task: handed it over to be bound. Its annotations can then no longer
// change.
func (ssn *Session) Committed(task api.TaskID) bool { return ssn.committed[task] }

// Touched reports whether the session may have changed the named node: it has placed or evicted a task there, even if
// that was undone, or it has plugins or actions that may change nodes in other ways.
func (ssn *Session) Touched(node string) bool { return ssn.touched == nil || ssn.touched[node] }

// AddPreBindFn adds a plugin's pre-bind step. Use it from OnSessionOpen. A step added after the session has
// handed out its first member is ignored, and logged, because members of one gang must run the same chain.
func (ssn *Session) AddPreBindFn(plugin string, fn PreBindFn, opts ...PreBindOption) {
	step := preBindStep{
		preBind: func(_ context.Context, task *api.TaskInfo, node string) error { return fn(task, node) },
		timeout: DefaultStepTimeout,
	}
	for _, opt := range opts {
		opt(&step)
	}
	ssn.chain.add(plugin, step)
}

// AddPredicateFn adds a predicate. A panic in it counts as a refusal of that node, with the plugin's name, and does not
// end the cycle.
func (ssn *Session) AddPredicateFn(plugin string, fn api.PredicateFn) {
	ssn.Signers.recordAdded(plugin, added{predicate: true})
	ssn.Session.AddPredicateFn(plugin, func(task *api.TaskInfo, node *api.NodeInfo) (err error) {
		defer recoverAs(plugin, &err)
		return fn(task, node)
	})
}

// AddPrePredicateFn adds a pre-predicate; a panic in it fails the task with the plugin's name.
func (ssn *Session) AddPrePredicateFn(plugin string, fn api.PrePredicateFn) {
	ssn.Session.AddPrePredicateFn(plugin, func(task *api.TaskInfo) (err error) {
		defer recoverAs(plugin, &err)
		return fn(task)
	})
}

// AddNodeOrderFn adds a node score; a panic in it is an error with the plugin's name.
func (ssn *Session) AddNodeOrderFn(plugin string, fn api.NodeOrderFn) {
	ssn.Signers.recordAdded(plugin, added{score: true})
	ssn.Session.AddNodeOrderFn(plugin, func(task *api.TaskInfo, node *api.NodeInfo) (score float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(task, node)
	})
}

// AddBatchNodeOrderFn adds a score of all candidate nodes at once; a panic in it is an error with the plugin's name. The
// map it returns is only read.
func (ssn *Session) AddBatchNodeOrderFn(plugin string, fn api.BatchNodeOrderFn) {
	ssn.Signers.recordAdded(plugin, added{score: true})
	ssn.AddEvictionNodeOrderFn(plugin, fn)
}

// AddEvictionNodeOrderFn adds a score of all candidate nodes at once that is used only by the actions that evict, not by
// allocate.
func (ssn *Session) AddEvictionNodeOrderFn(plugin string, fn api.BatchNodeOrderFn) {
	ssn.Session.AddBatchNodeOrderFn(plugin, func(task *api.TaskInfo, nodes []*api.NodeInfo) (scores map[string]float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(task, nodes)
	})
}

// AddBestNodeFn adds a plugin's choice among the scored nodes. It is called for every task: the plugin counts as Uncached,
// whatever it signs.
func (ssn *Session) AddBestNodeFn(plugin string, fn api.BestNodeFn) {
	ssn.Signers.recordAdded(plugin, added{score: true, choice: true})
	ssn.Session.AddBestNodeFn(plugin, fn)
}

// AddNodeMapFn adds a score of a node that the plugin's NodeReduceFn scales. The plugin counts as Uncached.
func (ssn *Session) AddNodeMapFn(plugin string, fn api.NodeMapFn) {
	ssn.Signers.recordAdded(plugin, added{score: true, choice: true})
	ssn.Session.AddNodeMapFn(plugin, fn)
}

// AddNodeReduceFn adds a function that scales the scores of the plugin's NodeMapFn. The plugin counts as Uncached.
func (ssn *Session) AddNodeReduceFn(plugin string, fn api.NodeReduceFn) {
	ssn.Signers.recordAdded(plugin, added{score: true, choice: true})
	ssn.Session.AddNodeReduceFn(plugin, fn)
}

func recoverAs(plugin string, err *error) {
	if p := recover(); p != nil {
		klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("plugin %s panicked: %v", plugin, p)
	}
}
