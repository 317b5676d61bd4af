// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"errors"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

var errReserved = errors.New("the plugin's reservation for the pod was released before the bind")

// PreBindOptions implements framework.PreBindOptioner.
func (p transacting) PreBindOptions() []framework.PreBindOption {
	return []framework.PreBindOption{framework.WithTimeout(p.timeout), framework.WithBound(p.bound)}
}

// PreBind implements framework.PreBinder.
func (p transacting) PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	state := p.heldFor(task.Pod.UID)
	if state == nil {
		return errReserved
	}
	if p.points.preBind == nil {
		return nil
	}
	status := p.points.preBind.PreBindPreFlight(ctx, state, task.Pod, nodeName)
	if status.IsSkip() {
		return nil
	}
	if err := p.failure(status); err != nil {
		return err
	}
	return p.failure(p.points.preBind.PreBind(ctx, state, task.Pod, nodeName))
}

// Rollback implements framework.PreBinder. It calls Unreserve of the adapted plugin, which cannot return an error. If
// Unreserve panics, or returns after its deadline, the engine calls Rollback again.
func (p transacting) Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error {
	state := p.heldFor(task.Pod.UID)
	if state == nil {
		return nil
	}
	if p.points.reserve != nil {
		p.points.reserve.Unreserve(ctx, state, task.Pod, nodeName)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.forget(task.Pod.UID)
	return nil
}

// bound calls PostBind, and drops the task's state.
func (p transacting) bound(ctx context.Context, task *api.TaskInfo, nodeName string) {
	defer p.forget(task.Pod.UID)
	if state := p.heldFor(task.Pod.UID); state != nil && p.points.postBind != nil {
		p.points.postBind.PostBind(ctx, state, task.Pod, nodeName)
	}
}
