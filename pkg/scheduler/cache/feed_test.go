// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// The functions below pass events of the watch to the books only, without any further action.

func hideQueue(c *Cache, name string) {
	c.books.Lock()
	defer c.books.Unlock()
	c.books.Tables.HideQueue(name)
}

func showPriorityClass(c *Cache, class *schedulingv1.PriorityClass) {
	c.books.Lock()
	defer c.books.Unlock()
	c.books.Tables.Priorities[class.Name] = class
}

func hidePriorityClass(c *Cache, name string) {
	c.books.Lock()
	defer c.books.Unlock()
	delete(c.books.Tables.Priorities, name)
}

func showQuota(c *Cache, quota *v1.ResourceQuota) {
	c.books.Lock()
	defer c.books.Unlock()
	c.books.Tables.ShowQuota(quota)
}

// recordVictim records the pod in the books as evicted.
func recordVictim(c *Cache, pod *v1.Pod) error {
	_, _, err := c.books.Pods.Evict(api.NewTaskInfo(pod))
	return err
}
