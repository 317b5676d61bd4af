// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRegressionStartupRace covers upstream's defect startup-race: in upstream, the first cycle sees only a part of the
// nodes, because they reach the cache through a queue, and the start does not wait for it. In this cache all listed
// objects are in the books when Start returns.
func TestRegressionStartupRace(t *testing.T) {
	const nodes, gangs = 1000, 100
	objects := []runtime.Object{schedtest.MakeQueue().Name(schedtest.Queue).Obj()}
	for i := range nodes {
		objects = append(objects, schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Obj())
	}
	for i := range gangs {
		name := fmt.Sprintf("g%d", i)
		objects = append(objects, schedtest.MakePodGroup().Name(name).MinMember(1).Obj(), schedtest.MakePod().Name(name).Group(name).Obj())
	}
	w := startLive(t, schedtest.NewCluster(objects...), quiet{})
	first := w.cache.Snapshot()
	if got := len(first.Nodes); got != nodes {
		t.Errorf("the first session sees %d of %d nodes", got, nodes)
	}
	tasks := 0
	for _, job := range first.Jobs {
		tasks += len(job.Tasks)
	}
	if len(first.Jobs) != gangs || tasks != gangs {
		t.Errorf("the first session sees %d gangs with %d pods, want %d with one each", len(first.Jobs), tasks, gangs)
	}
}

// TestTheStartWaitsForWhatPluginsLookUp checks that the start waits for objects that plugins read. A first session
// without the device claims would assign their devices again, and one without disruption budgets would evict pods that
// a budget protects.
func TestTheStartWaitsForWhatPluginsLookUp(t *testing.T) {
	for _, kind := range []string{"resourceclaims", "poddisruptionbudgets", "namespaces", "volumeattachments"} {
		t.Run(kind, func(t *testing.T) {
			cluster := schedtest.NewCluster()
			var lists atomic.Bool
			cluster.Kube.PrependReactor("list", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
				return !lists.Load(), nil, errBroken
			})
			c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- c.Start(ctx, ctx) }()
			eventually(t, "pods are handed over", func() bool {
				return len(c.NotSynced()) == 1 && watches(c, c.sources.kube.Core().V1().Pods().Informer())
			})
			select {
			case err := <-done:
				t.Fatalf("the start has ended before %s are listed, with error %v", kind, err)
			case <-time.After(100 * syncPoll):
			}
			lists.Store(true)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// watches reports whether the informer has a handler.
func watches(c *Cache, informer cache.SharedIndexInformer) bool {
	c.handlers.mu.Lock()
	defer c.handlers.mu.Unlock()
	return c.handlers.watched[informer]
}
