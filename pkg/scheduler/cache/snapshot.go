package cache

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Snapshot returns upstream's snapshot with four changes. Victims of an eviction are leaving (evictor.go). Pending tasks have a pod of their own, because allocation
// writes the node's name and plugins write annotations into it, which upstream does to the informer's pod. A
// PodGroup whose status this scheduler has decided but the watch has not shown yet has the decided one, so that no
// session decides the same thing again. And a pod that names its node has it as its nominated node, so that allocate
// looks at that node before all others, of which none will do; but only when there is room, because preempt makes none
// on a nominated node.
func (c *Cache) Snapshot() *api.ClusterInfo {
	snapshot := c.SchedulerCache.Snapshot()
	c.evictor.bookVictims(snapshot)
	for _, job := range snapshot.Jobs {
		domain := job.ContainsHardTopology() // where upstream lets a nomination out of the required domain
		for _, task := range job.TaskStatusIndex[api.Pending] {
			task.Pod = ownPod(task.Pod)
			if node := snapshot.Nodes[namedNode(task.Pod)]; node != nil && !domain && fitsNamed(task, node) {
				task.Pod.Status.NominatedNodeName = node.Name
			}
		}
		if status, ok := c.status.decided(job); ok {
			job.PodGroup.Status = *status.DeepCopy()
		}
	}
	return snapshot
}

// ownPod copies what scheduling writes to: the pod's fields, and its annotations. The rest is shared and read-only.
func ownPod(pod *v1.Pod) *v1.Pod {
	own := *pod
	own.Annotations = maps.Clone(pod.Annotations)
	return &own
}

// namedNode is the node a pod names in its node selector; empty when it names none.
func namedNode(pod *v1.Pod) string { return pod.Spec.NodeSelector[v1.LabelHostname] }

func fitsNamed(task *api.TaskInfo, node *api.NodeInfo) bool {
	return task.Pod.Status.NominatedNodeName == "" && node.Node.Labels[v1.LabelHostname] == node.Name &&
		task.InitResreq.LessEqual(node.FutureIdle(), api.Zero)
}
