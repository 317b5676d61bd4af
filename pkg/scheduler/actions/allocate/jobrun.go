// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// jobRun is one turn of a job.
type jobRun struct {
	*solver
	job     *api.JobInfo
	pending *pendingTasks
	// groups are where the job may lie; nil for anywhere.
	groups *framework.NodeGroups
	// gathering is how its tasks are divided over nodes; nil where no plugin says.
	gathering *framework.Gathering
	// gatherText is why there is no plan to gather it.
	gatherText string
	// compare is the rank order of the job's tasks; nil when it has none.
	compare func(l, r *api.TaskInfo) int
	// alone is true if no other job is left, so that nobody is kept waiting by placing all of the job's tasks at once.
	alone   bool
	members *memberNodes
	// packing is what the job asks for in numbers; nil when these say nothing of it.
	packing *packingInput
	// fingerprint is of all that decides on the job, 0 when that is more than can be named.
	fingerprint uint64
	// places is in how many node groups or HyperNodes the job is still to be tried, with the one in which it is: they share the
	// steps that searches for plans may take.
	places int
	// unfinished is how many searches go on in another session.
	unfinished int
	// subJobTasks counts the tasks of sub-jobs that were tried, in each place anew.
	subJobTasks int
	// tried are the sets of nodes in which the job was tried, and shortfalls how far trials came there; nil before the first.
	tried      map[*nodeset.Set]bool
	shortfalls map[*nodeset.Set]shortfall
	// phases are whether only what is idle counts, in the order in which that is tried.
	phases []bool
	// planned are the nodes of the tasks, where the packing of a unit has planned them; nil elsewhere.
	planned map[api.TaskID]int32
	// bestEffortReason is why the job cannot be completed by backfill; empty elsewhere.
	bestEffortReason string
}

// trialOptions narrow down where a job is tried.
type trialOptions struct {
	// idleOnly leaves out nodes whose resources are still being released.
	idleOnly bool
	// within are the nodes it is tried on: all but those that it is to avoid. nil is all.
	within *nodeset.Set
}

// placeJob places what makes the job ready, or more of a job that is. It returns true if something was handed over to be
// bound: a job that is not ready, or waits for resources being released, is not looked at again in this session.
func (s *solver) placeJob(job *api.JobInfo, pending *pendingTasks, alone bool) bool {
	r, err := s.newJobRun(job, pending, alone)
	if err != nil {
		klog.V(3).InfoS("A job is not placed", "podGroup", klog.KRef(job.Namespace, job.Name), "err", err)
		s.recordWait(job, framework.Wait{Reason: framework.NotEnoughResources, Message: err.Error()})
		return false
	}
	defer s.finder.ForgetJob()
	if r.reuseExplanation() {
		return false
	}
	return r.finish(r.solve())
}

// newJobRun asks the plugins where the job may lie now. An error is why it may lie nowhere.
func (s *solver) newJobRun(job *api.JobInfo, pending *pendingTasks, alone bool) (*jobRun, error) {
	groups, err := s.ssn.NodeGroups(job)
	if err != nil {
		return nil, err
	}
	gathering, err := s.ssn.Gathering(job)
	if err != nil {
		return nil, err
	}
	r := &jobRun{
		solver: s, job: job, pending: pending, groups: groups, gathering: gathering, alone: alone, places: 1, members: s.progressOf(job).members,
		phases: []bool{true, false},
	}
	if pending.idleOnly {
		r.phases = []bool{true}
	}
	if groups != nil || r.dividesItself() {
		r.packing = r.jobInput()
	}
	if groups != nil {
		r.compare = groups.Compare
		r.alone = false // all at once would be all in one group: what it has no room for may go to another
	}
	return r, nil
}

// note enters the value in the map, which is made for its first.
func note[K comparable, V any](values *map[K]V, key K, value V) {
	if *values == nil {
		*values = map[K]V{}
	}
	(*values)[key] = value
}

// finish hands a result that makes the job ready over to be bound, keeps one that waits in the session, and explains why there
// is none. It returns true if something was handed over.
func (r *jobRun) finish(result jobResult) bool {
	switch {
	case result.outcome == ready && r.jobReady(r.job):
		r.jobsPlaced++
		result.commit(r.job)
		r.advance(r.job, &result)
		r.pending.rememberFitErrors(r.job)
		r.pending.keepOnly(result.rest)
		result.recordHyperNodes(r.ssn, r.job)
		return true
	case result.outcome != notPlaced:
		r.jobsPlaced++
	default:
		r.explain()
	}
	return false
}

// solve places the job: on idle resources before it waits for those being released, whole in one group before it is spread
// over several, and without the nodes it is to avoid before with them.
func (r *jobRun) solve() jobResult {
	switch {
	case r.gathering != nil:
		return r.placeGathered()
	case r.groups != nil:
		return r.placeInGroups()
	}
	return r.tryInOrder(func(opts trialOptions) jobResult {
		return r.placeIn(r.anywhere(opts), opts)
	})
}

// tryInOrder tries ways to place the job, each before the next one.
func (r *jobRun) tryInOrder(ways ...func(trialOptions) jobResult) jobResult {
	within := []*nodeset.Set{nil}
	if avoided := r.ssn.Avoided(r.job); len(avoided) > 0 {
		within = []*nodeset.Set{r.index.Without(avoided), nil}
	}
	for _, idleOnly := range r.phases {
		if !idleOnly && !r.index.Releases(r.index.All) {
			break
		}
		for _, way := range ways {
			for _, nodes := range within {
				if result := way(trialOptions{idleOnly, nodes}); result.outcome != notPlaced {
					return result
				}
			}
		}
	}
	return jobResult{}
}
