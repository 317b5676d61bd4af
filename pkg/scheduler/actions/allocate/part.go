// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// Part is tasks of a sub-job that are placed together in one scope.
type Part struct {
	attempt *state.Attempt
	subJob  *api.SubJobInfo
	// tasks are in task order.
	tasks    []*api.TaskInfo
	scope    state.Scope
	idleOnly bool
	// needed is how many of the tasks must be placed before the sub-job can be ready.
	needed int
	// retrying is true of trials that are made when the first one has failed. Explanations do not cover them, as not each session
	// has the steps for them.
	retrying bool
}

func newPart(r *state.Attempt, subJob *api.SubJobInfo, tasks []*api.TaskInfo, scope state.Scope, idleOnly bool) *Part {
	return &Part{attempt: r, subJob: subJob, tasks: tasks, scope: scope, idleOnly: idleOnly, needed: r.NeededAtOnce(subJob, len(tasks))}
}

// neededByRole is how many more tasks of each role the sub-job needs: none where roles may come from other sub-jobs, too.
func (s *Part) neededByRole() map[string]int32 {
	if s.attempt.Job.ContainsSubJobPolicy() {
		return nil
	}
	return s.attempt.NeededByRole()
}

// try makes a trial: it places the first tasks together, arranged as given, and then the others one batch after the other. It also
// returns the classes that found no room.
func try(s *Part, first int, arranged arrangement) (subJobResult, []*feasible.TaskClass) {
	p := newPlacer(s)
	first = min(first, len(s.tasks))
	stopped := p.placeBatches(s.batches(s.tasks[:first], arranged))
	tried := first
	for !stopped && !p.done && tried < len(s.tasks) {
		n := s.attempt.Run.SameClass(s.tasks[tried:])
		stopped = p.placeBatches([]batch{{tasks: s.tasks[tried : tried+n]}})
		tried += n
	}
	return p.end(p.untouched(tried)), p.blocked
}

// tryAll makes a trial of the tasks that goes on with further classes although the sub-job cannot be ready without a task that fits
// nowhere.
func tryAll(s *Part, arranged arrangement) subJobResult {
	p := newPlacer(s)
	p.patient = true
	p.placeBatches(s.batches(s.tasks, arranged))
	return p.end(nil)
}
