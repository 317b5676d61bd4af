// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// Upstream's plugins capacity, overcommit and proportion count the minResources of an admitted gang against its queue or the
// cluster, for as long as the gang waits, and within a session also those of a gang for which they have voted. So a tenant
// could keep all others out of admission: with a gang of the whole cluster that waits for a pod that never ends, or with
// gangs that are admitted in turn and withdrawn. In sessions of this project these plugins count only the resources that
// gangs hold.
//
// The means is the stand-in, a task with a scheduling gate that requests all of minResources. The plugins compare
// minResources with what is left, and count minResources less the requests of gated tasks, which is nothing then. The
// stand-in is only in job.Tasks, where nothing but that deduction looks for it, and only while these plugins open (summedPlugin)
// or vote.

// AdmissionLimiters are upstream's plugins that limit how many gangs are admitted.
var AdmissionLimiters = [...]string{"capacity", "overcommit", "proportion"}

// standIn is the UID of the stand-in of each gang.
const standIn api.TaskID = "minresources-that-do-not-count"

func standInFor(job *api.JobInfo) *api.TaskInfo {
	all := job.GetMinResources()
	return &api.TaskInfo{
		UID: standIn, Job: job.UID, Name: string(standIn), Namespace: job.Namespace, Pod: &v1.Pod{}, SchGated: true, Resreq: all, InitResreq: all,
		TransactionContext: api.TransactionContext{Status: api.Pending},
	}
}

// countHeldOnly shows the stand-in of each admitted gang as its only task in job.Tasks, which plugins read only for that
// deduction while they open. It returns a function that restores the tasks.
func countHeldOnly(jobs map[api.JobID]*api.JobInfo) (undo func()) {
	type shown struct {
		job   *api.JobInfo
		tasks api.TasksMap
	}
	var admitted []shown
	for _, job := range jobs {
		if job.PodGroup == nil || job.PodGroup.Spec.MinResources == nil {
			continue
		}
		if phase := job.PodGroup.Status.Phase; phase == scheduling.PodGroupInqueue || phase == scheduling.PodGroupRunning {
			admitted = append(admitted, shown{job, job.Tasks})
			job.Tasks = api.TasksMap{standIn: standInFor(job)}
		}
	}
	return func() {
		for _, s := range admitted {
			s.job.Tasks = s.tasks
		}
	}
}

// BeginVote is called before upstream's plugins vote on the admission of the gang. They do not count the gang's minResources
// if they admit it. The vote ends with the next call of BeginVote, or with the action.
func (u *QueueUse) BeginVote(job *api.JobInfo) {
	u.endVote()
	if job.PodGroup.Spec.MinResources == nil {
		return
	}
	if job.Tasks == nil {
		job.Tasks = api.TasksMap{}
	}
	job.Tasks[standIn], u.voting = standInFor(job), job
}

func (u *QueueUse) endVote() {
	if u.voting != nil {
		delete(u.voting.Tasks, standIn)
		u.voting = nil
	}
}

// Execute executes the action in the session.
func (ssn *Session) Execute(action vcframework.Action) {
	ssn.Action = action.Name()
	defer ssn.QueueUse.endVote()
	action.Execute(ssn.Session)
}

// CountedMinResources returns the gang's minResources less the requests of its pods with scheduling gates.
func CountedMinResources(job *api.JobInfo) *api.Resource {
	if task := job.Tasks[standIn]; task != nil {
		defer func() { job.Tasks[standIn] = task }()
		delete(job.Tasks, standIn)
	}
	return job.DeductSchGatedResources(job.GetMinResources())
}
