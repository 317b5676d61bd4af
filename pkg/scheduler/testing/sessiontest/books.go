// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// UseBooks decides whether sessions open on snapshots of package books from the next Load on, as in production: a session is given the copies of
// the one before again, where neither the world nor that session has changed them. Upstream's cache makes all of them again for each session.
//
// The books see what Load and AddPod show. They do not see changes through Cache, and count no volumes.
func (c *Cluster) UseBooks(on bool) { c.cache.wantsBooks = on }

// fillBooks shows the world to new books, if they are wanted.
func (c *recordingCache) fillBooks(w ClusterSpec) {
	c.books = nil
	if !c.wantsBooks {
		return
	}
	c.books = books.New(books.Config{DefaultQueue: schedulertesting.Queue})
	for _, node := range w.Nodes {
		c.books.Nodes.Show(node)
	}
	for _, pg := range w.PodGroups {
		if err := c.books.Jobs.ShowGroup(pg); err != nil {
			panic(err)
		}
	}
	c.books.Lock()
	defer c.books.Unlock()
	for _, class := range w.PriorityClasses {
		c.books.Tables.Priorities[class.Name] = class
	}
	for _, queue := range append([]*v1beta1.Queue{schedulertesting.MakeQueue().Name(schedulertesting.Queue).Obj()}, w.Queues...) {
		shown := &scheduling.Queue{}
		if err := scheme.Scheme.Convert(queue, shown, nil); err != nil {
			panic(err)
		}
		c.books.Tables.ShowQueue(shown)
	}
	if w.Shard != nil {
		c.books.InShard.Insert(w.Shard.Nodes...)
	}
}

// onBooks is a cache whose sessions open on its books.
type onBooks struct{ *recordingCache }

var _ framework.Snapshotter = onBooks{}

// Snapshot reuses the copies of the last session that have not changed, also for a session whose first plugin is upstream's: the
// scheduler itself puts its own plugins before the conf's.
func (c onBooks) Snapshot() *api.ClusterInfo {
	c.books.Lock()
	defer c.books.Unlock()
	return prepared(c.books.Snapshot(c.HyperNodesInfo))
}

// SessionSnapshot returns the same, and what Kubernetes' plugins see of the nodes.
func (c onBooks) SessionSnapshot() (*api.ClusterInfo, map[string]fwk.NodeInfo) {
	given := c.Snapshot()
	return given, c.books.Copies().NodeMap()
}

// TrustSession has the next session compare less of the copies.
func (c onBooks) TrustSession() { c.books.Copies().Trust() }
