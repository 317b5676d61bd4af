// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// syncPoll is how often it is looked whether initial lists are in.
const syncPoll = 5 * time.Millisecond

// awaitInitialLists returns when everything that the informers listed at first is in the books, and what plugins only look up, such as disruption
// budgets and claims for devices, has been listed; or when the context ends.
func (c *Cache) awaitInitialLists(ctx context.Context) error {
	c.WaitForCacheSync(ctx.Done())
	return wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return c.sources.allHanded(), nil })
}

// Waiting reports whether a task or a PodGroup waits, also one that sessions leave out, such as the tasks of a PodGroup that is not in the
// cache.
func (c *Cache) Waiting() bool {
	c.books.Lock()
	defer c.books.Unlock()
	for _, job := range c.books.Jobs.All() {
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
