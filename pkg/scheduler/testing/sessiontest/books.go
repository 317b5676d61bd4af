// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// UseBooks decides whether, from the next Load on, sessions open on snapshots of package books, as in production. With
// books, a session gets the NodeInfos and JobInfos of the last session again, unless the cluster or the last session
// has changed them. Without books, upstream's cache creates new NodeInfos and JobInfos for each session.
//
// The books contain the objects that Load, AddPod and Show add. They do not see changes that a test makes with Cache, and
// they do not count volumes.
func (c *Cluster) UseBooks(on bool) { c.cache.wantsBooks = on }

// fillBooks creates new books with the content of the cluster, if UseBooks has enabled books.
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
		c.show(pg)
	}
	for _, class := range w.PriorityClasses {
		c.show(class)
	}
	for _, queue := range append([]*v1beta1.Queue{schedulertesting.MakeQueue().Name(schedulertesting.Queue).Obj()}, w.Queues...) {
		c.show(queue)
	}
	c.books.Lock()
	defer c.books.Unlock()
	if w.Shard != nil {
		c.books.InShard.Insert(w.Shard.Nodes...)
	}
}

// Show adds or updates nodes, pods, PodGroups, queues and PriorityClasses in the books, as the watches do in production. Unlike
// Load, it keeps the NodeInfos and JobInfos of all other objects.
func (c *Cluster) Show(objects ...runtime.Object) {
	for _, object := range objects {
		c.cache.show(object)
	}
}

func (c *recordingCache) show(object runtime.Object) {
	switch shown := object.(type) {
	case *v1.Node:
		c.books.Nodes.Show(shown)
	case *v1.Pod:
		c.books.Pods.Show(shown)
	case *v1beta1.PodGroup:
		if err := c.books.Jobs.ShowGroup(shown); err != nil {
			panic(err)
		}
	case *schedulingv1.PriorityClass:
		c.books.Lock()
		defer c.books.Unlock()
		c.books.Tables.Priorities[shown.Name] = shown
	case *v1beta1.Queue:
		queue := &scheduling.Queue{}
		if err := scheme.Scheme.Convert(shown, queue, nil); err != nil {
			panic(err)
		}
		c.books.Lock()
		defer c.books.Unlock()
		c.books.Tables.ShowQueue(queue)
	default:
		panic(fmt.Sprintf("sessiontest: the books do not contain objects of type %T", object))
	}
}

// onBooks is a cache whose sessions open on snapshots of its books.
type onBooks struct{ *recordingCache }

var _ framework.Snapshotter = onBooks{}

// Snapshot returns a snapshot of the books that reuses unchanged nodes and jobs of the last session's snapshot. The
// framework calls it instead of SessionSnapshot if the first plugin of the conf is upstream's. In production this does
// not happen, because the scheduler puts its own plugins before the conf's plugins.
func (c onBooks) Snapshot() *api.ClusterInfo {
	given, _, _ := c.SessionSnapshot()
	return given
}

// SessionSnapshot returns the same snapshot as Snapshot, its nodes in their other forms, and the annotations of pending
// pods.
func (c onBooks) SessionSnapshot() (*api.ClusterInfo, snapshot.NodeForms, map[api.TaskID]map[string]string) {
	c.books.Lock()
	defer c.books.Unlock()
	given, annotations := prepared(c.books.Snapshot(c.HyperNodesInfo))
	return given, c.books.Copies().Forms(given.Nodes), annotations
}

// TrustSession lets the next snapshot reuse nodes and jobs of the last one with fewer checks that the last session has
// left them unchanged.
func (c onBooks) TrustSession(touched snapshot.Touched) { c.books.Copies().Trust(touched) }
