// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// A gang is an orphan when its PodGroup does not exist and pods of it hold nodes: a user deleted the PodGroup, or the object that it
// was made for. Upstream leaves such a job out of sessions, so its pods would no longer count against their queue, and others of
// the queue would run beside them.

// orphanVersion marks the PodGroup that stands in for the one that does not exist.
const orphanVersion = "orphan"

func isOrphan(job *api.JobInfo) bool {
	return job.PodGroup != nil && job.PodGroup.Version == orphanVersion
}

// addOrphans adds a job to the snapshot for each orphan, with the pods that hold nodes, and returns how many it added. The books' mutex
// is held.
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

// orphanOf returns the job that stands for the pods of the job that hold nodes; nil if there are none. The queue is the one that the
// PodGroup named, or after a restart the one in which the pods were bound.
func orphanOf(job *api.JobInfo) *api.JobInfo {
	var placed []*api.TaskInfo
	queue := string(job.Queue)
	for status, tasks := range job.TaskStatusIndex {
		if !api.AllocatedStatus(status) {
			continue
		}
		for _, task := range tasks {
			placed = append(placed, task)
			queue = cmp.Or(queue, task.Pod.Annotations[binding.QueueAnnotation])
		}
	}
	if len(placed) == 0 {
		return nil
	}
	orphan := api.NewJobInfo(job.UID)
	orphan.SetPodGroup(&api.PodGroup{Version: orphanVersion, PodGroup: scheduling.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: placed[0].Namespace, Name: job.Name, CreationTimestamp: job.CreationTimestamp},
		Spec:       scheduling.PodGroupSpec{Queue: cmp.Or(queue, binding.DefaultQueue)},
		Status:     scheduling.PodGroupStatus{Phase: scheduling.PodGroupRunning},
	}})
	orphan.Priority = job.Priority
	for _, task := range placed {
		orphan.AddTaskInfo(task.Clone())
	}
	return orphan
}
