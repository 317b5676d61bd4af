// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// scriptedStep is the step with number i of a pod, which follows its script.
type scriptedStep struct {
	w *harness
	p *pod
	i int
	act
}

func (s scriptedStep) preBind(ctx context.Context, task *api.TaskInfo, node string) error {
	begin := time.Now()
	s.w.at(s.p, func() {
		s.p.log(s.plugin)
		s.w.stepsBegun[s.plugin]++
		s.w.expect(s.p, !s.p.ran.running && !s.p.bound && !s.p.released, "step %s began in a wrong state", s.plugin)
		s.w.expect(s.p, s.p.ran.begun == s.i, "step %s began after %d others", s.plugin, s.p.ran.begun)
		s.w.expect(s.p, s.w.turns.started(s.p), "step %s began before its transaction's turn", s.plugin)
		s.w.expectGoing(s.p, s.plugin)
		s.p.ran.running, s.p.ran.begun = true, s.i+1
		s.w.busy++
		s.w.peak = max(s.w.peak, s.w.busy)
	})
	task.Pod.Annotations = map[string]string{s.plugin: node}
	err := spend(ctx, s.takes, s.deaf)
	s.w.at(s.p, func() {
		s.p.ran.running, s.p.ran.stopped = false, time.Now()
		s.w.busy--
		inTime := time.Since(begin) < (&Step{Timeout: s.timeout}).timeout()
		if err == nil && s.err == nil && !s.panics && inTime {
			s.p.ran.well++
		}
	})
	if s.panics {
		panic("told to")
	}
	return errors.Join(err, s.err)
}

func (s scriptedStep) bound(ctx context.Context, _ *api.TaskInfo, node string) {
	_, bounded := ctx.Deadline()
	s.w.at(s.p, func() {
		s.p.log("+" + s.plugin)
		s.w.expect(s.p, s.p.bound && node == s.p.Node, "%s is told of a bind to %s that is not", s.plugin, node)
		s.w.expect(s.p, bounded, "%s is told of a bind without a deadline", s.plugin)
	})
	if s.notifyPanics {
		panic("told to")
	}
}

func (s scriptedStep) rollback(ctx context.Context, _ *api.TaskInfo, _ string) error {
	var err error
	s.w.at(s.p, func() {
		s.w.expect(s.p, !s.p.ran.running, "rollback of %s while a step runs", s.plugin)
		s.w.expect(s.p, !s.p.bound && !s.p.released && !s.p.landed(), "rollback of %s in a wrong state", s.plugin)
		s.w.expectGoing(s.p, "-"+s.plugin)
		s.w.expect(s.p, s.p.owed() == s.i, "rollback of %s out of turn, step %d is owed one", s.plugin, s.p.owed())
		if n := s.p.ran.undos[s.i]; n < len(s.undo) {
			err = s.undo[n]
		}
		s.p.ran.undos[s.i]++
	})
	if late := spend(ctx, s.undoTakes, true); late != nil {
		err = late
	}
	s.w.at(s.p, func() {
		if err != nil && !apierrors.IsNotFound(err) {
			s.p.log("-" + s.plugin + "!")
			return
		}
		s.p.log("-" + s.plugin)
		s.p.ran.undone[s.i] = true
	})
	return err
}
