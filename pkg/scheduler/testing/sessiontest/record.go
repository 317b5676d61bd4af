// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Bind is a pod that a session has handed over to be bound.
type Bind struct {
	Task *api.TaskInfo
	Node string
	// GangGroup describes the gangs that are bound together with the pod's gang. It is nil if the pod's gang is bound
	// alone and has no conditions beside its minimum.
	GangGroup *binding.GangGroup
	// Decided are the annotations that the session's plugins set on the pod.
	Decided map[string]string
	// Steps is the pod's pre-bind chain.
	Steps []binding.Step
}

// recordingCache is upstream's cache, except that it only records binds and evictions.
type recordingCache struct {
	*vccache.SchedulerCache
	sums accounting.NodeCapacityOverride
	// pods are the pods of the ClusterSpec that was loaded last.
	pods []*v1.Pod
	// books are the books that sessions open on; nil if UseBooks has not enabled them.
	books      *books.Books
	wantsBooks bool

	mu     sync.Mutex
	binds  map[string]Bind
	evicts []string
	// protected are the evicted pods about which the API server would be asked.
	protected []string
}

var _ framework.Cache = (*recordingCache)(nil)

func (c *recordingCache) AddToTransaction(bindCtx *vccache.BindContext, gangGroup *binding.GangGroup, decided map[string]string, steps []binding.Step) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	task := bindCtx.TaskInfo
	c.binds[key(task)] = Bind{Task: task, Node: task.NodeName, GangGroup: gangGroup, Decided: decided, Steps: steps}
	return nil
}

func (c *recordingCache) SealTransactions() {}

func (c *recordingCache) ReleaseIncomplete() map[api.JobID][]api.TaskID { return nil }

// Snapshot returns upstream's snapshot with the changes that this project's cache makes. Each node has its own copy of
// device state, and the resources that a plugin counts for the node. Each pending task has a copy of its pod. Each job
// needs the fewest members that satisfy its minimum.
func (c *recordingCache) Snapshot() *api.ClusterInfo {
	c.Mutex.Lock()
	c.sums.Uncounted()
	for _, node := range c.Nodes {
		c.sums.Node(node)
	}
	c.Mutex.Unlock()
	snapshot, _ := prepared(c.SchedulerCache.Snapshot())
	return snapshot
}

// prepared makes the changes to nodes, jobs and pending tasks of the snapshot that this project's cache makes. It
// returns the same snapshot, and the annotations that the copied pods had.
func prepared(snapshot *api.ClusterInfo) (*api.ClusterInfo, map[api.TaskID]map[string]string) {
	annotations := map[api.TaskID]map[string]string{}
	devices.Own(snapshot.Nodes)
	for _, job := range snapshot.Jobs {
		binding.ApplyMinimum(job)
		for _, task := range job.TaskStatusIndex[api.Pending] {
			annotations[task.UID] = task.Pod.Annotations
			own := *task.Pod
			own.Annotations = maps.Clone(own.Annotations)
			task.Pod = &own
		}
	}
	return snapshot, annotations
}

func (c *recordingCache) Evict(task *api.TaskInfo, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evicts = append(c.evicts, key(task))
	return nil
}

func (c *recordingCache) EvictTogether(all []framework.Eviction) error {
	for _, eviction := range all {
		if err := c.Evict(eviction.Task, eviction.Reason); err != nil {
			return err
		}
		if eviction.Protected {
			c.mu.Lock()
			c.protected = append(c.protected, key(eviction.Task))
			c.mu.Unlock()
		}
	}
	return nil
}

func (c *recordingCache) UpdateJobStatus(job *api.JobInfo, _, _, _ bool) (*api.JobInfo, error) {
	return job, nil
}

func (c *recordingCache) UpdateQueueStatus(*api.QueueInfo) error { return nil }

func (c *recordingCache) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.binds, c.evicts, c.protected = map[string]Bind{}, nil, nil
}

func (c *recordingCache) bound() map[string]Bind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.binds)
}

func (c *recordingCache) evicted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.evicts...)
}

func (c *recordingCache) protectedPods() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.protected)
}
