// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// chain holds the pre-bind steps that tasks get in this session.
type chain struct {
	// order lists, in conf order, the plugins whose pre-bind steps are enabled.
	order []string
	// steps are the pre-bind steps of each plugin, in the order in which the plugin added them.
	steps map[string][]preBindStep
	// upstream holds the cache.PreBinders that upstream plugins registered in this session.
	upstream map[string]vccache.PreBinder
	// made reports whether any task was already given its steps. No step may be added afterwards, because that task
	// would lack the step.
	made bool
}

func newChain(order []string) chain {
	return chain{order: order, steps: map[string][]preBindStep{}, upstream: map[string]vccache.PreBinder{}}
}

// add adds a step of the plugin. It ignores and logs the step if a task has already been given its steps.
func (c *chain) add(plugin string, step preBindStep) {
	if c.made {
		klog.Background().Error(nil, "Pre-bind step registered outside OnSessionOpen is ignored", "plugin", plugin)
		return
	}
	c.steps[plugin] = append(c.steps[plugin], step)
}

// addPreBinder adds the step of a plugin that is a PreBinder. If reserves is set, the plugin is a Reserver, and the
// step's rollback runs even if the step has not begun.
func (c *chain) addPreBinder(plugin string, pb PreBinder, reserves bool) {
	step := preBindStep{preBind: pb.PreBind, rollback: pb.Rollback, rollbackIfNotRun: reserves, timeout: DefaultStepTimeout}
	if optioner, ok := pb.(PreBindOptioner); ok {
		for _, opt := range optioner.PreBindOptions() {
			opt(&step)
		}
	}
	c.add(plugin, step)
}

// enabled reports whether the conf enables the plugin's pre-bind steps.
func (c *chain) enabled(plugin string) bool { return slices.Contains(c.order, plugin) }

// of returns the pre-bind steps for the task of the bind context, with plugins in conf order. A plugin's steps have
// this order: the steps that it added as functions, its step as a PreBinder of this project, its step as an upstream
// cache.PreBinder.
func (c *chain) of(bindCtx *vccache.BindContext) []binding.Step {
	c.made = true
	var steps []binding.Step
	for _, plugin := range c.order {
		for _, s := range c.steps[plugin] {
			steps = append(steps, binding.Step{
				Plugin: plugin, PreBind: s.preBind, PreCommitCheck: s.preCommitCheck, Rollback: s.rollback, RollbackIfNotRun: s.rollbackIfNotRun,
				Bound: s.bound, Timeout: s.timeout,
			})
		}
		if pb, ok := c.upstream[plugin]; ok {
			steps = append(steps, upstreamStep(plugin, pb, bindCtx))
		}
	}
	return steps
}

// upstreamStepTimeout bounds a step that calls an upstream PreBinder. Upstream has one PreBinder, in its plugin
// predicates. This PreBinder waits up to 600 s for a volume and then fails by itself, so the bound is longer.
const upstreamStepTimeout = 11 * time.Minute

// upstreamStep returns a step that calls an upstream PreBinder with the task of the bind context. The step's rollback
// also undoes the plugin's Reserve, which the session called when it placed the task.
func upstreamStep(plugin string, pb vccache.PreBinder, bindCtx *vccache.BindContext) binding.Step {
	return binding.Step{
		Plugin:           plugin,
		Timeout:          upstreamStepTimeout,
		RollbackIfNotRun: true,
		PreBind: func(ctx context.Context, task *api.TaskInfo, _ string) error {
			return pb.PreBind(ctx, &vccache.BindContext{TaskInfo: task, Extensions: bindCtx.Extensions})
		},
		Rollback: func(ctx context.Context, task *api.TaskInfo, _ string) error {
			pb.PreBindRollBack(ctx, &vccache.BindContext{TaskInfo: task, Extensions: bindCtx.Extensions})
			return nil
		},
	}
}
