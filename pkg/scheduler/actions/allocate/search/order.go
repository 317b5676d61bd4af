// SPDX-License-Identifier: Apache-2.0

package search

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
)

// tryInOrder tries the given ways to place the job until one succeeds. It tries all ways on idle resources, and then
// all ways also on resources being released. Each way is tried first without the nodes that the job should avoid, and
// then with them.
func tryInOrder(r *state.Attempt, ways ...func(state.Options) trial.Result) trial.Result {
	within := []*nodeset.Set{nil}
	if len(r.Avoid) > 0 {
		within = []*nodeset.Set{r.Run.Index.Without(r.Avoid), nil}
	}
	for _, idleOnly := range r.Phases {
		if !idleOnly && !r.Run.PipelineOnly && !r.Run.Index.Releases(r.Run.Index.All) {
			break
		}
		for _, way := range ways {
			for _, nodes := range within {
				if result := way(state.Options{IdleOnly: idleOnly, Within: nodes, Places: 1}); result.Outcome != trial.NotPlaced {
					return result
				}
			}
		}
	}
	return trial.Result{}
}
