// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// A gang is an orphan when its PodGroup does not exist and some of its pods hold nodes. A user then deleted the
// PodGroup, or the object that owned the PodGroup. Upstream leaves such a job out of sessions. Its pods would no longer
// count against their queue, and the queue could use more than its share.

// orphanVersion marks a PodGroup that stands for a missing PodGroup in snapshots.
const orphanVersion = "orphan"

func isOrphan(job *api.JobInfo) bool {
	return job.PodGroup != nil && job.PodGroup.Version == orphanVersion
}

// A pod that is being deleted also counts against its queue. But it does not count as a member of its gang, which
// cannot rely on it. So snapshots have, beside the gang's job, a second job for such pods. The status of the pods in
// this job is Bound, because action shuffle evicts tasks that are Running.

// addStandIns adds to the snapshot the jobs for orphans (gangs that hold nodes and whose PodGroup does not exist) and
// for pods that are being deleted. It returns the number of these jobs. The caller must hold the books' mutex.
func (s *snapshots) addStandIns(snapshot *api.ClusterInfo) int {
	return s.addOrphans(snapshot) + s.addDeleted(snapshot)
}

// addDeleted adds a job for each gang with pods that are being deleted, and returns the number of these jobs. The job
// contains these pods, except pods on nodes that are not ready: no kubelet ends such pods, and their gang may run
// elsewhere.
func (s *snapshots) addDeleted(snapshot *api.ClusterInfo) (added int) {
	deleted := map[api.JobID][]*api.TaskInfo{}
	for task := range s.books.Pods.Deleted() {
		if node := snapshot.Nodes[task.NodeName]; task.Job == "" || node != nil && node.Node != nil && ready(node.Node) != v1.ConditionTrue {
			continue
		}
		own := task.Clone()
		own.Job, own.Status = framework.DeletedJob(task.Job), api.Bound
		deleted[task.Job] = append(deleted[task.Job], own)
	}
	for id, tasks := range deleted {
		job := standIn(s.books.Jobs.Get(id), framework.DeletedJob(id), tasks)
		if snapshot.Queues[job.Queue] != nil {
			snapshot.Jobs[job.UID] = job
			added++
		}
	}
	return added
}

// addOrphans adds a job for each orphan, a gang that holds nodes and whose PodGroup does not exist. The job has the
// pods that hold nodes. addOrphans returns the number of these jobs.
func (s *snapshots) addOrphans(snapshot *api.ClusterInfo) (added int) {
	for id, job := range s.books.Jobs.All() {
		if job.PodGroup != nil {
			continue
		}
		if orphan := orphanOf(job); orphan != nil && snapshot.Queues[orphan.Queue] != nil {
			snapshot.Jobs[id] = orphan
			added++
		}
	}
	return added
}

// orphanOf returns a job with those tasks of the given job that hold nodes; nil if no task holds a node.
func orphanOf(job *api.JobInfo) *api.JobInfo {
	var placed []*api.TaskInfo
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			placed = append(placed, task.Clone())
		}
	}
	if len(placed) == 0 {
		return nil
	}
	return standIn(job, job.UID, placed)
}

// standIn returns a new job with this ID and with these tasks of the given job. Its queue is the queue that the given
// job has in the books, or else the default queue.
func standIn(job *api.JobInfo, id api.JobID, tasks []*api.TaskInfo) *api.JobInfo {
	standIn := api.NewJobInfo(id)
	standIn.Priority = job.Priority
	for _, task := range tasks {
		standIn.AddTaskInfo(task)
	}
	standIn.SetPodGroup(&api.PodGroup{Version: orphanVersion, PodGroup: scheduling.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: tasks[0].Namespace, Name: job.Name, CreationTimestamp: job.CreationTimestamp},
		Spec:       scheduling.PodGroupSpec{Queue: cmp.Or(string(job.Queue), binding.DefaultQueue)},
		Status:     scheduling.PodGroupStatus{Phase: scheduling.PodGroupRunning},
	}})
	upstream.CapMinResources(standIn)
	return standIn
}
