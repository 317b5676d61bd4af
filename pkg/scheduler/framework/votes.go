// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// Upstream's plugins capacity, overcommit and proportion count the minResources of an admitted gang that waits against
// its queue or the cluster. Within a session they also count the minResources of each gang that they have voted to
// admit. A tenant could then keep all other gangs from being admitted. One gang as large as the cluster would suffice,
// if it waits for a pod that never ends. So would gangs that are admitted and withdrawn in turn. In sessions of this
// project, these plugins count only the resources that gangs hold.
//
// For this, a gang gets a stand-in: a task with a scheduling gate that requests all of minResources. The plugins
// subtract the requests of gated tasks from the minResources that they count, so they count nothing. When they vote,
// they compare the full minResources with the free resources. The stand-in is only in job.Tasks, where the plugins read
// it for this subtraction only. It exists only while these plugins open (summedPlugin) or vote.

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

// countHeldOnly replaces job.Tasks of each admitted gang by its stand-in. While plugins open, they read job.Tasks only
// to subtract requests of gated tasks. countHeldOnly returns a function that restores the tasks.
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

// BeginVote is called before upstream's plugins vote on the admission of the gang. If they admit it, they do not count
// its minResources. The vote ends with the next call of BeginVote, or with the action.
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
	if adapter, ours := action.(*actionAdapter); ours {
		adapter.action.Execute(ssn)
		return
	}
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
