// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// maxProbed bounds how many tasks are placed for explanations alone, in one run of the action: two gangs of 1,000. Beyond it
// explanations are of upper bounds, which cost no placement.
const maxProbed = 2_000

// maxProbedOfJob bounds it for one job where numbers suffice to tell that it fits nowhere: eight members in 32 node groups.
const maxProbedOfJob = 256

// probe places as many of the job's tasks in the group as it can, the smallest first, and takes them back, to note what stops
// the next. There is a bound to that, and jobs whose sub-jobs choose among HyperNodes are not probed.
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
