// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Session is one scheduling cycle's view of the cluster: upstream's session with the extension points this
// project adds. It is used from the scheduling goroutine only.
type Session struct {
	*vcframework.Session
	cache Cache
	// Action is the name of the action that runs, or ran last; empty before the first. Whoever executes actions sets it.
	Action string
	// turn is the job that the session does things for now.
	turn *turn

	// steps are the pre-bind steps of each plugin, in the order it registered them.
	steps map[string][]preBindStep
	// upstream holds the cache.PreBinders that upstream plugins registered in this session.
	upstream map[string]vccache.PreBinder
	// order lists the plugins in conf order; only those whose pre-bind steps are enabled.
	order []string
	// nodeGroups, nodeGroupOrders and taskScopes are what plugins say to allocate, in the order they said it.
	nodeGroups      []namedNodeGroupFn
	gatherers       []GatherFn
	avoids          []AvoidFn
	urgent          []func(*api.JobInfo) (Urgency, bool)
	units           []UnitFn
	nodeGroupOrders []nodeGroupOrder
	taskScopes      map[string]func(*api.TaskInfo) VerdictScope
	skips           map[string]SkipFn
	volumeKey       claimKey[v1.Volume]
	claimKey        claimKey[v1.PodResourceClaim]
	reach           namedReachFn
	reservers       reservers
	// decisions are what annotations had before plugins decided on them; nil where there was none.
	decisions map[api.TaskID]map[string]*string
	// registered are the predicates and scores that plugins have added with this session's methods.
	registered map[string]registered
	jobKeys    map[string]JobKeyFn
	// explainsShortage are the resources of which a plugin of this project says better than sums what a node is short of.
	explainsShortage map[v1.ResourceName]bool
	// explained are the gangs that were not placed.
	explained map[api.JobID]GangExplanation
	waits     map[api.JobID]Wait
	// clocks and observer are the registry's.
	clocks   waitClocks
	observer GangObserver
	queueUse *queueUse
	// forecasters are asked which gangs that were let in never fit.
	forecasters []Forecaster
	// handedOver are the tasks that the session has added to transactions.
	handedOver map[api.TaskID]bool
	// evicted are called with the evictions that the session's statements have committed.
	evicted []func(Eviction)
	// held are those that wait for the session's end, withdrawn those of them that were in vain, evict sends the others, and groups is
	// whether there are gangs for whose sake they wait; nil until somebody asks.
	held      []heldEviction
	withdrawn map[api.JobID][]*api.TaskInfo
	evict     func(Eviction, string) error
	groups    *bool
	// verdictInputs are those of this project's plugins.
	verdictInputs map[string]verdictInputs
	// chained marks that a chain was built already: a step added later would be missing from it.
	chained bool
}

func newSession(order []string, inputs map[string]verdictInputs) *Session {
	return &Session{
		turn:       &turn{begins: func() {}},
		steps:      map[string][]preBindStep{},
		upstream:   map[string]vccache.PreBinder{},
		taskScopes: map[string]func(*api.TaskInfo) VerdictScope{},
		skips:      map[string]SkipFn{},
		decisions:  map[api.TaskID]map[string]*string{},
		registered: map[string]registered{},
		jobKeys:    map[string]JobKeyFn{},

		explainsShortage: map[v1.ResourceName]bool{},
		explained:        map[api.JobID]GangExplanation{},
		waits:            map[api.JobID]Wait{},
		handedOver:       map[api.TaskID]bool{},
		withdrawn:        map[api.JobID][]*api.TaskInfo{},
		clocks:           waitClocks{},
		observer:         unobserved{},
		verdictInputs:    inputs,
		order:            order,
	}
}

// HandedOver is true of a task that the session has handed over to be bound: what was decided on it cannot change any more.
func (ssn *Session) HandedOver(task api.TaskID) bool { return ssn.handedOver[task] }

// AddPreBindFn adds a plugin's pre-bind step. Use it from OnSessionOpen. A step added after the session has
// handed out its first member is ignored, and logged, because members of one gang must run the same chain.
func (ssn *Session) AddPreBindFn(plugin string, fn PreBindFn, opts ...PreBindOption) {
	ssn.addStep(plugin, preBindStep{
		preBind: func(_ context.Context, task *api.TaskInfo, node string) error { return fn(task, node) },
	}, opts)
}

// AddPreBinder adds a plugin's pre-bind step with its undo. Use it from OnSessionOpen, as AddPreBindFn.
func (ssn *Session) AddPreBinder(plugin string, pb PreBinder, opts ...PreBindOption) {
	ssn.addStep(plugin, preBindStep{preBind: pb.PreBind, rollback: pb.Rollback}, opts)
}

// addStep returns false if it is too late for a step.
func (ssn *Session) addStep(plugin string, step preBindStep, opts []PreBindOption) bool {
	if ssn.chained {
		klog.Background().Error(nil, "Pre-bind step registered outside OnSessionOpen is ignored", "plugin", plugin)
		return false
	}
	step.timeout = DefaultStepTimeout
	for _, opt := range opts {
		opt(&step)
	}
	ssn.steps[plugin] = append(ssn.steps[plugin], step)
	return true
}

// chain returns the pre-bind steps for one task: plugins in conf order, and within a plugin first the steps it
// added here, then the cache.PreBinder it registered with upstream's RegisterBinder.
func (ssn *Session) chain(bindCtx *vccache.BindContext) []binding.Step {
	ssn.chained = true
	var steps []binding.Step
	for _, plugin := range ssn.order {
		for _, s := range ssn.steps[plugin] {
			steps = append(steps, binding.Step{
				Plugin: plugin, PreBind: s.preBind, LastLook: s.lastLook, Rollback: s.rollback, RollbackUnbegun: s.rollbackUnbegun,
				Bound: s.bound, Timeout: s.timeout,
			})
		}
		if pb, ok := ssn.upstream[plugin]; ok {
			steps = append(steps, upstreamStep(plugin, pb, bindCtx))
		}
	}
	return steps
}

// upstreamStepTimeout bounds an upstream PreBinder. Upstream's own is the predicates plugin, whose volume binding
// waits up to 600 s for a volume and then gives up by itself.
const upstreamStepTimeout = 11 * time.Minute

// upstreamStep makes a step of an upstream PreBinder, which takes its task from the bind context. Its rollback is that of
// the plugin's Reserve too, which the session ran when it placed the task.
func upstreamStep(plugin string, pb vccache.PreBinder, bindCtx *vccache.BindContext) binding.Step {
	return binding.Step{
		Plugin:          plugin,
		Timeout:         upstreamStepTimeout,
		RollbackUnbegun: true,
		PreBind: func(ctx context.Context, task *api.TaskInfo, _ string) error {
			return pb.PreBind(ctx, &vccache.BindContext{TaskInfo: task, Extensions: bindCtx.Extensions})
		},
		Rollback: func(ctx context.Context, task *api.TaskInfo, _ string) error {
			pb.PreBindRollBack(ctx, &vccache.BindContext{TaskInfo: task, Extensions: bindCtx.Extensions})
			return nil
		},
	}
}

// AddPredicateFn adds a predicate; a panic in it is that node's verdict, with the plugin's name, and does not
// reach the scheduler.
func (ssn *Session) AddPredicateFn(plugin string, fn api.PredicateFn) {
	ssn.registered[plugin] = registered{predicate: true, score: ssn.registered[plugin].score}
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
	ssn.noteScore(plugin)
	ssn.Session.AddNodeOrderFn(plugin, func(task *api.TaskInfo, node *api.NodeInfo) (score float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(task, node)
	})
}

// AddBatchNodeOrderFn adds a score of all candidate nodes at once; a panic in it is an error with the plugin's name. The
// map it returns is only read.
func (ssn *Session) AddBatchNodeOrderFn(plugin string, fn api.BatchNodeOrderFn) {
	ssn.noteScore(plugin)
	ssn.AddEvictionNodeOrderFn(plugin, fn)
}

// AddEvictionNodeOrderFn adds a score of all candidate nodes at once that only the actions that evict ask for, and allocate does not.
func (ssn *Session) AddEvictionNodeOrderFn(plugin string, fn api.BatchNodeOrderFn) {
	ssn.Session.AddBatchNodeOrderFn(plugin, func(task *api.TaskInfo, nodes []*api.NodeInfo) (scores map[string]float64, err error) {
		defer recoverAs(plugin, &err)
		return fn(task, nodes)
	})
}

func recoverAs(plugin string, err *error) {
	if p := recover(); p != nil {
		klog.Background().Error(nil, "Plugin panicked", "plugin", plugin, "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("plugin %s panicked: %v", plugin, p)
	}
}
