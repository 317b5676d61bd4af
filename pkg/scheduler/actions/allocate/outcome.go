// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// outcome is how a trial of a sub-job's or a job's tasks ended.
type outcome int

const (
	notPlaced outcome = iota
	pipelined         // the minimum is placed, some of it on resources that are being released
	ready             // the minimum is placed
)

// String names the outcome as metrics do.
func (o outcome) String() string {
	return [...]string{notPlaced: "misfit", pipelined: "waiting", ready: "ready"}[o]
}

// subJobResult is how a sub-job's tasks are placed: a trial that is kept in the session until it is discarded or committed.
type subJobResult struct {
	trial   *trial
	outcome outcome
	// rest are the tasks that were not dealt with.
	rest      []*api.TaskInfo
	hyperNode string
}

// jobResult is how a job's tasks are placed: a trial per sub-job, kept in the session until it is discarded or committed.
type jobResult struct {
	outcome outcome
	trials  []*trial
	// rest is what sub-jobs of which something was placed have left to be placed.
	rest map[api.SubJobID][]*api.TaskInfo
	// hyperNode is where the job was placed and subJobs where its sub-jobs were, for jobs that choose among HyperNodes.
	hyperNode string
	subJobs   map[api.SubJobID]string
	// former are the sub-jobs' HyperNodes before.
	former map[api.SubJobID]string
	score  float64
}

// resultOf is the result of a job that has one sub-job.
func resultOf(subJob *api.SubJobInfo, placed subJobResult) jobResult {
	result := jobResult{outcome: placed.outcome, rest: map[api.SubJobID][]*api.TaskInfo{subJob.UID: placed.rest}}
	if placed.outcome == notPlaced {
		return result
	}
	result.trials = []*trial{placed.trial}
	if placed.outcome == ready && subJob.IsSoftTopologyMode() {
		result.former = map[api.SubJobID]string{subJob.UID: subJob.AllocatedHyperNode}
		subJob.AllocatedHyperNode = placed.hyperNode
	}
	return result
}

func (r *jobResult) discard(job *api.JobInfo) {
	for _, t := range slices.Backward(r.trials) {
		t.discard()
	}
	for uid, hyperNode := range r.former {
		job.SubJobs[uid].AllocatedHyperNode = hyperNode
	}
	r.trials = nil
}

func (r *jobResult) commit(job *api.JobInfo) {
	for _, t := range r.trials {
		t.commit(job)
	}
}

// tasks lists the placed tasks.
func (r *jobResult) tasks() []*api.TaskInfo {
	var tasks []*api.TaskInfo
	for _, t := range r.trials {
		for _, p := range t.placed {
			tasks = append(tasks, p.task)
		}
	}
	return tasks
}

// placement are the nodes of the placed tasks, by task.
func (r *jobResult) placement() map[api.TaskID]string {
	placement := map[api.TaskID]string{}
	for _, t := range r.trials {
		t.addPlacement(placement)
	}
	return placement
}

// nodes are the nodes of the placed tasks.
func (r *jobResult) nodes() map[int32]bool {
	nodes := map[int32]bool{}
	for _, t := range r.trials {
		t.addTo(nodes)
	}
	return nodes
}

// recordHyperNodes writes down the HyperNodes the job was placed in, which its PodGroup shows and later tasks keep to.
func (r *jobResult) recordHyperNodes(ssn *framework.Session, job *api.JobInfo) {
	if r.hyperNode == "" {
		return
	}
	ssn.MarkJobDirty(job.UID)
	job.AllocatedHyperNode = ssn.HyperNodes.GetLCAHyperNode(job.AllocatedHyperNode, r.hyperNode)
	for uid, hyperNode := range r.subJobs {
		subJob := job.SubJobs[uid]
		subJob.AllocatedHyperNode = ssn.HyperNodes.GetLCAHyperNode(subJob.AllocatedHyperNode, hyperNode)
	}
}
