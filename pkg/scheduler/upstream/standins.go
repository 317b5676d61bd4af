// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
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

// Vote is a vote of upstream's plugins on the admission of a gang. If they admit the gang, they do not count its
// minResources. The zero value is ready for use.
type Vote struct {
	// on is the gang; nil while no vote is taken.
	on *api.JobInfo
}

// Begin ends the last vote, and begins a vote on the gang.
func (v *Vote) Begin(job *api.JobInfo) {
	v.End()
	if job.PodGroup.Spec.MinResources == nil {
		return
	}
	if job.Tasks == nil {
		job.Tasks = api.TasksMap{}
	}
	job.Tasks[standIn], v.on = standInFor(job), job
}

// End ends the vote, if one is taken.
func (v *Vote) End() {
	if v.on != nil {
		delete(v.on.Tasks, standIn)
		v.on = nil
	}
}

// CountedMinResources returns the gang's minResources less the requests of its pods with scheduling gates.
func CountedMinResources(job *api.JobInfo) *api.Resource {
	if task := job.Tasks[standIn]; task != nil {
		defer func() { job.Tasks[standIn] = task }()
		delete(job.Tasks, standIn)
	}
	return job.DeductSchGatedResources(job.GetMinResources())
}
