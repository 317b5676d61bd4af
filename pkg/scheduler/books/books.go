// SPDX-License-Identifier: Apache-2.0

package books

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// Config holds the dependencies of the books. All functions are called with the books' mutex held and must not block.
type Config struct {
	// Pod reports whether the books hold a pod, and Node whether they hold a node. A nil function means that they hold
	// all.
	Pod  func(*v1.Pod) bool
	Node func(*v1.Node) bool
	// Volumes returns how many volumes of each CSI driver the pod attaches. An error means that one of the pod's claims
	// cannot be read yet.
	Volumes func(*v1.Pod) (map[v1.ResourceName]int64, error)
	// BoundIn returns the queue in which the pod was bound, as recorded on the pod; empty if the pod records none.
	BoundIn func(*v1.Pod) string
	// DefaultQueue is the queue of PodGroups that name no queue.
	DefaultQueue string
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// Books is the scheduler's view of the cluster. A caller that reads several values must hold the lock all the time.
type Books struct {
	sync.Mutex
	// Pods is the state machine of tasks. Only Pods adds tasks to Jobs and Nodes, and removes them.
	Pods  *Pods
	Jobs  *Jobs
	Nodes *Nodes
	// Tables are queues, priority classes and quotas. They are stored as the watch shows them.
	Tables Tables
	// InShard are the names of the nodes in this scheduler's shard.
	InShard sets.Set[string]

	copies *snapshot.Copies
}

// New returns empty books.
func New(config Config) *Books {
	if config.Pod == nil {
		config.Pod = func(*v1.Pod) bool { return true }
	}
	if config.Node == nil {
		config.Node = func(*v1.Node) bool { return true }
	}
	if config.Volumes == nil {
		config.Volumes = func(*v1.Pod) (map[v1.ResourceName]int64, error) { return nil, nil }
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.BoundIn == nil {
		config.BoundIn = func(*v1.Pod) string { return "" }
	}
	b := &Books{Tables: newTables(), InShard: sets.Set[string]{}, copies: snapshot.NewCopies()}
	last := new(generations)
	b.Jobs = &Jobs{lock: b, recent: recent[*job]{last: last}, entries: map[api.JobID]*job{}, defaultQueue: config.DefaultQueue}
	b.Nodes = newNodes(b, last, config.Node)
	b.Pods = &Pods{
		lock: b, records: map[api.TaskID]*record{}, jobs: b.Jobs, nodes: b.Nodes,
		admits: config.Pod, volumes: config.Volumes, boundIn: config.BoundIn,
		deleted: map[api.TaskID]*record{}, now: config.Now,
	}
	return b
}

func logger() klog.Logger { return klog.Background().WithName("books") }
