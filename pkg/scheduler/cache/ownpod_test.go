// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWatchedPodsAreReadBesideUpstreamsWrites: upstream, told of a change of a pod without a controller, writes into the pod that
// the watch shows already. What reads that pod meanwhile has a copy, which the race detector can tell.
func TestWatchedPodsAreReadBesideUpstreamsWrites(t *testing.T) {
	rebook := func(c *Cache, pod *v1.Pod) {
		c.SchedulerCache.Mutex.Lock()
		defer c.SchedulerCache.Mutex.Unlock()
		c.rebook(pod)
	}
	tests := map[string]struct {
		pod  *schedtest.PodBuilder
		read func(t *testing.T, c *Cache, pod *v1.Pod)
	}{
		"its status is written": {pod(0), func(_ *testing.T, c *Cache, pod *v1.Pod) {
			_ = pod.Status.DeepCopy()
			_ = c.ownWatchedPod(pod)
		}},
		"its task is made anew, and a session has it": {pod(0), func(_ *testing.T, c *Cache, pod *v1.Pod) {
			rebook(c, pod)
			for _, task := range c.Snapshot().Jobs[gang].Tasks {
				_ = ownPod(task.Pod)
			}
		}},
		"its node is registered anew, and a session has it": {
			schedtest.MakePod().Name("p0").Scheduler("other").Node("n").Phase(v1.PodRunning), func(_ *testing.T, c *Cache, pod *v1.Pod) {
				c.SchedulerCache.Mutex.Lock()
				node := c.Nodes["n"]
				if task := node.Tasks[api.PodKey(pod)]; task != nil {
					takeOff(node, task)
				}
				c.takeUp("n", node)
				c.SchedulerCache.Mutex.Unlock()
				for _, task := range c.Snapshot().Nodes["n"].Tasks {
					_ = task.Pod.DeepCopy()
				}
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster()
			w := &world{t: t, cluster: cluster, latest: map[string]runtime.Object{}}
			w.Cache = mustWrap(t, cluster, quiet{}, w.wakened)
			defer w.Abort()
			w.add(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
			w.gangOf(0, 1)
			w.add(tt.pod.Obj())
			for range 100 {
				pod := w.cluster.Put(w.cluster.Pod("p0")).(*v1.Pod)
				old := w.list(pod)
				var both sync.WaitGroup
				both.Go(func() { w.UpdatePod(old, pod) })
				both.Go(func() { tt.read(t, w.Cache, pod) })
				both.Wait()
			}
		})
	}
}
