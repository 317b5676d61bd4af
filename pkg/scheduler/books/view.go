// SPDX-License-Identifier: Apache-2.0

package books

import (
	"maps"
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// viewedAtOnce bounds how many jobs and tasks View processes before it releases the mutex for other goroutines.
const viewedAtOnce = 2000

// IDs returns the IDs of all jobs, in random order.
func (j *Jobs) IDs() []api.JobID {
	j.lock.Lock()
	defer j.lock.Unlock()
	return slices.AppendSeq(make([]api.JobID, 0, len(j.entries)), maps.Keys(j.entries))
}

// View calls see with each of the given jobs that still exists. see is called with the mutex held, and View releases
// the mutex from time to time. So see must be quick, and must not keep a reference to the job.
func (j *Jobs) View(ids []api.JobID, see func(*api.JobInfo)) {
	for len(ids) > 0 {
		ids = j.viewSome(ids, see)
	}
}

func (j *Jobs) viewSome(ids []api.JobID, see func(*api.JobInfo)) (left []api.JobID) {
	j.lock.Lock()
	defer j.lock.Unlock()
	for viewed := 0; len(ids) > 0 && viewed < viewedAtOnce; ids = ids[1:] {
		viewed++
		if job := j.Get(ids[0]); job != nil {
			viewed += len(job.Tasks)
			see(job)
		}
	}
	return ids
}

// AnyWaiting reports whether a task or a PodGroup waits. It also counts tasks and PodGroups that sessions leave out,
// such as a task whose PodGroup does not exist.
func (j *Jobs) AnyWaiting() bool {
	j.lock.Lock()
	defer j.lock.Unlock()
	for _, job := range j.All() {
		if len(job.TaskStatusIndex[api.Pending]) > 0 {
			return true
		}
		if job.PodGroup == nil {
			continue
		}
		switch job.PodGroup.Status.Phase {
		case scheduling.PodGroupRunning, scheduling.PodGroupCompleted:
		default:
			return true
		}
	}
	return false
}
