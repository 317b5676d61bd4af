// SPDX-License-Identifier: Apache-2.0

package books

import (
	"cmp"
	"iter"
	"maps"
	"sync"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
)

// Jobs holds the jobs with their tasks.
type Jobs struct {
	lock         sync.Locker
	last         *generations
	entries      map[api.JobID]*job
	defaultQueue string
}

// job is the entry of a job.
type job struct {
	info       *api.JobInfo
	generation uint64
	// emptied are sub-jobs that may have lost their last task. The method tidy drops them, because upstream does not.
	emptied []api.SubJobID
}

// Get returns the job; nil if the books have no such job. The caller must hold the mutex and must not change the job.
func (j *Jobs) Get(id api.JobID) *api.JobInfo {
	if e := j.entries[id]; e != nil {
		return e.info
	}
	return nil
}

// All yields all jobs, including jobs without a PodGroup. The caller must hold the mutex and must not change the jobs.
func (j *Jobs) All() iter.Seq2[api.JobID, *api.JobInfo] {
	return func(yield func(api.JobID, *api.JobInfo) bool) {
		for id, e := range j.entries {
			if !yield(id, e.info) {
				return
			}
		}
	}
}

// Len returns the number of jobs. The caller must hold the mutex.
func (j *Jobs) Len() int { return len(j.entries) }

// of returns the entry of a job that the caller is about to change. It creates a missing entry. The entry gets a new
// generation, so that the next snapshot copies the job again.
func (j *Jobs) of(id api.JobID) *job {
	e := j.entries[id]
	if e == nil {
		e = &job{info: api.NewJobInfo(id)}
		j.entries[id] = e
	}
	e.generation = j.last.next()
	return e
}

// tidy drops the job's sub-jobs without tasks. If the job has neither a PodGroup nor tasks, it drops the job's entry.
func (j *Jobs) tidy(id api.JobID) {
	e := j.entries[id]
	if e == nil {
		return
	}
	for _, id := range e.emptied {
		if sub := e.info.SubJobs[id]; sub != nil && len(sub.Tasks) == 0 {
			delete(e.info.SubJobs, id)
		}
	}
	e.emptied = e.emptied[:0]
	if !api.JobTerminated(e.info) {
		return
	}
	delete(j.entries, id)
	if e.info.Name != "" {
		vcmetrics.DeleteJobMetrics(e.info.Name, string(e.info.Queue), e.info.Namespace)
	}
}

// ShowGroup records the version of the PodGroup that the watch shows.
func (j *Jobs) ShowGroup(shown *v1beta1.PodGroup) error {
	internal, err := podgroup.Internal(shown)
	if err != nil {
		return err
	}
	group := &api.PodGroup{PodGroup: *internal, Version: api.PodGroupVersionV1Beta1}
	if group.Annotations == nil {
		group.Annotations = map[string]string{}
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	info := j.of(api.JobID(shown.Namespace + "/" + shown.Name)).info
	if info.PodGroup != nil && info.PodGroup.UID != shown.UID { // the watch missed the deletion of the former PodGroup
		dropGroup(info)
	}
	current := info.Queue
	info.SetPodGroup(group)
	info.Queue = cmp.Or(current, j.named(group)) // the job stays in its queue until the next snapshot moves it
	vcmetrics.UpdateE2eSchedulingStartTimeByJob(info.Name, string(info.Queue), info.Namespace, info.CreationTimestamp.Time)
	return nil
}

// HideGroup is called when the watch shows that the PodGroup was deleted.
func (j *Jobs) HideGroup(id api.JobID) {
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.entries[id] == nil {
		return
	}
	dropGroup(j.of(id).info)
	j.tidy(id)
}

// dropGroup removes the PodGroup from the job. It also removes the HyperNode that sessions recorded for the gang,
// because the next PodGroup with that name is another gang.
func dropGroup(info *api.JobInfo) {
	info.UnsetPodGroup()
	info.AllocatedHyperNode = ""
}

// decided returns the entry of a job for which a session made decisions; nil if the job's PodGroup was deleted or
// replaced meanwhile.
func (j *Jobs) decided(on *api.JobInfo) *job {
	e := j.entries[on.UID]
	if e == nil || e.info.PodGroup == nil || e.info.PodGroup.UID != on.PgUID {
		return nil
	}
	return e
}

// NoteHyperNode records the annotation of the job's PodGroup in which a session stored the gang's HyperNode.
func (j *Jobs) NoteHyperNode(decided *api.JobInfo) {
	j.lock.Lock()
	defer j.lock.Unlock()
	e := j.decided(decided)
	if e == nil {
		return
	}
	group := *e.info.PodGroup // copies of the job may share the PodGroup
	group.Annotations = maps.Clone(group.Annotations)
	group.Annotations[api.JobAllocatedHyperNode] = decided.PodGroup.Annotations[api.JobAllocatedHyperNode]
	e.info.PodGroup, e.generation = &group, j.last.next()
}

// NoteHyperNodes records the HyperNodes in which a session placed the gang and its sub-jobs.
func (j *Jobs) NoteHyperNodes(decided *api.JobInfo) {
	j.lock.Lock()
	defer j.lock.Unlock()
	e := j.decided(decided)
	if e == nil {
		return
	}
	e.generation = j.last.next()
	e.info.AllocatedHyperNode = decided.AllocatedHyperNode
	for id, sub := range e.info.SubJobs {
		if placed := decided.SubJobs[id]; placed != nil {
			sub.AllocatedHyperNode = placed.AllocatedHyperNode
		}
	}
}

// IsTerminated reports whether the job has no PodGroup and no tasks left.
func (j *Jobs) IsTerminated(id api.JobID) bool {
	j.lock.Lock()
	defer j.lock.Unlock()
	e := j.entries[id]
	return e == nil || api.JobTerminated(e.info)
}

// schedulable yields the jobs that sessions see, which have a PodGroup and an existing queue. With move, it first moves a
// job to the queue that its PodGroup names, if the job may move now (requeue). The second value is the generation of the
// job's entry, a number that grows with each change of the entry.
func (j *Jobs) schedulable(queues map[api.QueueID]*api.QueueInfo, move bool) iter.Seq2[*api.JobInfo, uint64] {
	return func(yield func(*api.JobInfo, uint64) bool) {
		for _, e := range j.entries {
			if e.info.PodGroup == nil {
				continue
			}
			if move {
				j.requeue(e, queues)
			}
			if queues[e.info.Queue] != nil && !yield(e.info, e.generation) {
				return
			}
		}
	}
}
