// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/explain"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
)

// refuted reports whether arithmetic on resources proves that the gangs have no room together, and records the reason.
// Without it, gangs that fit alone are tried in full in each session after a change, in several orders. As for a single
// gang, arithmetic is only done for members of many kinds (maxTriedKinds). If the first gang has no room by itself,
// refuted returns false: the search then ends with that gang, whose reason is more exact.
func (u *GroupSearch) refuted() bool {
	var gangs []*state.Attempt
	for _, job := range u.largestFirst() {
		u.run.Session.SetCurrentJob(job.UID)
		r, err := state.NewAttempt(u.run, job, u.pending[job.UID], false)
		if err != nil || !u.idleOnly && len(job.TaskStatusIndex[api.Pipelined]) > 0 {
			return false
		}
		gangs = append(gangs, r)
	}
	all, set := state.InputOfGangs(gangs), u.run.Index.All
	if all == nil || len(all.Classes) <= maxTriedKinds || !gangs[0].RefutedAs(all, set, u.idleOnly) {
		return false
	}
	if gangs[0].RefutedAs(state.InputOfGangs(gangs[:1]), set, u.idleOnly) {
		return false
	}
	if u.lacking == "" {
		u.lacking = fmt.Sprintf("its %d gangs have no room together: %s", len(gangs), explain.Together(gangs[0], all, set))
	}
	return true
}
