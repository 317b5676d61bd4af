// SPDX-License-Identifier: Apache-2.0

package cache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// keptJob is the copy of a job that sessions get, and what is needed to tell whether it is as good as new.
type keptJob struct {
	clone *api.JobInfo
	// source is the cache's, and podGroup the one it had when the copy was made.
	source   *api.JobInfo
	podGroup *api.PodGroup
	// allocated and total are the copy's sums as they were made.
	allocated, total *amount
	tasks            []keptTask
	subs             []keptSubJob
	// statuses is how many statuses the index of tasks has.
	statuses int
	// fits says that neither its PodGroup nor its pods, as they are, have too much of anything (toolarge.go).
	fits bool
}

// keptSubJob is a sub-job of the copy, its fields as they were made, and how many statuses its index of tasks has.
type keptSubJob struct {
	sub      *api.SubJobInfo
	was      api.SubJobInfo
	statuses int
}

// keepJob keeps a copy that was just made.
func keepJob(source, clone *api.JobInfo) *keptJob {
	k := &keptJob{
		clone: clone, source: source, podGroup: source.PodGroup,
		allocated: amountOf(clone.Allocated), total: amountOf(clone.TotalRequest),
		tasks: make([]keptTask, 0, len(source.Tasks)), statuses: len(clone.TaskStatusIndex),
	}
	var known amounts
	for key, task := range source.Tasks {
		kept := keepTask(key, task, clone.Tasks[key], &known)
		kept.sub = clone.SubJobs[clone.TaskToSubJob[key]]
		k.tasks = append(k.tasks, kept)
	}
	for _, sub := range clone.SubJobs {
		k.subs = append(k.subs, keptSubJob{sub, *sub, len(sub.TaskStatusIndex)})
	}
	return k
}

// asNew says whether the copy is what Clone of the source would be once the source has the priority. What sessions
// change all the time it sets right.
func (k *keptJob) asNew(source *api.JobInfo, priority int32) bool {
	if source != k.source || source.PodGroup != k.podGroup || source.PodGroup == nil || k.clone.Priority != priority ||
		!sameJob(k.clone, source) || !k.allocated.is(k.clone.Allocated) || !k.total.is(k.clone.TotalRequest) ||
		!k.sameTasks() || !k.sameSubJobs() {
		return false
	}
	c := k.clone
	c.PodGroup.Status = *source.PodGroup.Status.DeepCopy()
	c.JobFitErrors = source.JobFitErrors
	c.NodesFitErrors = map[api.TaskID]*api.FitErrors{}
	c.ScheduleStartTimestamp = metav1.Time{}
	return true
}

// sameJob compares what stands in both alike, but not tasks and sub-jobs.
func sameJob(c, source *api.JobInfo) bool {
	return c.UID == source.UID && c.PgUID == source.PgUID && c.Name == source.Name && c.Namespace == source.Namespace && c.Queue == source.Queue &&
		c.MinAvailable == binding.LeastMembers(source.PodGroup) && c.WaitingTime == source.WaitingTime && c.AllocatedHyperNode == source.AllocatedHyperNode &&
		sameMap(c.MinSubJobs, source.MinSubJobs) && sameMap(c.TaskMinAvailable, source.TaskMinAvailable) &&
		c.TaskMinAvailableTotal == source.TaskMinAvailableTotal && c.CreationTimestamp == source.CreationTimestamp &&
		c.Preemptable == source.Preemptable && c.RevocableZone == source.RevocableZone && c.Budget != nil && *c.Budget == *source.Budget &&
		samePodGroup(c.PodGroup, source.PodGroup)
}

// sameTasks compares the tasks, and finds each where it belongs in the copy.
func (k *keptJob) sameTasks() bool {
	c := k.clone
	if c.Tasks == nil || c.TaskStatusIndex == nil || c.TaskToSubJob == nil || c.SubJobs == nil ||
		len(k.source.Tasks) != len(k.tasks) || len(c.Tasks) != len(k.tasks) || len(c.TaskToSubJob) != len(k.tasks) {
		return false
	}
	for i := range k.tasks {
		t := &k.tasks[i]
		if k.source.Tasks[t.key] != t.source || c.Tasks[t.key] != t.clone || c.TaskToSubJob[t.key] != t.sub.UID ||
			c.TaskStatusIndex[t.status][t.key] != t.clone || t.sub.Tasks[t.key] != t.clone || t.sub.TaskStatusIndex[t.status][t.key] != t.clone {
			return false
		}
		if t.source.Pod != t.pod {
			t.pod, k.fits = t.source.Pod, false
		}
		if t.status == api.Pending {
			t.clone.Pod = t.source.Pod // the session had its own
		}
		t.clone.LastTransaction = nil
		t.clone.EvictionOccurred, t.clone.JobAllocatedHyperNode = false, ""
		if !t.asNew() {
			return false
		}
	}
	return len(c.TaskStatusIndex) == k.statuses && entries(c.TaskStatusIndex) == len(k.tasks)
}

// entries counts the tasks in an index.
func entries(index map[api.TaskStatus]api.TasksMap) int {
	n := 0
	for _, tasks := range index {
		n += len(tasks)
	}
	return n
}

// sameSubJobs compares the sub-jobs with what they were made, but for their tasks, which are there: it counts whether
// there are more.
func (k *keptJob) sameSubJobs() bool {
	if len(k.clone.SubJobs) != len(k.subs) {
		return false
	}
	tasks := 0
	for i := range k.subs {
		sub, was := k.subs[i].sub, &k.subs[i].was
		hyperNode := ""
		if source, ok := k.source.SubJobs[was.UID]; ok {
			hyperNode = source.AllocatedHyperNode
		}
		if k.clone.SubJobs[was.UID] != sub || sub.UID != was.UID || sub.GID != was.GID || sub.Job != was.Job || sub.MinAvailable != was.MinAvailable ||
			sub.Priority != was.Priority || sub.MatchIndex != was.MatchIndex || sub.AllocatedHyperNode != hyperNode ||
			len(sub.TaskStatusIndex) != k.subs[i].statuses || entries(sub.TaskStatusIndex) != len(sub.Tasks) {
			return false
		}
		tasks += len(sub.Tasks)
	}
	return tasks == len(k.tasks)
}
