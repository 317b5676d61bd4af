// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
)

// resync makes tasks anew that upstream's cache could not make well: those of pods whose claims came after them, as each
// claim of a generic ephemeral volume does, and those of evictions that failed. It takes the place of upstream's worker.
//
// That worker reads the pod from the API server, and then makes the books what it read. In between the task may have been
// put into a transaction, bound, or deleted, and is Pending after that: it is bound a second time, or is there for ever.
// No check beside it can tell, afterwards, a task that it made of an old answer from one that is as it should be. The
// worker is started by upstream's Run, with others that are needed, and takes its orders from a queue that no option
// sets. So the queue is exchanged, by reflection, for one that gives that worker nothing, and the tasks are made anew
// here, of what the watch shows and in one critical section; those that are reserved are left to the ledger.
type resync struct {
	cache *Cache
	queue workqueue.TypedRateLimitingInterface[string]
	ended chan struct{}
	// unread are the pods of which a claim could not be read when their tasks were made last; they are made anew when it
	// changes. The cache's mutex guards it.
	unread map[types.UID]bool
}

// withheld is the queue that upstream adds to and gets nothing from.
type withheld struct {
	workqueue.TypedRateLimitingInterface[string]
	ended <-chan struct{}
}

// Get waits for the end of the scheduler.
func (w withheld) Get() (key string, shutdown bool) {
	<-w.ended
	return "", true
}

// newResync takes the queue over. It is called before upstream's cache is started, and panics when that has no such queue,
// as another version of it may.
func newResync(c *Cache) *resync {
	type queue = workqueue.TypedRateLimitingInterface[string]
	field := reflect.ValueOf(c.SchedulerCache).Elem().FieldByName("errTasks")
	if !field.IsValid() || field.Type() != reflect.TypeFor[queue]() {
		panic(fmt.Sprintf("upstream's %T has no field errTasks of type %v: its resync of tasks would undo what is being bound", vccache.SchedulerCache{}, reflect.TypeFor[queue]()))
	}
	place := (*queue)(field.Addr().UnsafePointer())
	r := &resync{cache: c, queue: *place, ended: make(chan struct{}), unread: map[types.UID]bool{}}
	*place = withheld{r.queue, r.ended}
	return r
}

// run works until the context ends.
func (r *resync) run(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		r.queue.ShutDown()
		close(r.ended)
	})
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		r.cache.resyncTask(key)
		r.queue.Done(key)
	}
}

// resyncTask makes the task of upstream's key, which is the job's, a slash and the task's, anew. A reserved one is made anew at
// the end of its transaction. Of a pod that is gone, or about to be, or that names another PodGroup now, the watch tells.
func (c *Cache) resyncTask(key string) {
	c.SchedulerCache.Mutex.Lock()
	defer c.SchedulerCache.Mutex.Unlock()
	task := c.taskOfKey(key)
	if task == nil {
		return
	}
	if r := c.reserved[api.PodKey(task.Pod)]; r != nil && r.uid == task.UID && task.Pod.Spec.NodeName == "" {
		return
	}
	if pod := c.watched(task.Pod); pod != nil && gangOf(pod) == task.Job {
		c.rebook(pod)
	}
}

// taskOfKey is the task of upstream's key; nil when it is not in its job any more.
func (c *Cache) taskOfKey(key string) *api.TaskInfo {
	at := strings.LastIndex(key, "/")
	if at < 0 {
		return nil
	}
	job := c.Jobs[api.JobID(key[:at])]
	if job == nil {
		return nil
	}
	return job.Tasks[api.TaskID(key[at+1:])]
}
