// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
)

// PlacedPods are the placed tasks that the pod lister of a session's plugins returns. Most jobs have the same copy as
// in the last session, and the tasks of such a job are not collected again. The zero value is ready for use.
type PlacedPods struct {
	// jobs are the copies of the jobs whose placed tasks are in the maps below.
	jobs map[api.JobID]*api.JobInfo
	// tasks are all placed tasks. choosy are the placed tasks with pod affinity. unnamed are the placed tasks whose pod
	// does not yet name its node.
	tasks, choosy, unnamed map[api.TaskID]*api.TaskInfo
	kept                   bool
}

// Keep records that the last session has ended, and that it has added and removed only tasks of its own jobs in
// PlacedPods. Without Keep, PlacedPods is rebuilt for the next session.
func (p *PlacedPods) Keep() { p.kept = true }

// lister returns the pod lister of the session's plugins. It copies only pods that do not yet name their task's node.
// Other pods are shared, and upstream's lister copies them when necessary.
func (p *PlacedPods) lister(ssn *vcframework.Session) *vcframework.PodLister {
	if !p.kept || !p.follow(ssn.Jobs) {
		*p = PlacedPods{
			jobs:  make(map[api.JobID]*api.JobInfo, len(ssn.Jobs)),
			tasks: map[api.TaskID]*api.TaskInfo{}, choosy: map[api.TaskID]*api.TaskInfo{}, unnamed: map[api.TaskID]*api.TaskInfo{},
		}
		p.follow(ssn.Jobs)
	}
	p.kept = false
	copies := make(map[api.TaskID]*v1.Pod, len(p.unnamed))
	for uid, task := range p.unnamed {
		copies[uid] = podOn(task.Pod, task.NodeName)
	}
	return &vcframework.PodLister{Session: ssn, Tasks: p.tasks, TaskWithAffinity: p.choosy, CachedPods: copies}
}

// follow adds the placed tasks of the given jobs and removes all other tasks. It reports whether PlacedPods then has
// exactly as many tasks as the jobs have placed tasks. If not, the caller must rebuild it.
func (p *PlacedPods) follow(jobs map[api.JobID]*api.JobInfo) bool {
	for id, job := range p.jobs {
		if jobs[id] != job {
			for uid := range job.Tasks {
				p.remove(uid)
			}
			delete(p.jobs, id)
		}
	}
	count := 0
	for id, job := range jobs {
		if p.jobs[id] == nil {
			p.jobs[id] = job
			p.enter(job)
		}
		for uid := range job.TaskStatusIndex[api.Pending] { // the last session may have placed these tasks and undone that
			p.remove(uid)
		}
		for status, tasks := range job.TaskStatusIndex {
			if api.AllocatedStatus(status) {
				count += len(tasks)
			}
		}
	}
	return count == len(p.tasks)
}

func (p *PlacedPods) enter(job *api.JobInfo) {
	for _, task := range placed(job.TaskStatusIndex) {
		p.tasks[task.UID] = task
		if vcframework.HaveAffinity(task.Pod) {
			p.choosy[task.UID] = task
		}
		if task.Pod.Spec.NodeName != task.NodeName {
			p.unnamed[task.UID] = task
		}
	}
}

func (p *PlacedPods) remove(uid api.TaskID) {
	delete(p.tasks, uid)
	delete(p.choosy, uid)
	delete(p.unnamed, uid)
}

// podOn returns a copy of the pod that names the node. The copy has its own annotations, because plugins write to them.
func podOn(pod *v1.Pod, node string) *v1.Pod {
	own := *pod
	own.Spec.NodeName = node
	own.Annotations = maps.Clone(pod.Annotations)
	return &own
}
