// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/search"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// holdsIdle reports whether the kept placement holds idle resources for members that wait for others to be released: those of its members
// that have room now, or what is idle on the node of one that waits. What a ready gang has handed over to be bound is not held.
func holdsIdle(run *state.Run, result *trial.Result, bound bool) bool {
	if !run.Index.Releases(run.Index.All) {
		return false
	}
	for _, task := range result.Tasks() {
		if task.Status != api.Pipelined {
			if !bound {
				return true
			}
			continue
		}
		if node := run.Session.Nodes[task.NodeName]; node != nil && !node.Pipelined.LessEqual(node.Releasing, api.Zero) {
			return true
		}
	}
	return false
}

// noteHolds records which of the kept placements hold idle resources, none of them if evictions for one of the gangs are under way. bound reports
// whether the gangs are ready.
func noteHolds(run *state.Run, placed search.PlacedGangs, bound bool) {
	var holders, gangs []*api.JobInfo
	for _, p := range placed {
		gangs = append(gangs, p.Attempt.Job)
		if holdsIdle(run, &p.Result, bound) {
			holders = append(holders, p.Attempt.Job)
		}
	}
	if len(holders) == 0 || run.Pauses.IsPromised(gangs) {
		return
	}
	for _, job := range holders {
		run.Memory.Holds.Note(job.Namespace, run.Now())
	}
}
