// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// podsByNode is the index of the watch's pods by the node they are on, podsByClaim by the claims of their volumes, and podsByDeviceClaim by
// those of their devices.
const (
	podsByNode        = "volcano-prebind/node"
	podsByClaim       = "volcano-prebind/claim"
	podsByDeviceClaim = "volcano-prebind/device-claim"
)

func indexPods(pods cache.SharedIndexInformer, schedulerNames []string) {
	err := pods.AddIndexers(cache.Indexers{
		podsByNode: nodeOf, podsByClaim: claimsOf, podsByDeviceClaim: deviceClaimsOf, framework.ForeignPods: foreignTo(schedulerNames),
	})
	if err != nil {
		logger().Error(err, "Indexing pods by node and claim") // they are already
	}
}

func nodeOf(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// foreignTo indexes pods that wait for other schedulers than these, by the PodGroup that they name.
func foreignTo(schedulerNames []string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		pod, ok := object.(*v1.Pod)
		if !ok || pod.Spec.NodeName != "" || slices.Contains(schedulerNames, pod.Spec.SchedulerName) || finished(pod) || pod.DeletionTimestamp != nil {
			return nil, nil
		}
		if group := pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]; group != "" {
			return []string{pod.Namespace + "/" + group}, nil
		}
		return nil, nil
	}
}

// mendBooks sets right what upstream's cache makes of nodes that are registered anew and of tasks that are being bound. It
// looks at each node's address and each reservation, and works on those that are not as they were left.
// The cache's mutex is held.
func (c *Cache) mendBooks() {
	for name, node := range c.Nodes {
		if c.complete[name] != node && c.takeUp(name, node) {
			c.complete[name] = node
		}
	}
	if len(c.complete) > len(c.Nodes) {
		maps.DeleteFunc(c.complete, func(name string, _ *api.NodeInfo) bool { return c.Nodes[name] == nil })
	}
	for _, r := range c.reserved {
		c.mend(r)
	}
	c.sums.Nodes(c.Nodes)
}

// takeUp puts the pods that the watch shows on the node on it. Upstream forgets who is on a node when it is deleted, and
// when it is registered anew takes a pod for there only once that pod changes. It is to be called again while the node has a
// pod of the name of one that is missing: upstream is about to hear of its end, or its transaction is.
func (c *Cache) takeUp(name string, node *api.NodeInfo) (all bool) {
	all = true
	for _, pod := range c.PodsOn(name) {
		if on := node.Tasks[api.PodKey(pod)]; on != nil {
			all = all && on.UID == api.TaskID(pod.UID)
			continue
		}
		task := c.taskOn(name, pod)
		if task == nil {
			continue
		}
		if err := node.AddTask(task); err != nil {
			logger().Error(err, "Booking a pod on its node", "pod", pod.Namespace+"/"+pod.Name, "node", name)
		}
	}
	return all
}

// PodsOn returns the pods on the node that have not ended, as the watch shows them.
func (c *Cache) PodsOn(node string) []*v1.Pod {
	shown, err := c.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().ByIndex(podsByNode, node)
	if err != nil {
		logger().Error(err, "Listing the pods on a node", "node", node)
	}
	pods := make([]*v1.Pod, 0, len(shown))
	for _, object := range shown {
		if pod, ok := object.(*v1.Pod); ok && !finished(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// taskOn is the task of a pod on the node: its job's, or a new one of a pod without a PodGroup. It is nil when the job has
// the pod not there, or not at all: then upstream is about to hear of it.
func (c *Cache) taskOn(node string, pod *v1.Pod) *api.TaskInfo {
	if pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == "" {
		task, err := c.NewTaskInfo(ownPod(pod))
		if err != nil {
			logger().Error(err, "Counting a pod's volumes", "pod", pod.Namespace+"/"+pod.Name)
		}
		return task
	}
	job := c.Jobs[gangOf(pod)]
	if job == nil {
		return nil
	}
	task := job.Tasks[api.TaskID(pod.UID)]
	if task == nil || task.NodeName != node || api.CompletedStatus(task.Status) {
		return nil
	}
	return task
}

// watched is the pod as the watch shows it now; nil when it is gone, or another one has its name. It may be ahead of what
// upstream's cache has been told.
func (c *Cache) watched(pod *v1.Pod) *v1.Pod {
	latest, err := c.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID {
		return nil
	}
	return latest
}

// rebook makes the task of the pod anew, as upstream's cache does when the watch tells of it. Where that cache drops a task of
// which something fails, here it has its place all the same, and what failed is tried again: a claim that cannot be read by
// resync, and the node by the next look at all its pods. The cache's mutex is held.
func (c *Cache) rebook(pod *v1.Pod) {
	task, err := c.NewTaskInfo(ownPod(pod))
	if job := c.Jobs[task.Job]; job != nil && job.Tasks[task.UID] != nil {
		c.unbook(job, job.Tasks[task.UID])
	}
	if task.NodeName != "" && !api.CompletedStatus(task.Status) {
		c.putOn(task)
	}
	if task.Job != "" {
		if c.Jobs[task.Job] == nil {
			c.Jobs[task.Job] = api.NewJobInfo(task.Job)
		}
		c.Jobs[task.Job].AddTaskInfo(task)
	}
	delete(c.resync.unread, pod.UID)
	if err != nil && c.watched(pod) != nil {
		logger().V(3).Info("A pod's claims are read later", "pod", task.Namespace+"/"+task.Name, "reason", err.Error())
		c.resync.unread[pod.UID] = true
	}
}

// putOn puts the task on its node, which may not have been registered yet.
func (c *Cache) putOn(task *api.TaskInfo) {
	node := c.Nodes[task.NodeName]
	if node == nil {
		node = api.NewNodeInfo(nil)
		node.Name = task.NodeName
		c.Nodes[task.NodeName] = node
	}
	if err := node.AddTask(task); err != nil {
		logger().V(3).Info("A pod is booked on its node later", "pod", task.Namespace+"/"+task.Name, "node", node.Name, "reason", err.Error())
		delete(c.complete, node.Name)
	}
}

// unbook drops a task of the cache from its job and its node.
func (c *Cache) unbook(job *api.JobInfo, task *api.TaskInfo) {
	if err := job.DeleteTaskInfo(task); err != nil {
		logger().Error(err, "Taking a task out of its job", "pod", task.Namespace+"/"+task.Name)
	}
	if node := c.Nodes[task.NodeName]; node != nil {
		if on := node.Tasks[api.PodKey(task.Pod)]; on != nil && on.UID == task.UID {
			takeOff(node, on)
		}
	}
}
