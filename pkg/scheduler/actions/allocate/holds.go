// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/search"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// holdsIdle reports whether result, a placement that the session keeps, holds idle resources while some of its members wait
// for other resources to be released. A member that has room now holds all that it requests. A member that waits holds idle
// resources if it needs more of its node than is being released there. If bound is set, the members that have room now are
// handed over to be bound, and do not count.
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
		if node := run.Session.Nodes[task.NodeName]; !node.Pipelined.LessEqual(node.Releasing, api.Zero) {
			return true
		}
	}
	return false
}

// noteHolds records the namespace of each placed gang that holds idle resources in this session (crosssession.Holds).
// bound reports whether the gangs are ready: members with room now are then bound, and do not count.
func noteHolds(run *state.Run, placed search.PlacedGangs, bound bool) {
	var holders, gangs []*api.JobInfo
	for _, p := range placed {
		gangs = append(gangs, p.Attempt.Job)
		if holdsIdle(run, &p.Result, bound) {
			holders = append(holders, p.Attempt.Job)
		}
	}
	if len(holders) == 0 {
		return
	}
	promised := run.Pauses.IsPromised(gangs)
	for _, job := range holders {
		run.CrossSession.Holds.NoteHold(job.Namespace, run.Now(), promised)
	}
}
