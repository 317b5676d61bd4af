// SPDX-License-Identifier: Apache-2.0

package search

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// Solve places the job. It prefers idle resources to resources being released, one whole group to several, and nodes that
// the job need not avoid to those it should.
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
