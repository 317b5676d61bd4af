// SPDX-License-Identifier: Apache-2.0

package allocate

import "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"

// trialOptions narrow down where a job is tried.
type trialOptions struct {
	// idleOnly leaves out nodes whose resources are still being released.
	idleOnly bool
	// within are the nodes it is tried on: all but those that it is to avoid. nil is all.
	within *nodeset.Set
	// places is in how many node groups or HyperNodes the job is still to be tried, with this one: they share the
	// steps that searches for plans may take.
	places int
}

// solve places the job: on idle resources before it waits for those being released, whole in one group before it is spread
// over several, and without the nodes it is to avoid before with them.
func solve(r *Attempt) jobResult {
	switch {
	case r.gathering != nil:
		return placeGathered(r)
	case r.groups != nil:
		return placeInGroups(r)
	}
	return tryInOrder(r, func(opts trialOptions) jobResult {
		return placeIn(r, r.run.anywhere(opts), opts)
	})
}

// tryInOrder tries ways to place the job, each before the next one.
func tryInOrder(r *Attempt, ways ...func(trialOptions) jobResult) jobResult {
	within := []*nodeset.Set{nil}
	if avoided := r.run.ssn.Avoided(r.job); len(avoided) > 0 {
		within = []*nodeset.Set{r.run.index.Without(avoided), nil}
	}
	for _, idleOnly := range r.phases {
		if !idleOnly && !r.run.index.Releases(r.run.index.All) {
			break
		}
		for _, way := range ways {
			for _, nodes := range within {
				if result := way(trialOptions{idleOnly: idleOnly, within: nodes, places: 1}); result.outcome != notPlaced {
					return result
				}
			}
		}
	}
	return jobResult{}
}
