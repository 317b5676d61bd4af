// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/upstream"
)

// hierarchical is the name of upstream's plugin that supports child queues. While any gang is in a queue with children,
// that plugin admits no gang of the cluster. Any tenant may name such a queue in a PodGroup.
const hierarchical = "capacity"

// rootQueue is the name of upstream's root queue, which is the ancestor of all queues.
const rootQueue = "root"

// leaveParents makes the session count gangs in queues with children against a leaf queue instead. That is the queue in
// which their pods were bound, or else the default queue. It returns, by gang, the message why these gangs are not
// placed.
func leaveParents(ssn *framework.Session) map[api.JobID]string {
	if option, found := ssn.PluginOption(hierarchical); !found || option.EnabledHierarchy == nil || !*option.EnabledHierarchy {
		return nil
	}
	parents := map[api.QueueID]bool{}
	for id, queue := range ssn.Queues {
		if parent := api.QueueID(queue.Queue.Spec.Parent); parent != "" {
			parents[parent] = true
		} else if id != rootQueue {
			parents[rootQueue] = true
		}
	}
	refused := map[api.JobID]string{}
	for id, job := range ssn.Jobs {
		if !parents[job.Queue] {
			continue
		}
		refused[id] = hasChildren(job)
		upstream.CapMinResources(job)
		if job.Queue = leafFor(ssn, job, parents); job.Queue == "" {
			delete(ssn.Jobs, id)
		}
	}
	return refused
}

// hasChildren returns the message that the gang is not placed because its queue has child queues.
func hasChildren(job *api.JobInfo) string {
	field := "spec.queue"
	if job.PodGroup != nil {
		field = gangs.QueueField(job.PodGroup)
	}
	return fmt.Sprintf("queue %s has child queues, and gangs must be in a queue without; set %s to one of its children", brief.Value(string(job.Queue)), field)
}

// leafFor returns the leaf queue in which the gang's pods were bound. If no pods are bound, it returns the default
// queue, or the first leaf queue by name if the default queue is not a leaf.
func leafFor(ssn *framework.Session, job *api.JobInfo, parents map[api.QueueID]bool) api.QueueID {
	leaf := func(id api.QueueID) bool { return ssn.Queues[id] != nil && !parents[id] }
	var bound, first api.QueueID
	for _, task := range boundTasks(job) {
		if id := api.QueueID(task.Pod.Annotations[binding.QueueAnnotation]); leaf(id) && (bound == "" || id < bound) {
			bound = id
		}
	}
	switch {
	case bound != "":
		return bound
	case leaf(binding.DefaultQueue):
		return binding.DefaultQueue
	}
	for id := range ssn.Queues {
		if leaf(id) && (first == "" || id < first) {
			first = id
		}
	}
	return first
}
