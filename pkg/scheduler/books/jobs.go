// SPDX-License-Identifier: Apache-2.0

package books

import (
	"cmp"
	"iter"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/internal/podgroup"
)

// Jobs holds the jobs with their tasks.
type Jobs struct {
	lock         sync.Locker
	entries      map[api.JobID]*job
	defaultQueue string
	// recent lists the entries by generation. An entry that is dropped leaves it at once.
	recent recent[*job]
	// settled is the generation of the last change of a job that the method settle has processed, and queues are the
	// queues that existed then.
	settled uint64
	queues  sets.Set[api.QueueID]
}

// job is the entry of a job.
type job struct {
	revision
	info *api.JobInfo
	// visible reports whether sessions see the job (settle).
	visible bool
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
	j.recent.note(e)
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
	j.recent.drop(e)
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
	e.info.PodGroup = &group
	j.recent.note(e)
}

// NoteHyperNodes records the HyperNodes in which a session placed the gang and its sub-jobs.
func (j *Jobs) NoteHyperNodes(decided *api.JobInfo) {
	j.lock.Lock()
	defer j.lock.Unlock()
	e := j.decided(decided)
	if e == nil {
		return
	}
	j.recent.note(e)
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

// settle moves jobs to the queues that their PodGroups name, if they may move now (requeue), and records which jobs
// sessions see. Both depend only on the job itself and on which queues exist. So settle looks only at jobs that have
// changed since the last call, and at all jobs if queues were added or deleted. The caller must hold the mutex.
func (j *Jobs) settle(queues map[api.QueueID]*api.QueueInfo) {
	if existing := sets.KeySet(queues); !existing.Equal(j.queues) {
		j.settled, j.queues = 0, existing
	}
	for e := range j.recent.since(j.settled) {
		if e.info.PodGroup != nil {
			j.requeue(e, queues)
		}
		if visible := e.schedulable(queues); visible != e.visible {
			e.visible = visible
			j.recent.note(e)
		}
	}
	j.settled = j.recent.latest()
}

// schedulable reports whether sessions see the job: it has a PodGroup and an existing queue.
func (e *job) schedulable(queues map[api.QueueID]*api.QueueInfo) bool {
	return e.info.PodGroup != nil && queues[e.info.Queue] != nil
}

// Visible implements snapshot.JobSource. It returns a job that sessions see, as of the last call of settle, and the
// generation of its entry; nil if sessions do not see the job.
func (j *Jobs) Visible(id api.JobID) (*api.JobInfo, uint64) {
	if e := j.entries[id]; e != nil && e.visible {
		return e.info, e.generation
	}
	return nil, 0
}

// Changed implements snapshot.JobSource.
func (j *Jobs) Changed(after uint64) (ids []api.JobID, last uint64) {
	for e := range j.recent.since(after) {
		ids = append(ids, e.info.UID)
	}
	return ids, max(after, j.recent.latest())
}
