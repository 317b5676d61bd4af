// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// placer makes one trial of the tasks of a Part, which are tasks of one sub-job in one scope.
type placer struct {
	part    *Part
	run     *state.Run
	changes *Changes
	// minimum is how many tasks must be placed before the sub-job can be ready. Until then, plugins are not asked
	// whether the sub-job is ready.
	minimum int
	// hyperNode is the lowest HyperNode that contains all placed tasks, for tasks with network topology.
	hyperNode string
	done      bool
	// blocked are the classes whose tasks found no room, in order.
	blocked []*feasible.TaskClass
	// refused are the tasks that their queue has no room for. failed are the roles of tasks that fit nowhere.
	refused map[api.TaskID]bool
	failed  map[string]bool
	// unreserved counts, for each task, the nodes that passed the predicates but refused the placement, by reason.
	unreserved map[api.TaskID]map[string]int
	// allClasses reports whether the trial continues with other classes after a task fits nowhere, even if the sub-job
	// cannot be ready without that task.
	allClasses bool
	// reason is why a pre-predicate refused a task.
	reason string
}

func newPlacer(s *Part) *placer {
	s.attempt.Job.ResetSubJobFitErr(s.SubJob.UID)
	return &placer{
		part: s, run: s.attempt.Run, changes: &Changes{run: s.attempt.Run}, minimum: s.Needed,
		hyperNode: s.SubJob.AllocatedHyperNode, refused: map[api.TaskID]bool{}, failed: map[string]bool{}, unreserved: map[api.TaskID]map[string]int{},
	}
}

// ready reports whether enough tasks are placed for the sub-job to be ready, or to be pipelined if the run only pipelines.
func (p *placer) ready() bool {
	return len(p.changes.Placed) >= p.minimum && (p.run.Progress.SubJobReady(p.job(), p.part.SubJob) ||
		p.run.PipelineOnly && p.run.Session.SubJobPipelined(p.job(), p.part.SubJob))
}

func (p *placer) job() *api.JobInfo { return p.part.attempt.Job }

func (p *placer) queue() *api.QueueInfo { return p.run.Session.Queues[p.job().Queue] }

// wanted reports whether the task is to be placed: its queue has room for it, and no other task of its role has failed.
func (p *placer) wanted(task *api.TaskInfo) bool {
	if !p.run.Session.Allocatable(p.queue(), task) {
		p.refused[task.UID] = true
		return false
	}
	if p.failed[task.TaskRole] {
		errs := api.NewFitErrors()
		errs.SetError(fmt.Sprintf("another pod of role %q fits no node", task.TaskRole))
		p.job().NodesFitErrors[task.UID] = errs
		return false
	}
	return true
}
