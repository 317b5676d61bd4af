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

// noteHold records that the unit's gangs hold idle resources, if one of their kept placements does.
func noteHold(run *state.Run, placed search.PlacedGangs) {
	holds := false
	for _, p := range placed {
		holds = holds || holdsIdle(run, &p.Result, false)
	}
	if !holds {
		return
	}
	for _, p := range placed {
		run.NoteHold(p.Attempt.Job)
	}
}
