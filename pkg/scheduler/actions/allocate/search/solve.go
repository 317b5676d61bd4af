// SPDX-License-Identifier: Apache-2.0

package search

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// Solve places the job. It prefers idle resources to resources being released, and one node group for the whole minimum
// to several node groups. It uses nodes that the job should avoid only if the job does not fit without them.
func Solve(r *state.Attempt) trial.Result {
	switch {
	case r.Planner != nil:
		return placeByTopology(r)
	case r.Groups != nil:
		return placeInGroups(r)
	}
	return tryInOrder(r, func(opts state.Options) trial.Result {
		return placeIn(r, r.Run.Anywhere(opts), opts)
	})
}
