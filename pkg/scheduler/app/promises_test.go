// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// groupAsking is a PodGroup that asks for the resources.
func groupAsking(name, queue string, phase v1beta1.PodGroupPhase, needs v1.ResourceList) *v1beta1.PodGroup {
	pg := schedtest.MakePodGroup().Name(name).Queue(queue).Phase(phase).Obj()
	pg.Spec.MinResources = &needs
	return pg
}

// limitedQueue is a queue that may have no more than the capability.
func limitedQueue(name string, capability v1.ResourceList) *v1beta1.Queue {
	q := schedtest.MakeQueue().Name(name).Obj()
	q.Spec.Capability = capability
	return q
}

// letIn counts the waiting gangs w0, w1, ... that were let in, as the next session sees them.
func letIn(s *scheduler) (n int) {
	jobs := s.cache.Snapshot().Jobs
	for i := 0; ; i++ {
		job := jobs[api.JobID(fmt.Sprintf("ns/w%d", i))]
		if job == nil {
			return n
		}
		if job.PodGroup.Status.Phase == scheduling.PodGroupInqueue {
			n++
		}
	}
}

func confWith(plugin string) string {
	return fmt.Sprintf("actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: %s}]\n", plugin)
}

// TestOnePromiseIsMadeOfTheSameRoom: a gang that was let in rightly, or fills its queue, may ask for more than the cluster has: one
// such was forgotten, so that all that came after it were let in too.
func TestOnePromiseIsMadeOfTheSameRoom(t *testing.T) {
	four := schedtest.Resources{"cpu": "4"}
	fills := schedtest.MakePod().Name("runs").Group("runs").Req(four).Node("n").Phase(v1.PodRunning).Obj()
	kinds := func(n int) v1.ResourceList {
		list := quantities("cpu", "4")
		for i := range n {
			list[v1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = resource.MustParse("0")
		}
		return list
	}
	tests := map[string]struct {
		plugins []string
		queue   v1.ResourceList
		objects []runtime.Object
		// each of five asks for it, and so many are to be let in.
		asks v1.ResourceList
		want int
	}{
		"overcommit lets in more than there is": {plugins: []string{"overcommit"}, asks: quantities("cpu", "9"), want: 1},
		"a gang that asks for more than is left of the cluster fills the queue": {
			plugins: []string{"proportion", "capacity"}, queue: quantities("cpu", "4"),
			objects: []runtime.Object{groupAsking("runs", "q", v1beta1.PodGroupRunning, quantities("cpu", "9")), fills}, asks: quantities("cpu", "4"),
		},
		"a gang that asks for what nobody can have fills the queue": {
			plugins: []string{"proportion", "capacity"}, queue: quantities("cpu", "4"),
			objects: []runtime.Object{groupAsking("runs", "q", v1beta1.PodGroupRunning, quantities("cpu", "1e9")), fills}, asks: quantities("cpu", "4"),
		},
		"a gang that is set aside as too large fills the queue": {
			plugins: []string{"proportion", "capacity"}, queue: quantities("cpu", "4"),
			objects: []runtime.Object{groupAsking("runs", "q", v1beta1.PodGroupRunning, kinds(200)), fills}, asks: quantities("cpu", "4"),
		},
	}
	for name, tt := range tests {
		for _, plugin := range tt.plugins {
			t.Run(name+", plugin "+plugin, func(t *testing.T) {
				cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
					limitedQueue("q", tt.queue), schedtest.MakeNode().Name("n").Obj())
				for _, object := range tt.objects {
					cluster.Put(object)
				}
				for i := range 5 {
					cluster.Put(groupAsking(fmt.Sprint("w", i), "q", v1beta1.PodGroupPending, tt.asks))
				}
				s := newTestScheduler(t, cluster, loaded(t, confWith(plugin)))
				for range 4 {
					s.cycle()
				}
				if got := letIn(s); got != tt.want {
					t.Errorf("%d of 5 are let in, there is room for %d", got, tt.want)
				}
			})
		}
	}
}

// TestAPromiseOutlastsANode: a gang of the whole cluster waits for its pods while a node, which has all devices, is away for a
// moment. Small gangs were let in then, for good.
func TestAPromiseOutlastsANode(t *testing.T) {
	half := schedtest.Resources{"cpu": "4", "pods": "110"}
	away := schedtest.MakeNode().Name("m").Capacity(schedtest.Resources{"cpu": "4", "nvidia.com/gpu": "8", "pods": "110"}).Obj()
	whole := v1.ResourceList{"cpu": resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("8")}
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
		schedtest.MakeNode().Name("n").Capacity(half).Obj(), away)
	gang := groupAsking("whole", schedtest.Queue, v1beta1.PodGroupInqueue, whole)
	gang.Spec.MinMember = 3 // of which one does not exist yet
	cluster.Put(gang)
	for _, pod := range []string{"whole-0", "whole-1"} {
		cluster.Put(schedtest.MakePod().Name(pod).Group("whole").Req(schedtest.Resources{"cpu": "4", "nvidia.com/gpu": "4"}).Obj())
	}
	for i := range 4 {
		cluster.Put(groupAsking(fmt.Sprint("w", i), schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "2")))
	}
	s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
	nodes := func(n int) {
		t.Helper()
		eventually(t, func() bool { return len(s.cache.Snapshot().Nodes) == n })
		for range 3 {
			s.cycle()
		}
	}
	var got []int
	nodes(2)
	got = append(got, letIn(s))
	cluster.Remove(away)
	nodes(1)
	got = append(got, letIn(s))
	cluster.Put(away.DeepCopy())
	nodes(2)
	if diff := cmp.Diff([]int{0, 0, 0}, append(got, letIn(s))); diff != "" {
		t.Errorf("small gangs let in before, meanwhile and after (-want +got):\n%s", diff)
	}
}

// TestOnlyPodsBackAPromise: a tenant writes the phase of its PodGroup and its minResources. One without pods kept all others out, for ever.
func TestOnlyPodsBackAPromise(t *testing.T) {
	waiting := func(n int, cpu string) (objects []runtime.Object) {
		for i := range n {
			objects = append(objects, schedtest.MakePod().Name(fmt.Sprint("p", i)).Group("raised").Req(schedtest.Resources{"cpu": cpu}).Obj())
		}
		return objects
	}
	tests := map[string]struct {
		phase  v1beta1.PodGroupPhase
		raised string
		pods   []runtime.Object
		want   int
	}{
		"no pods, as much as the cluster has":         {phase: v1beta1.PodGroupInqueue, raised: "8", want: 1},
		"no pods, ten times as much":                  {phase: v1beta1.PodGroupInqueue, raised: "80", want: 1},
		"no pods, and a phase that says it runs":      {phase: v1beta1.PodGroupRunning, raised: "80", want: 1},
		"pods ask for less":                           {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waiting(2, "2"), want: 1},
		"pods ask for all that there is":              {phase: v1beta1.PodGroupInqueue, raised: "8", pods: waiting(2, "4")},
		"pods ask for more than minResources":         {phase: v1beta1.PodGroupInqueue, raised: "4", pods: waiting(4, "4"), want: 1},
		"pods ask for ten times what the cluster has": {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waiting(10, "8")},
		"pods ask for more than that":                 {phase: v1beta1.PodGroupInqueue, raised: "88", pods: waiting(11, "8"), want: 1},
		"a pod asks for more than any node has":       {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waiting(1, "80"), want: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			raised := groupAsking("raised", schedtest.Queue, tt.phase, quantities("cpu", tt.raised))
			if raised.Spec.MinMember = 100; tt.phase == v1beta1.PodGroupRunning {
				raised.Spec.MinMember = 0 // else upstream keeps nothing for what runs
			}
			cluster := schedtest.NewCluster(append(tt.pods, schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj(), raised, groupAsking("w0", schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "2")))...)
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
			for range 3 {
				s.cycle()
			}
			if got := letIn(s); got != tt.want {
				t.Errorf("%d of 1 are let in beside it, want %d", got, tt.want)
			}
		})
	}
}

// TestPromisesOfAQueueStayWithinItsCapability: gangs that were let in small are raised, by any tenant of a queue that may
// have a quarter of the cluster. What they asked for in all was kept for them from other queues.
func TestPromisesOfAQueueStayWithinItsCapability(t *testing.T) {
	tests := map[string]struct {
		capability v1.ResourceList
		raised     []string
		want       int
	}{
		"one raised beyond the capability":            {capability: quantities("cpu", "4"), raised: []string{"80"}, want: 2},
		"several raised beyond it together":           {capability: quantities("cpu", "4"), raised: []string{"4", "4", "4", "4", "4"}, want: 2},
		"promises that fill the capability":           {capability: quantities("cpu", "4"), raised: []string{"2", "2"}, want: 2},
		"promises within the capability are kept":     {capability: quantities("cpu", "16"), raised: []string{"8", "8"}, want: 1},
		"a queue with a capability of something else": {capability: quantities("example.com/x", "1"), raised: []string{"80"}},
		"a queue without a capability":                {raised: []string{"80"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sixteen := schedtest.Resources{"cpu": "16", "pods": "110"}
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				limitedQueue("q", tt.capability), schedtest.MakeNode().Name("n").Capacity(sixteen).Obj())
			for i, raised := range tt.raised {
				name := fmt.Sprint("raised", i)
				gang := groupAsking(name, "q", v1beta1.PodGroupInqueue, quantities("cpu", raised))
				gang.Spec.MinMember = 100 // of which few exist yet
				cluster.Put(gang)
				for j := range 5 {
					cluster.Put(schedtest.MakePod().Name(fmt.Sprint(name, "-", j)).Group(name).Req(schedtest.Resources{"cpu": "16"}).Obj())
				}
			}
			for i := range 2 {
				cluster.Put(groupAsking(fmt.Sprint("w", i), schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", []string{"3", "7"}[i])))
			}
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
			for range 3 {
				s.cycle()
			}
			if got := letIn(s); got != tt.want {
				t.Errorf("%d of 2 gangs of another queue are let in, want %d", got, tt.want)
			}
		})
	}
}

// TestNothingIsPromisedToPodsOnNodesThatDoNotExist: a pod may be created with any node's name. Its gang counted as one that runs, and what
// it asked for was kept for it, so that no other gang was let in.
func TestNothingIsPromisedToPodsOnNodesThatDoNotExist(t *testing.T) {
	for node, want := range map[string]int{"none": 1, "n": 0} {
		t.Run(node, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeNode().Name("n").Obj(),
				groupAsking("lost", schedtest.Queue, v1beta1.PodGroupRunning, quantities("cpu", "70")),
				schedtest.MakePod().Name("lost").Group("lost").Req(schedtest.Resources{"cpu": "8"}).Node(node).Obj(),
				groupAsking("w0", schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "2")))
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
			for range 3 {
				s.cycle()
			}
			if got := letIn(s); got != want {
				t.Errorf("%d of 1 are let in, want %d", got, want)
			}
		})
	}
}
