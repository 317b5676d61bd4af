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

// UseBooks decides whether, from the next Load on, sessions open on snapshots of package books, as in production: a
// session gets the copies of the previous one again, unless the cluster or that session has changed them. Upstream's
// cache copies everything for each session.
//
// The books contain the objects of Load and AddPod. They do not see changes through Cache, and count no volumes.
func (c *Cluster) UseBooks(on bool) { c.cache.wantsBooks = on }

// fillBooks adds the objects of the world to new books, if books are enabled.
func (c *recordingCache) fillBooks(w World) {
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

// Snapshot reuses unchanged copies of the last session, even if the session's first plugin is upstream's: the scheduler
// itself puts its own plugins before the conf's.
func (c onBooks) Snapshot() *api.ClusterInfo {
	c.books.Lock()
	defer c.books.Unlock()
	return prepared(c.books.Snapshot(c.HyperNodesInfo))
}

// SessionSnapshot returns the result of Snapshot, and the view of the nodes for Kubernetes' plugins.
func (c onBooks) SessionSnapshot() (*api.ClusterInfo, map[string]fwk.NodeInfo) {
	given := c.Snapshot()
	return given, c.books.Copies().NodeMap()
}

// TrustSession has the next session compare less of the copies.
func (c onBooks) TrustSession() { c.books.Copies().Trust() }
