// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Session is one scheduling cycle's view of the cluster: upstream's session with the extension points of this project.
// It is used on the scheduling goroutine only.
type Session struct {
	*vcframework.Session
	cache Cache
	// Action is the name of the action that runs now or ran last; empty before the first action.
	Action string
	// Reporter reports why gangs wait.
	Reporter PendingReporter
	// currentJob is the job that the session is working on.
	currentJob *currentJob

	chain chain
	// Placements combines the plugins' answers on where gangs are placed.
	Placements Placements
	// Signers describes the plugins' predicates and node scores.
	Signers   Signers
	reservers reservers
	// stagedAnnotations holds, for each annotation that StageAnnotation has set, its value before that; nil for an
	// annotation that did not exist.
	stagedAnnotations map[api.TaskID]map[string]*string
	pending           pending
	// QueueUse knows how many resources queues use, and their limits.
	QueueUse QueueUse
	// voters are the plugins of this project that vote on the admission of gangs.
	voters []ofPlugin[AdmissionVoter]
	// committed are the tasks that the session has handed over to be bound.
	committed map[api.TaskID]bool
	evictions evictions
	// pausers are the actions that pause gangs.
	pausers []ofPlugin[Pauser]
	// touched are the nodes on which the session has placed or evicted tasks, and the jobs of these tasks. It is nil if
	// plugins or actions may change nodes or placed tasks in other ways.
	touched *snapshot.Touched
}

func newSession(order []string) *Session {
	ssn := &Session{
		Reporter:          unreported{},
		currentJob:        &currentJob{begins: func() {}},
		Signers:           newSigners(),
		stagedAnnotations: map[api.TaskID]map[string]*string{},
		pending:           pending{reasons: map[api.JobID]PendingReason{}, explained: map[api.JobID]GangExplanation{}},
		committed:         map[api.TaskID]bool{},
		chain:             newChain(order),
	}
	ssn.evictions = evictions{placements: &ssn.Placements}
	return ssn
}

// Committed reports whether the session has handed the task over to be bound. The task's annotations can then no longer
// change.
func (ssn *Session) Committed(task api.TaskID) bool { return ssn.committed[task] }

// Touched reports whether the session may have changed the named node. This is so if it has placed or evicted a task
// there, even if the change was undone, or if some plugin or action may change nodes in other ways.
func (ssn *Session) Touched(node string) bool { return ssn.touched == nil || ssn.touched.Nodes[node] }

// TouchedJob reports whether the session may have changed tasks of the job, as Touched does for nodes.
func (ssn *Session) TouchedJob(job api.JobID) bool {
	return ssn.touched == nil || ssn.touched.Jobs[job]
}

// Paused reports whether an action pauses the job (Pauser): the job may hold no idle resources now.
func (ssn *Session) Paused(job *api.JobInfo) bool {
	return slices.ContainsFunc(ssn.pausers, func(p ofPlugin[Pauser]) (paused bool) {
		guarded(p.plugin, func() { paused = p.is.Paused(ssn, job) })
		return paused
	})
}

// AddPreBindFn adds a plugin's pre-bind step. Call it in OnSessionOpen. A step that is added after the session has
// handed over its first task is ignored, and logged, because all members of a gang must run the same steps.
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

// AddPredicateFn adds a predicate of the plugin. A panic of the predicate does not end the cycle. It counts as a
// refusal of the node, and the reason names the plugin.
func (ssn *Session) AddPredicateFn(plugin string, fn api.PredicateFn) {
	ssn.Signers.recordAdded(plugin, added{predicate: true})
	ssn.Session.AddPredicateFn(plugin, func(task *api.TaskInfo, node *api.NodeInfo) (err error) {
		defer recoverAs(plugin, &err)
		return fn(task, node)
	})
}

// AddPrePredicateFn adds a pre-predicate of the plugin. A panic of the pre-predicate fails the task, with the plugin's
// name in the reason.
func (ssn *Session) AddPrePredicateFn(plugin string, fn api.PrePredicateFn) {
	ssn.Session.AddPrePredicateFn(plugin, func(task *api.TaskInfo) (err error) {
		defer recoverAs(plugin, &err)
		return fn(task)
	})
}

// AddNodeOrderFn adds a function that scores a node. A panic of the function becomes an error with the plugin's name.
func (ssn *Session) AddNodeOrderFn(plugin string, fn api.NodeOrderFn) {
	ssn.Signers.recordAdded(plugin, added{score: true})
	ssn.Session.AddNodeOrderFn(plugin, func(task *api.TaskInfo, node *api.NodeInfo) (score float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(task, node)
	})
}

// AddBatchNodeOrderFn adds a function that scores all candidate nodes in one call. A panic of the function becomes an
// error with the plugin's name. Callers only read the returned map.
func (ssn *Session) AddBatchNodeOrderFn(plugin string, fn api.BatchNodeOrderFn) {
	ssn.Signers.recordAdded(plugin, added{score: true})
	ssn.AddEvictionNodeOrderFn(plugin, fn)
}

// AddEvictionNodeOrderFn adds a function that scores all candidate nodes in one call, for the actions that evict.
// allocate does not use it.
func (ssn *Session) AddEvictionNodeOrderFn(plugin string, fn api.BatchNodeOrderFn) {
	ssn.Session.AddBatchNodeOrderFn(plugin, func(task *api.TaskInfo, nodes []*api.NodeInfo) (scores map[string]float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(task, nodes)
	})
}

// AddBestNodeFn adds a function that chooses one of the scored nodes. It is called for every task. So the plugin's
// results are not cached (CacheScope Uncached), whatever its SignTask returns.
func (ssn *Session) AddBestNodeFn(plugin string, fn api.BestNodeFn) {
	ssn.Signers.recordAdded(plugin, added{score: true, choice: true})
	ssn.Session.AddBestNodeFn(plugin, fn)
}

// AddNodeMapFn adds a function that scores a node; the plugin's NodeReduceFn scales its scores. The plugin's results
// are not cached (CacheScope Uncached).
func (ssn *Session) AddNodeMapFn(plugin string, fn api.NodeMapFn) {
	ssn.Signers.recordAdded(plugin, added{score: true, choice: true})
	ssn.Session.AddNodeMapFn(plugin, fn)
}

// AddNodeReduceFn adds a function that scales the scores of the plugin's NodeMapFn. The plugin's results are not cached
// (CacheScope Uncached).
func (ssn *Session) AddNodeReduceFn(plugin string, fn api.NodeReduceFn) {
	ssn.Signers.recordAdded(plugin, added{score: true, choice: true})
	ssn.Session.AddNodeReduceFn(plugin, fn)
}

// AddJobOrderFn adds a function that orders jobs.
func (ssn *Session) AddJobOrderFn(plugin string, fn api.CompareFn) {
	ssn.Signers.recordAdded(plugin, added{jobOrder: true})
	ssn.Session.AddJobOrderFn(plugin, fn)
}

func recoverAs(plugin string, err *error) {
	if p := recover(); p != nil {
		klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("plugin %s panicked: %v", plugin, p)
	}
}
