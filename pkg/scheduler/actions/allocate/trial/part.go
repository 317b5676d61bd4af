// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// Part is a set of tasks of a sub-job that are placed together in one scope.
type Part struct {
	attempt *state.Attempt
	SubJob  *api.SubJobInfo
	// Tasks are in task order.
	Tasks    []*api.TaskInfo
	Scope    state.Scope
	IdleOnly bool
	// Needed is how many of the tasks must be placed before the sub-job can be ready.
	Needed int
	// Retrying reports whether the first trial has failed. Explanations do not cover retries, because not every session
	// has enough search budget (crosssession.Budget) for retries.
	Retrying bool
}

// NewPart returns a part of the attempt: these tasks of the sub-job, in the scope.
func NewPart(r *state.Attempt, subJob *api.SubJobInfo, tasks []*api.TaskInfo, scope state.Scope, idleOnly bool) *Part {
	return &Part{attempt: r, SubJob: subJob, Tasks: tasks, Scope: scope, IdleOnly: idleOnly, Needed: r.NeededAtOnce(subJob, len(tasks))}
}

// NeededByRole returns how many more tasks of each role the sub-job needs; nil if other sub-jobs may supply the roles,
// too.
func (s *Part) NeededByRole() map[string]int32 {
	if s.attempt.Job.ContainsSubJobPolicy() {
		return nil
	}
	return s.attempt.NeededByRole()
}
