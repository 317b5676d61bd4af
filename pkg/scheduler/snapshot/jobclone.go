// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// jobClone is a session's copy of a job, with the data that shows whether the session has changed the copy.
type jobClone struct {
	clone *api.JobInfo
	// was has the fields of the copy when it was made, and minResources the minResources of its PodGroup.
	was          api.JobInfo
	minResources *v1.ResourceList
	// steady reports whether the job simply ran when the copy was made: its PodGroup was running or completed, and all its
	// tasks were running or had ended. Of such a job, sessions only evict tasks, and write the fields that the methods
	// untouched and reset process.
	steady bool
	// source is the job in the books.
	source *api.JobInfo
	// allocated and total are the copy's fields Allocated and TotalRequest when it was made: the sums of the requests
	// of its placed tasks, and of all its tasks.
	allocated, total *Amount
	tasks            []taskClone
	subs             []subJobClone
	// statuses is the number of tasks of each status when the copy was made.
	statuses map[api.TaskStatus]int
	// withinBounds reports whether package quarantine has found neither the PodGroup nor the pods too large
	// (Copies.WithinBounds).
	withinBounds bool
	// version is the generation that the source had when the copy was made.
	version uint64
}

// subJobClone is a sub-job of the copy, with its original fields and the original number of statuses in its index of
// tasks.
type subJobClone struct {
	sub      *api.SubJobInfo
	was      api.SubJobInfo
	statuses int
}

// newJobClone records the original values of a copy that was just made.
func newJobClone(source, clone *api.JobInfo) *jobClone {
	j := &jobClone{
		clone: clone, was: *clone, minResources: clone.PodGroup.Spec.MinResources, steady: isSteady(clone), source: source,
		allocated: AmountOf(clone.Allocated), total: AmountOf(clone.TotalRequest),
		tasks: make([]taskClone, 0, len(source.Tasks)), statuses: countsOf(clone.TaskStatusIndex),
	}
	var known amounts
	for key, task := range source.Tasks {
		kept := newTaskClone(key, task, clone.Tasks[key], &known)
		kept.sub = clone.SubJobs[clone.TaskToSubJob[key]]
		j.tasks = append(j.tasks, kept)
	}
	for _, sub := range clone.SubJobs {
		j.subs = append(j.subs, subJobClone{sub, *sub, len(sub.TaskStatusIndex)})
	}
	return j
}

// isSteady reports whether the job's PodGroup is running or completed, and all its tasks are running or have ended.
func isSteady(job *api.JobInfo) bool {
	switch job.PodGroup.Status.Phase {
	case scheduling.PodGroupRunning, scheduling.PodGroupCompleted:
	default:
		return false
	}
	for status := range job.TaskStatusIndex {
		if status != api.Running && !api.CompletedStatus(status) {
			return false
		}
	}
	return true
}

// untouched reports whether the copy is that of a steady job and unchanged, except for the fields that reset resets,
// provided that the session has not touched the job (Touched). Without touching it, plugins may change the job's queue
// and minima, and the cache may replace the amounts that its tasks hold when it prepares the snapshot. An eviction that
// fails also does not touch the job, but may leave its task in another status.
func (j *jobClone) untouched() bool {
	c, was := j.clone, &j.was
	return j.steady && c.Queue == was.Queue && c.MinAvailable == was.MinAvailable && c.TaskMinAvailableTotal == was.TaskMinAvailableTotal &&
		len(c.TaskMinAvailable) == len(was.TaskMinAvailable) && len(c.MinSubJobs) == len(was.MinSubJobs) &&
		c.AllocatedHyperNode == was.AllocatedHyperNode && c.Allocated == was.Allocated && c.PodGroup == was.PodGroup &&
		c.PodGroup.Spec.MinResources == j.minResources && len(c.TaskStatusIndex[api.Running]) == j.statuses[api.Running]
}

// reset resets the fields that sessions write all the time, such as the PodGroup's status.
func (j *jobClone) reset() {
	c, source := j.clone, j.source
	if !equalStatus(&c.PodGroup.Status, &source.PodGroup.Status) {
		c.PodGroup.Status = *source.PodGroup.Status.DeepCopy()
	}
	c.JobFitErrors = source.JobFitErrors
	if c.NodesFitErrors == nil || len(c.NodesFitErrors) > 0 {
		c.NodesFitErrors = map[api.TaskID]*api.FitErrors{}
	}
	c.ScheduleStartTimestamp = metav1.Time{}
}

// pristine reports whether the session has left the copy unchanged, except for the fields that reset resets. Unless
// whole is set, the tasks of a job without pending tasks are compared only by their numbers and by the sums of their
// requests. All tasks of a job with pending tasks are always compared, because plugins write to pending tasks.
func (j *jobClone) pristine(whole bool) bool {
	c, source := j.clone, j.source
	j.allocated.restore(c.Allocated)
	j.total.restore(c.TotalRequest)
	if !equalJob(c, source) || !j.allocated.Is(c.Allocated) || !j.total.Is(c.TotalRequest) || !j.sameCounts() || !j.equalSubJobs() {
		return false
	}
	return !whole && j.statuses[api.Pending] == 0 || j.pristineTasks()
}

// sameCounts reports whether the copy still has its original number of tasks of each status.
func (j *jobClone) sameCounts() bool {
	c := j.clone
	return c.Tasks != nil && c.TaskStatusIndex != nil && c.TaskToSubJob != nil && c.SubJobs != nil &&
		len(c.Tasks) == len(j.tasks) && len(c.TaskToSubJob) == len(j.tasks) && equalCounts(c.TaskStatusIndex, j.statuses)
}

// pristineTasks reports whether the copy's tasks are unchanged and still in the maps of the copy that contained them.
func (j *jobClone) pristineTasks() bool {
	c := j.clone
	for i := range j.tasks {
		t := &j.tasks[i]
		if c.Tasks[t.key] != t.clone || c.TaskToSubJob[t.key] != t.sub.UID || c.TaskStatusIndex[t.status][t.key] != t.clone ||
			t.sub.Tasks[t.key] != t.clone || t.sub.TaskStatusIndex[t.status][t.key] != t.clone {
			return false
		}
		if t.status == api.Pending {
			t.clone.Pod = t.source.Pod // the session has replaced the pod by its own copy
		}
		t.clone.LastTransaction = nil
		t.clone.EvictionOccurred, t.clone.JobAllocatedHyperNode = false, ""
		if !t.unchanged() {
			return false
		}
	}
	return true
}

// countsOf returns the number of tasks of each status in the index.
func countsOf(index map[api.TaskStatus]api.TasksMap) map[api.TaskStatus]int {
	counts := make(map[api.TaskStatus]int, len(index))
	for status, tasks := range index {
		counts[status] = len(tasks)
	}
	return counts
}

// equalCounts reports whether the index has as many tasks of each status as counts says.
func equalCounts(index map[api.TaskStatus]api.TasksMap, counts map[api.TaskStatus]int) bool {
	for status, tasks := range index {
		if count, known := counts[status]; !known || count != len(tasks) {
			return false
		}
	}
	return len(index) == len(counts)
}

// equalStatus reports whether the statuses of two PodGroups are equal.
func equalStatus(a, b *scheduling.PodGroupStatus) bool {
	return a.Phase == b.Phase && a.Running == b.Running && a.Succeeded == b.Succeeded && a.Failed == b.Failed &&
		(a.Conditions == nil) == (b.Conditions == nil) && slices.Equal(a.Conditions, b.Conditions)
}

// equalJob reports whether the copy c and the source have equal fields, without tasks and sub-jobs.
func equalJob(c, source *api.JobInfo) bool {
	return c.UID == source.UID && c.PgUID == source.PgUID && c.Name == source.Name && c.Namespace == source.Namespace && c.Queue == source.Queue &&
		binding.MinimumApplied(c, source.PodGroup) && c.WaitingTime == source.WaitingTime && c.AllocatedHyperNode == source.AllocatedHyperNode &&
		equalMap(c.MinSubJobs, source.MinSubJobs) && c.CreationTimestamp == source.CreationTimestamp &&
		c.Preemptable == source.Preemptable && c.RevocableZone == source.RevocableZone && c.Budget != nil && *c.Budget == *source.Budget &&
		equalPodGroup(c.PodGroup, source.PodGroup)
}

// entries counts the tasks in an index.
func entries(index map[api.TaskStatus]api.TasksMap) int {
	n := 0
	for _, tasks := range index {
		n += len(tasks)
	}
	return n
}

// equalSubJobs reports whether the copy's sub-jobs have their original fields, and as many tasks in total as the job
// had. pristineTasks compares the tasks themselves.
func (j *jobClone) equalSubJobs() bool {
	if len(j.clone.SubJobs) != len(j.subs) {
		return false
	}
	tasks := 0
	for i := range j.subs {
		sub, was := j.subs[i].sub, &j.subs[i].was
		hyperNode := ""
		if source, ok := j.source.SubJobs[was.UID]; ok {
			hyperNode = source.AllocatedHyperNode
		}
		if j.clone.SubJobs[was.UID] != sub || sub.UID != was.UID || sub.GID != was.GID || sub.Job != was.Job || sub.MinAvailable != was.MinAvailable ||
			sub.Priority != was.Priority || sub.MatchIndex != was.MatchIndex || sub.AllocatedHyperNode != hyperNode ||
			len(sub.TaskStatusIndex) != j.subs[i].statuses || entries(sub.TaskStatusIndex) != len(sub.Tasks) {
			return false
		}
		tasks += len(sub.Tasks)
	}
	return tasks == len(j.tasks)
}
