// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// placeIn places the job's tasks in the scope until the job is ready. If the minimum needs members without requests,
// placeIn succeeds only if action backfill can place these members.
func placeIn(r *state.Attempt, scope state.Scope, opts state.Options) trial.Result {
	return withBestEffort(r, opts, func() trial.Result { return placeRequests(r, scope, opts) })
}

// placeRequests places the job's tasks that request resources.
func placeRequests(r *state.Attempt, scope state.Scope, opts state.Options) trial.Result {
	if r.DividesItself() {
		return placeInHyperNodes(r, scope, opts)
	}
	subJob := r.Job.SubJobs[r.Job.DefaultSubJobID()]
	return trial.ResultOf(subJob, placeSubJob(r, subJob, r.Pending.Tasks[subJob.UID], scope, opts))
}

// placeInHyperNodes tries the job in the HyperNodes that the plugins allow, gradient by gradient. A gradient is a list
// of HyperNodes; the plugins prefer earlier lists. placeInHyperNodes takes the best HyperNode of the first gradient in
// which a trial succeeds: a ready result before a waiting one, then the highest score, then the first name. If a
// gradient has several HyperNodes, all trials are taken back, so the best trial is made again.
func placeInHyperNodes(r *state.Attempt, scope state.Scope, opts state.Options) trial.Result {
	top := r.Run.Session.HyperNodes[vcframework.ClusterTopHyperNode]
	for _, gradient := range gradientsOf(r, top) {
		if len(gradient) == 1 { // one HyperNode needs no comparison by trials
			if result := placeSubJobs(r, gradient[0], scope, opts); result.Outcome != trial.NotPlaced {
				return result
			}
			continue
		}
		best := ""
		var bestResult trial.Result
		for i, hyperNode := range byName(gradient) {
			opts.Places = len(gradient) - i
			result := placeSubJobs(r, hyperNode, scope, opts)
			result.Discard(r.Job)
			if result.Outcome != trial.NotPlaced && (best == "" || result.BetterThan(&bestResult)) {
				best, bestResult = hyperNode.Name, result
			}
		}
		if best != "" {
			return placeSubJobs(r, r.Run.Session.HyperNodes[best], scope, opts)
		}
	}
	return trial.Result{}
}

// gradientsOf returns the gradients of HyperNodes that the plugins allow for the job under the HyperNode top. Upstream's plugin leaves
// out HyperNodes whose resources did not suffice when the session began. Actions that evict pods must not lose these, so in their
// runs the plugins see the job without its minimum of resources.
func gradientsOf(r *state.Attempt, top *api.HyperNodeInfo) [][]*api.HyperNodeInfo {
	job := r.Job
	if r.Run.PipelineOnly && job.PodGroup.Spec.MinResources != nil {
		asked, group := *job, *job.PodGroup
		group.Spec.MinResources = nil
		asked.PodGroup, job = &group, &asked
	}
	return r.Run.Session.HyperNodeGradientForJobFn(job, top)
}

// gradientsOfSubJob returns the gradients of HyperNodes for the sub-job, as gradientsOf does for the job.
func gradientsOfSubJob(r *state.Attempt, subJob *api.SubJobInfo, top *api.HyperNodeInfo) [][]*api.HyperNodeInfo {
	if r.Run.PipelineOnly {
		asked := *subJob
		asked.TaskStatusIndex = nil // upstream adds up the requests of its pending tasks
		subJob = &asked
	}
	return r.Run.Session.HyperNodeGradientForSubJobFn(subJob, top)
}

// placeSubJobs places the job's sub-jobs (https://github.com/volcano-sh/volcano/issues/4188) in the HyperNode, in
// order, until the job is ready. A sub-job may find no room because of an earlier sub-job that could be placed
// elsewhere. In that case, all sub-jobs are tried again, beginning with the sub-job that found no room.
func placeSubJobs(r *state.Attempt, hyperNode *api.HyperNodeInfo, scope state.Scope, opts state.Options) trial.Result {
	if set := r.Run.HyperNodeScope(hyperNode.Name, scope, opts).Set; r.Refuted(set, opts) {
		r.Found.NoteTried(set)
		return trial.Result{}
	}
	first := map[api.SubJobID]int{}
	for n := 1; ; n++ {
		before := r.Found.SubJobTasks
		result, blocked := trySubJobs(r, first, hyperNode, scope, opts)
		if result.Outcome != trial.NotPlaced || blocked == "" || first[blocked] > 0 || n > maxOrders || len(r.Pending.Tasks) == 1 {
			return result
		}
		if !mayReorderSubJobs(r, hyperNode, opts, r.Found.SubJobTasks-before) {
			r.Found.Unfinished++
			return result
		}
		first[blocked] = n
	}
}

// mayReorderSubJobs reports whether the sub-jobs may be tried in another order. They may if the session's search budget
// is not used up, or if it is this search's turn to exceed it (crosssession.Budget). The cost of the new order is then
// subtracted: the number of task classes times tried, the number of tasks that the last order tried.
func mayReorderSubJobs(r *state.Attempt, hyperNode *api.HyperNodeInfo, opts state.Options, tried int) bool {
	classes := 1
	if r.Packing != nil {
		classes = len(r.Packing.Classes)
	}
	return r.Run.CrossSession.Orders.AcquireAll(r.Run.SearchOf(r.Job, hyperNode.Name, opts.IdleOnly), tried*classes)
}

// trySubJobs tries the sub-jobs in order. Sub-jobs in the map first come before the others, the highest number first.
// trySubJobs also returns blocked, the first sub-job that found no room and is not in the map.
func trySubJobs(r *state.Attempt, first map[api.SubJobID]int, hyperNode *api.HyperNodeInfo, scope state.Scope, opts state.Options) (result trial.Result, blocked api.SubJobID) {
	r.Job.ResetFitErr()
	result = trial.Result{Rest: map[api.SubJobID][]*api.TaskInfo{}, HyperNode: hyperNode.Name, SubJobs: map[api.SubJobID]string{}, Former: map[api.SubJobID]string{}}
	needed, placed := r.NeededByJob(), 0
	for queue := state.SubJobQueue(r.Run.Session, r.Pending, first); !queue.Empty(); {
		subJob := queue.Pop().(*api.SubJobInfo)
		tasks, again := result.Rest[subJob.UID]
		if !again {
			tasks = r.Pending.Tasks[subJob.UID]
		}
		of, chosen, score := placeInBestHyperNode(r, subJob, tasks, hyperNode, scope, opts)
		if of.Outcome == trial.NotPlaced {
			if blocked == "" && first[subJob.UID] == 0 {
				blocked = subJob.UID
			}
			continue
		}
		result.Changes = append(result.Changes, of.Changes)
		result.Rest[subJob.UID] = of.Rest
		placed += len(of.Changes.Placed)
		result.Score += score
		if _, ok := result.Former[subJob.UID]; !ok {
			result.Former[subJob.UID] = subJob.AllocatedHyperNode
		}
		subJob.AllocatedHyperNode = r.Run.Session.HyperNodes.GetLCAHyperNode(subJob.AllocatedHyperNode, chosen)
		result.SubJobs[subJob.UID] = subJob.AllocatedHyperNode
		if placed >= needed && r.Run.Progress.JobReady(r.Job) {
			break
		}
		if len(of.Rest) > 0 {
			queue.Push(subJob)
		}
	}
	switch {
	case len(result.Changes) == 0:
	case r.Run.Progress.JobReady(r.Job):
		result.Outcome = trial.Ready
	case !opts.IdleOnly && r.Run.Session.JobPipelined(r.Job):
		result.Outcome = trial.Pipelined
	}
	if result.Outcome == trial.NotPlaced {
		result.Discard(r.Job)
	}
	return result, blocked
}

// placeInBestHyperNode places the sub-job in the best HyperNode inside hyperNode that the plugins allow for the
// sub-job. It also returns the name and score of that HyperNode.
func placeInBestHyperNode(r *state.Attempt, subJob *api.SubJobInfo, tasks []*api.TaskInfo, hyperNode *api.HyperNodeInfo, scope state.Scope, opts state.Options) (trial.PartResult, string, float64) {
	place := func(name string) trial.PartResult {
		return placeSubJob(r, subJob, tasks, r.Run.HyperNodeScope(name, scope, opts), opts)
	}
	for _, gradient := range gradientsOfSubJob(r, subJob, hyperNode) {
		if len(gradient) == 1 { // one HyperNode needs no comparison by trials
			name := gradient[0].Name
			_, score := bestHyperNode(r.Run.Session, subJob, map[string]trial.Outcome{name: trial.Ready})
			if result := place(name); result.Outcome != trial.NotPlaced {
				return result, name, score
			}
			continue
		}
		outcomes := map[string]trial.Outcome{}
		for _, candidate := range byName(gradient) {
			result := place(candidate.Name)
			if result.Outcome == trial.NotPlaced {
				continue
			}
			result.Changes.Discard()
			outcomes[candidate.Name] = result.Outcome
		}
		if len(outcomes) == 0 {
			continue
		}
		chosen, score := bestHyperNode(r.Run.Session, subJob, outcomes)
		return place(chosen), chosen, score
	}
	return trial.PartResult{Rest: tasks}, "", 0
}

// bestHyperNode returns the best of the HyperNodes in which a trial of the sub-job succeeded, and the sum of the
// plugins' scores for it. A HyperNode where the sub-job is ready comes before one where it waits, then the highest sum,
// then the first name.
func bestHyperNode(ssn *framework.Session, subJob *api.SubJobInfo, outcomes map[string]trial.Outcome) (string, float64) {
	candidates := map[string][]*api.NodeInfo{}
	var names []string
	for name := range outcomes {
		candidates[name] = ssn.RealNodesList[name]
		names = append(names, name)
	}
	slices.Sort(names)
	scores := map[string]float64{}
	byPlugin, err := ssn.HyperNodeOrderMapFn(subJob, candidates)
	if err != nil {
		klog.ErrorS(err, "Scoring HyperNodes failed, using score 0", "subJob", subJob.UID)
	} else {
		for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
			for name, score := range byPlugin[plugin] {
				scores[name] += score
			}
		}
	}
	best := slices.MaxFunc(names, func(l, r string) int {
		return cmp.Or(cmp.Compare(outcomes[l], outcomes[r]), cmp.Compare(scores[l], scores[r]), cmp.Compare(r, l))
	})
	return best, scores[best]
}

func byName(hyperNodes []*api.HyperNodeInfo) []*api.HyperNodeInfo {
	return slices.SortedFunc(slices.Values(hyperNodes), func(l, r *api.HyperNodeInfo) int { return cmp.Compare(l.Name, r.Name) })
}
