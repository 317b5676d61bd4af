// SPDX-License-Identifier: Apache-2.0

package books

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"
)

// A tenant may change spec.queue of a PodGroup whose pods run, or delete the PodGroup and create it again. If its
// running pods then counted against the new queue, the old queue would have room for more pods, and the new queue would
// be filled without a check of its limits. So a job stays in its queue while one of its tasks holds resources, and such
// a task is not moved to a job of another queue. Only a snapshot moves a job: while a session places the job's tasks
// within the limits of one queue, the tasks must not count against another queue.

// named returns the queue that the PodGroup names, or the default queue if it names none.
func (j *Jobs) named(group *api.PodGroup) api.QueueID {
	return api.QueueID(cmp.Or(group.Spec.Queue, j.defaultQueue))
}

// requeue moves the job to the queue that its PodGroup names. It does nothing while a task of the job holds resources,
// unless the job's current queue no longer exists.
func (j *Jobs) requeue(e *job, queues map[api.QueueID]*api.QueueInfo) {
	if named := j.named(e.info.PodGroup); named != e.info.Queue && (!e.placed() || queues[e.info.Queue] == nil) {
		j.move(e, named)
	}
}

// queueOf returns the queue of the job; empty if it is not known yet.
func (j *Jobs) queueOf(id api.JobID) api.QueueID {
	if e := j.entries[id]; e != nil {
		return e.info.Queue
	}
	return ""
}

// placed reports whether a task of the job holds resources. A task that is being deleted counts, too.
func (e *job) placed() bool {
	for status, tasks := range e.info.TaskStatusIndex {
		if status == api.Pending || api.CompletedStatus(status) {
			continue
		}
		for _, task := range tasks {
			if holdsNode(task) {
				return true
			}
		}
	}
	return false
}

// move moves the job to the queue.
func (j *Jobs) move(e *job, queue api.QueueID) {
	if e.info.Name != "" && e.info.Queue != "" {
		vcmetrics.DeleteJobMetrics(e.info.Name, string(e.info.Queue), e.info.Namespace)
	}
	e.info.Queue = queue
	j.recent.note(e)
}

// adopt moves the pod's job to the queue in which the pod was bound, as recorded on the pod. It is called when the
// books first see a pod on a node. Another scheduler, or this scheduler before a restart, has bound such a pod. If a
// job has several such pods, the first decides.
func (p *Pods) adopt(task *api.TaskInfo, pod *v1.Pod) {
	if queue := p.boundIn(pod); queue != "" && task.Job != "" && holdsNode(task) {
		if e := p.jobs.of(task.Job); !e.placed() && e.info.Queue != api.QueueID(queue) {
			p.jobs.move(e, api.QueueID(queue))
		}
	}
}
