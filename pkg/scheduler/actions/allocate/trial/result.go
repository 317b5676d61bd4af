// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Outcome is how a trial of a sub-job's or a job's tasks ended.
type Outcome int

const (
	NotPlaced Outcome = iota
	Pipelined         // the minimum is placed, some of it on resources that are being released
	Ready             // the minimum is placed on idle resources
)

// String returns the outcome for metrics.
func (o Outcome) String() string {
	return [...]string{NotPlaced: "infeasible", Pipelined: "waiting", Ready: "ready"}[o]
}

// PartResult is the placement of a sub-job's tasks: a trial that is kept in the session until it is discarded or committed.
type PartResult struct {
	Changes *Changes
	Outcome Outcome
	// Rest are the tasks that were not tried, and are to be tried later.
	Rest      []*api.TaskInfo
	hyperNode string
}

// Result is the placement of a job's tasks: a trial per sub-job, kept in the session until it is discarded or committed.
type Result struct {
	Outcome Outcome
	Changes []*Changes
	// Rest are the tasks that remain to be placed, for sub-jobs that have placed tasks.
	Rest map[api.SubJobID][]*api.TaskInfo
	// HyperNode is the HyperNode in which the job was placed. SubJobs are the HyperNodes in which its sub-jobs were
	// placed. Both are set only for jobs that choose among HyperNodes.
	HyperNode string
	SubJobs   map[api.SubJobID]string
	// Former are the HyperNodes that the sub-jobs had before the trial. Discard restores them.
	Former map[api.SubJobID]string
	Score  float64
}

// ResultOf returns the result of a job that has one sub-job.
func ResultOf(subJob *api.SubJobInfo, placed PartResult) Result {
	result := Result{Outcome: placed.Outcome, Rest: map[api.SubJobID][]*api.TaskInfo{subJob.UID: placed.Rest}}
	if placed.Outcome == NotPlaced {
		return result
	}
	result.Changes = []*Changes{placed.Changes}
	if placed.Outcome == Ready && subJob.IsSoftTopologyMode() {
		result.Former = map[api.SubJobID]string{subJob.UID: subJob.AllocatedHyperNode}
		subJob.AllocatedHyperNode = placed.hyperNode
	}
	return result
}

// Discard takes all placed tasks of the job back.
func (r *Result) Discard(job *api.JobInfo) {
	for _, t := range slices.Backward(r.Changes) {
		t.Discard()
	}
	for uid, hyperNode := range r.Former {
		job.SubJobs[uid].AllocatedHyperNode = hyperNode
	}
	r.Changes = nil
}

// Commit hands the placed tasks over to be bound.
func (r *Result) Commit(job *api.JobInfo) {
	for _, t := range r.Changes {
		t.commit(job)
	}
}

// Tasks lists the placed tasks.
func (r *Result) Tasks() []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, t := range r.Changes {
		for _, p := range t.Placed {
			tasks = append(tasks, p.task)
		}
	}
	return tasks
}

// Placement returns the nodes of the placed tasks, by task.
func (r *Result) Placement() map[api.TaskID]string {
	placement := map[api.TaskID]string{}
	for _, t := range r.Changes {
		t.addPlacement(placement)
	}
	return placement
}

// Nodes returns the nodes of the placed tasks.
func (r *Result) Nodes() map[int32]bool {
	nodes := map[int32]bool{}
	for _, t := range r.Changes {
		t.addTo(nodes)
	}
	return nodes
}

// RecordHyperNodes records the HyperNodes the job was placed in. The PodGroup shows these HyperNodes, and later tasks
// of the job must stay in them.
func (r *Result) RecordHyperNodes(ssn *framework.Session, job *api.JobInfo) {
	if r.HyperNode == "" {
		return
	}
	ssn.MarkJobDirty(job.UID)
	job.AllocatedHyperNode = ssn.HyperNodes.GetLCAHyperNode(job.AllocatedHyperNode, r.HyperNode)
	for uid, hyperNode := range r.SubJobs {
		subJob := job.SubJobs[uid]
		subJob.AllocatedHyperNode = ssn.HyperNodes.GetLCAHyperNode(subJob.AllocatedHyperNode, hyperNode)
	}
}

// BetterThan reports whether the result is better than the other: a ready result is better than a waiting one, and of
// equal outcomes, the higher score is better.
func (r *Result) BetterThan(other *Result) bool {
	return cmp.Or(cmp.Compare(r.Outcome, other.Outcome), cmp.Compare(r.Score, other.Score)) > 0
}
