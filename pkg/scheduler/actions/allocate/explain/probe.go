// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// maxProbed bounds how many tasks are placed only for explanations, in one run of the action. It suffices for two gangs
// of 1,000 members. Beyond this bound, explanations use upper bounds of how many members fit, which need no placement.
const maxProbed = 2_000

// maxProbedOfJob bounds how many tasks of one job are placed only for its explanation, if arithmetic on resources
// already proves that the job does not fit. It is enough for eight members in 32 node groups.
const maxProbedOfJob = 256

// probeGroup places as many of the job's tasks in the node group as it can, the smallest first, and takes them back, to
// record the reason that stops the next task. The number of tasks is bounded. Jobs whose sub-jobs choose among
// HyperNodes are not probed.
func probeGroup(r *state.Attempt, group *topology.Group) {
	uid := r.Job.DefaultSubJobID()
	tasks := r.Pending.Tasks[uid]
	if r.Run.Probed+len(tasks) > maxProbed || r.Job.ContainsHardTopology() || r.Job.ContainsSubJobPolicy() {
		return
	}
	r.Run.Probed += len(tasks)
	scope := r.Run.GroupScope(group, nil, r.Groups.Plugin)
	part := trial.NewPart(r, r.Job.SubJobs[uid], tasks, scope, true)
	if result := trial.TryAll(part, trial.Arrangement{Order: trial.SmallestFirst, AnyOrder: true}); result.Outcome != trial.NotPlaced {
		result.Changes.Discard()
	}
}
