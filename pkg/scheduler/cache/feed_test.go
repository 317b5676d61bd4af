// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// The functions below pass events of the watch to the books only, without any further action.

func (c *Cache) showGroup(group *v1beta1.PodGroup) { c.changes.showGroup(group) }

func (c *Cache) showQueue(queue *v1beta1.Queue) { c.changes.showQueue(queue) }

func (c *Cache) hideQueue(name string) {
	c.books.Lock()
	defer c.books.Unlock()
	c.books.Tables.HideQueue(name)
}

func (c *Cache) showPriorityClass(class *schedulingv1.PriorityClass) {
	c.books.Lock()
	defer c.books.Unlock()
	c.books.Tables.Priorities[class.Name] = class
}

func (c *Cache) hidePriorityClass(name string) {
	c.books.Lock()
	defer c.books.Unlock()
	delete(c.books.Tables.Priorities, name)
}

func (c *Cache) showQuota(quota *v1.ResourceQuota) {
	c.books.Lock()
	defer c.books.Unlock()
	c.books.Tables.ShowQuota(quota)
}

// victim records the pod in the books as evicted.
func (c *Cache) victim(pod *v1.Pod) error {
	_, _, err := c.books.Pods.Evict(api.NewTaskInfo(pod))
	return err
}
