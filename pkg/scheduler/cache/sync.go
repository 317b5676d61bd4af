// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
)

const (
	syncPoll = 5 * time.Millisecond
	// syncPatience is how long the first cycle waits, without any progress, for objects that do not come into the
	// cache. With several schedulers that share a cluster by hash, some belong to others and never do.
	syncPatience = 5 * time.Second
	syncWorkers  = 8
)

// waitForInitialLists returns when every node, pod, PodGroup and queue that the informers listed is in the cache.
// Informers being synced is not enough: nodes go through a queue, and handlers run after the lists are read.
func (c *Cache) waitForInitialLists(ctx context.Context) error {
	if err := c.syncNodes(ctx); err != nil {
		return err
	}
	missing, progress := -1, time.Now()
	return wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) {
		left, example := c.notInCache()
		if left != missing {
			missing, progress = left, time.Now()
		}
		if left == 0 {
			return true, nil
		}
		if time.Since(progress) < syncPatience {
			return false, nil
		}
		logger().Info("Starting although objects are not in the cache; they may belong to another scheduler", "count", left, "example", example)
		return true, nil
	})
}

// syncNodes puts every node of the initial list into the cache itself, instead of waiting for upstream's queue.
func (c *Cache) syncNodes(ctx context.Context) error {
	nodes, err := c.SharedInformerFactory().Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	errs := make([]error, len(nodes))
	workqueue.ParallelizeUntil(ctx, syncWorkers, len(nodes), func(i int) { errs[i] = c.syncNode(nodes[i].Name) })
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("taking node %s into the cache: %w", nodes[i].Name, err)
		}
	}
	return ctx.Err()
}

// syncNode puts the node into the cache. One that was deleted since it was listed is none to wait for: upstream calls it
// an error when the cache did not have it either.
func (c *Cache) syncNode(name string) error {
	err := c.SyncNode(name)
	if _, gone := c.SharedInformerFactory().Core().V1().Nodes().Lister().Get(name); apierrors.IsNotFound(gone) {
		return nil
	}
	return err
}

// notInCache counts the listed objects that are not in the cache, and names one.
func (c *Cache) notInCache() (count int, example string) {
	pods, _ := c.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	groups, _ := c.podGroups.List(labels.Everything())
	queues, _ := c.queues.List(labels.Everything())
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	for _, pod := range pods {
		if !c.hasPod(pod) {
			count, example = count+1, "pod "+pod.Namespace+"/"+pod.Name
		}
	}
	for _, pg := range groups {
		if !c.hasPodGroup(pg.Namespace, pg.Name, pg.ResourceVersion) {
			count, example = count+1, "PodGroup "+pg.Namespace+"/"+pg.Name
		}
	}
	for _, queue := range queues {
		if _, ok := c.Queues[api.QueueID(queue.Name)]; !ok {
			count, example = count+1, "queue "+queue.Name
		}
	}
	return count, example
}

// hasPod is true if the pod is in the cache, or does not belong there. The mutex is held.
func (c *Cache) hasPod(pod *v1.Pod) bool {
	if finished(pod) {
		return true
	}
	if pod.Spec.NodeName != "" {
		node, ok := c.Nodes[pod.Spec.NodeName]
		if !ok {
			return false
		}
		_, ok = node.Tasks[api.PodKey(pod)]
		return ok
	}
	if !c.changes.ours(pod) || pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == "" {
		return true
	}
	job, ok := c.Jobs[gangOf(pod)]
	if !ok {
		return false
	}
	_, ok = job.Tasks[api.TaskID(pod.UID)]
	return ok
}

func (c *Cache) hasPodGroup(namespace, name, version string) bool {
	job, ok := c.Jobs[api.JobID(namespace+"/"+name)]
	return ok && job.PodGroup != nil && !apiwrite.OlderVersion(job.PodGroup.ResourceVersion, version)
}
