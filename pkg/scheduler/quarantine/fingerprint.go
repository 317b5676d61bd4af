// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"hash/fnv"

	hashutil "k8s.io/kubernetes/pkg/util/hash"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// fingerprintOfJob returns a hash of the gang's fields that users write, and of its set of pods.
func fingerprintOfJob(job *api.JobInfo) uint64 {
	pg := job.PodGroup
	mark := hashOf(pg.UID, pg.Spec, pg.Labels, pg.Annotations)
	for _, task := range job.Tasks {
		mark ^= hashOf(task.UID, task.Pod.Generation, task.Pod.Labels)
	}
	return mark | 1
}

func fingerprintOfQueue(queue *api.QueueInfo) uint64 {
	return hashOf(queue.Queue.UID, queue.Queue.Spec, queue.Queue.Annotations) | 1
}

func fingerprintOfNode(node *api.NodeInfo) uint64 {
	return hashOf(node.Node.UID, node.Node.Spec, node.Node.Labels, node.Node.Status.Allocatable) | 1
}

// hashOf returns a hash of the parts. Callers set one bit in the hash, so that it is never 0, because 0 means that no
// fingerprint exists.
func hashOf(parts ...any) uint64 {
	hash := fnv.New64a()
	hashutil.DeepHashObject(hash, parts)
	return hash.Sum64()
}

// topQueue returns the ancestor of the queue that is directly below the root, or the queue itself if it has no parent
// but the root. Resources held in a queue count against all its ancestors. So a gang that a session leaves out makes
// the sums of all queues below the same top queue incomplete.
func topQueue(snapshot *api.ClusterInfo, id api.QueueID) string {
	for range len(snapshot.Queues) {
		queue, ok := snapshot.Queues[id]
		if !ok || queue.Queue.Spec.Parent == "" || queue.Queue.Spec.Parent == rootQueue {
			break
		}
		id = api.QueueID(queue.Queue.Spec.Parent)
	}
	return string(id)
}
