// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
)

// Lagging is true if a change the loop was woken for is not in the cache yet, so that a cycle now would miss it. A late
// one does not count: cycles go on without it.
func (c *Cache) Lagging() bool {
	c.changes.mu.Lock()
	defer c.changes.mu.Unlock()
	if len(c.changes.fresh) == 0 {
		return false
	}
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	for what, version := range c.changes.fresh {
		if !c.took(what, version) {
			return true
		}
		delete(c.changes.fresh, what)
	}
	return false
}

// SetLate makes the changes that are not in the cache yet late.
func (c *Cache) SetLate() {
	c.changes.mu.Lock()
	defer c.changes.mu.Unlock()
	maps.Copy(c.changes.late, c.changes.fresh)
	clear(c.changes.fresh)
}

// LateArrived is true if late changes have come into the cache since it was last asked, so that a cycle is due, and
// whether others are still to come.
func (c *Cache) LateArrived() (some, more bool) {
	c.changes.mu.Lock()
	defer c.changes.mu.Unlock()
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	for what, version := range c.changes.late {
		if c.took(what, version) {
			delete(c.changes.late, what)
			some = true
		}
	}
	return some, len(c.changes.late) > 0
}

// took is true if the change is in the cache, or never will be. The mutex is held.
func (c *Cache) took(what change, version string) bool {
	switch what.kind {
	case "node":
		node, ok := c.Nodes[what.name]
		if !ok && c.someNodes {
			return true // one that the selector leaves out never comes
		}
		return ok && node.Node != nil && !apiwrite.OlderVersion(node.Node.ResourceVersion, version)
	case "podgroup":
		return c.hasPodGroup(what.namespace, what.name, version)
	case "queue":
		queue, ok := c.Queues[api.QueueID(what.name)]
		return ok && !apiwrite.OlderVersion(queue.Queue.ResourceVersion, version)
	default:
		pod, err := c.SharedInformerFactory().Core().V1().Pods().Lister().Pods(what.namespace).Get(what.name)
		return err != nil || pod.Spec.NodeName != "" || c.hasPod(pod)
	}
}

// Waiting is true if a task or a PodGroup waits, also one that sessions leave out, such as the tasks of a PodGroup
// that is not in the cache.
func (c *Cache) Waiting() bool {
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	for _, job := range c.Jobs {
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
