// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// groupAsking returns a PodGroup with these minResources.
func groupAsking(name, queue string, phase v1beta1.PodGroupPhase, needs v1.ResourceList) *v1beta1.PodGroup {
	pg := schedtest.MakePodGroup().Name(name).Queue(queue).Phase(phase).Obj()
	pg.Spec.MinResources = &needs
	return pg
}

// othersAsking returns a Pending PodGroup of namespace others with these minResources.
func othersAsking(name, queue string, needs v1.ResourceList) *v1beta1.PodGroup {
	pg := groupAsking(name, queue, v1beta1.PodGroupPending, needs)
	pg.Namespace = "others"
	return pg
}

// limitedQueue returns a queue with this capability.
func limitedQueue(name string, capability v1.ResourceList) *v1beta1.Queue {
	q := schedtest.MakeQueue().Name(name).Obj()
	q.Spec.Capability = capability
	return q
}

// admittedGangs counts the admitted gangs among w0, w1, ... in namespaces ns and others, as the next session sees
// them.
func admittedGangs(s *scheduler) (n int) {
	jobs := s.cache.Snapshot().Jobs
	for i := 0; ; i++ {
		job := jobs[api.JobID(fmt.Sprintf("ns/w%d", i))]
		if job == nil {
			job = jobs[api.JobID(fmt.Sprintf("others/w%d", i))]
		}
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

// TestOnePromiseIsMadeOfTheSameRoom checks that the same resources are promised to one gang only. An admitted gang,
// or a gang that fills its queue, may request more than the cluster has. Such a gang used to be ignored, so all gangs
// after it were admitted too.
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
		// asks is the request of each of five gangs, and want is the number of gangs to be admitted.
		asks v1.ResourceList
		want int
	}{
		"overcommit lets in more than there is": {plugins: []string{"overcommit"}, asks: quantities("cpu", "9"), want: 1},
		"a gang that asks for more than is left of the cluster fills the queue": {
			plugins: []string{"proportion", "capacity"}, queue: quantities("cpu", "4"),
			objects: []runtime.Object{groupAsking("runs", "q", v1beta1.PodGroupRunning, quantities("cpu", "9")), fills}, asks: quantities("cpu", "4"),
		},
		"an infeasible gang fills the queue": {
			plugins: []string{"proportion", "capacity"}, queue: quantities("cpu", "4"),
			objects: []runtime.Object{groupAsking("runs", "q", v1beta1.PodGroupRunning, quantities("cpu", "1e9")), fills}, asks: quantities("cpu", "4"),
		},
		"a gang that is quarantined as too large fills the queue": {
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
				if got := admittedGangs(s); got != tt.want {
					t.Errorf("%d of 5 are admitted, there is room for %d", got, tt.want)
				}
			})
		}
	}
}

// TestAPromiseOutlastsANode checks that the resources promised to an admitted gang outlast the loss of a node. A gang
// that requests the whole cluster waits for its pods while the node with all devices is deleted for a moment. Small
// gangs used to be admitted at that time and stayed admitted.
func TestAPromiseOutlastsANode(t *testing.T) {
	half := schedtest.Resources{"cpu": "4", "pods": "110"}
	away := schedtest.MakeNode().Name("m").Capacity(schedtest.Resources{"cpu": "4", "nvidia.com/gpu": "8", "pods": "110"}).Obj()
	whole := v1.ResourceList{"cpu": resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("8")}
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
		schedtest.MakeNode().Name("n").Capacity(half).Obj(), away)
	gang := groupAsking("whole", schedtest.Queue, v1beta1.PodGroupPending, whole)
	gang.Spec.MinMember = 3 // One of them does not exist yet.
	cluster.Put(gang)
	for _, pod := range []string{"whole-0", "whole-1"} {
		cluster.Put(schedtest.MakePod().Name(pod).Group("whole").Req(schedtest.Resources{"cpu": "4", "nvidia.com/gpu": "4"}).Obj())
	}
	s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
	untilAdmitted(t, cluster, s, "whole")
	for i := range 4 {
		cluster.Put(groupAsking(fmt.Sprint("w", i), schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "2")))
	}
	eventually(t, func() bool { return len(s.cache.Snapshot().Jobs) == 5 })
	nodes := func(n int) {
		t.Helper()
		eventually(t, func() bool { return len(s.cache.Snapshot().Nodes) == n })
		for range 3 {
			s.cycle()
		}
	}
	var got []int
	nodes(2)
	got = append(got, admittedGangs(s))
	cluster.Remove(away)
	nodes(1)
	got = append(got, admittedGangs(s))
	cluster.Put(away.DeepCopy())
	nodes(2)
	if diff := cmp.Diff([]int{0, 0, 0}, append(got, admittedGangs(s))); diff != "" {
		t.Errorf("small gangs admitted before, during and after the loss (-want +got):\n%s", diff)
	}
}

// untilAdmitted runs cycles until the gang is admitted.
func untilAdmitted(t *testing.T, cluster *schedtest.Cluster, s *scheduler, gang string) {
	t.Helper()
	eventually(t, func() bool { s.cycle(); return cluster.PodGroup(gang).Status.Phase == v1beta1.PodGroupInqueue })
}

// waitingPods returns n pods of the gang. change may change them.
func waitingPods(gang string, n int, cpu string, change func(*schedtest.PodBuilder)) (objects []runtime.Object) {
	for i := range n {
		pod := schedtest.MakePod().Name(fmt.Sprint(gang, "-", i)).Group(gang).Req(schedtest.Resources{"cpu": cpu})
		if change != nil {
			change(pod)
		}
		objects = append(objects, pod.Obj())
	}
	return objects
}

// TestAForgedPhaseReservesNothing checks that a forged phase reserves nothing. A tenant writes the phase and the
// minResources of its PodGroup, and creates pods. A gang of another namespace that requests the whole node is still
// admitted.
func TestAForgedPhaseReservesNothing(t *testing.T) {
	onNoNode := func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", "missing") }
	onSmallNode := func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", "small") }
	tests := map[string]struct {
		phase  v1beta1.PodGroupPhase
		raised string
		pods   []runtime.Object
	}{
		"no pods, as much as the cluster has":         {phase: v1beta1.PodGroupInqueue, raised: "9"},
		"no pods, ten times as much":                  {phase: v1beta1.PodGroupInqueue, raised: "90"},
		"no pods, and a phase that says it runs":      {phase: v1beta1.PodGroupRunning, raised: "90"},
		"pods ask for less":                           {phase: v1beta1.PodGroupInqueue, raised: "90", pods: waitingPods("raised", 2, "2", nil)},
		"pods ask for all that there is":              {phase: v1beta1.PodGroupInqueue, raised: "8", pods: waitingPods("raised", 2, "4", nil)},
		"pods ask for ten times what the cluster has": {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waitingPods("raised", 10, "8", nil)},
		"pods select no node":                         {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waitingPods("raised", 10, "8", onNoNode)},
		"pods select one small node":                  {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waitingPods("raised", 80, "1", onSmallNode)},
		"pods of a gang that runs select no node":     {phase: v1beta1.PodGroupRunning, raised: "80", pods: waitingPods("raised", 10, "8", onNoNode)},
		"pods have scheduling gates":                  {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waitingPods("raised", 1, "8", func(pod *schedtest.PodBuilder) { pod.Gate("example.com/g") })},
		"pods name a node that does not exist":        {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waitingPods("raised", 10, "8", func(pod *schedtest.PodBuilder) { pod.Node("none") })},
		"a pod asks for more than any node has":       {phase: v1beta1.PodGroupInqueue, raised: "80", pods: waitingPods("raised", 1, "80", nil)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			raised := groupAsking("raised", schedtest.Queue, tt.phase, quantities("cpu", tt.raised))
			if raised.Spec.MinMember = 100; tt.phase == v1beta1.PodGroupRunning {
				raised.Spec.MinMember = 0 // Otherwise upstream reserves nothing for a running gang.
			}
			cluster := schedtest.NewCluster(append(tt.pods, schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj(), schedtest.MakeNode().Name("small").Label("is", "small").Capacity(schedtest.Resources{"cpu": "1", "pods": "110"}).Obj(),
				raised, othersAsking("w0", schedtest.Queue, quantities("cpu", "8")))...)
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
			for range 3 {
				s.cycle()
			}
			if got := admittedGangs(s); got != 1 {
				t.Errorf("%d of 1 are admitted beside the gang with phase %s", got, tt.phase)
			}
		})
	}
}

// TestAnAdmittedGangLimitsItsNamespace checks that an admitted gang limits its own namespace. A gang that requests 4
// of 8 CPUs is admitted. Gangs of its namespace and queue are admitted if they fit into the other half, and all
// others if they fit into the cluster.
func TestAnAdmittedGangLimitsItsNamespace(t *testing.T) {
	ours := func(cpu string) *v1beta1.PodGroup {
		return groupAsking("w0", schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", cpu))
	}
	raise := func(_ *schedtest.Cluster, gang *v1beta1.PodGroup) {
		most := quantities("cpu", "80")
		gang.Spec.MinResources = &most
	}
	tests := map[string]struct {
		after  func(cluster *schedtest.Cluster, gang *v1beta1.PodGroup)
		again  bool
		beside *v1beta1.PodGroup
		conf   string
		want   int
	}{
		"more than the other half":                    {beside: ours("6")},
		"the other half":                              {beside: ours("4"), want: 1},
		"the cluster, in another namespace":           {beside: othersAsking("w0", schedtest.Queue, quantities("cpu", "8")), want: 1},
		"the cluster, in another queue":               {beside: groupAsking("w0", "other", v1beta1.PodGroupPending, quantities("cpu", "8")), want: 1},
		"the other half, with raised minResources":    {beside: ours("4"), after: raise},
		"another namespace, with raised minResources": {beside: othersAsking("w0", schedtest.Queue, quantities("cpu", "8")), after: raise, want: 1},
		"more than the other half, after a restart":   {beside: ours("6"), again: true},
		"the other half, after a restart":             {beside: ours("4"), again: true, want: 1},
		"the cluster, after the gang moved":           {beside: ours("8"), want: 1, after: func(_ *schedtest.Cluster, gang *v1beta1.PodGroup) { gang.Spec.Queue = "other" }},
		"the cluster, after the gang was sent back": {beside: ours("8"), want: 1, after: func(_ *schedtest.Cluster, gang *v1beta1.PodGroup) {
			gang.Status.Phase, gang.Spec.MinResources = v1beta1.PodGroupPending, nil
		}},
		"the cluster, without a plugin that limits this": {beside: ours("8"), conf: "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n", want: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			gang := groupAsking("g", schedtest.Queue, v1beta1.PodGroupPending, quantities("cpu", "4"))
			gang.Spec.MinMember = 100 // Not all of its pods exist yet.
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeQueue().Name("other").Obj(),
				schedtest.MakeNode().Name("n").Obj(), gang)
			start := func() *scheduler {
				if tt.conf != "" {
					return newTestScheduler(t, cluster, loaded(t, tt.conf))
				}
				return newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
			}
			s := start()
			untilAdmitted(t, cluster, s, "g")
			if tt.after != nil {
				changed := cluster.PodGroup("g").DeepCopy()
				tt.after(cluster, changed)
				cluster.Put(changed)
			}
			if tt.again {
				s = start()
			}
			cluster.Put(tt.beside)
			eventually(t, func() bool {
				jobs := s.cache.Snapshot().Jobs
				id := api.JobID(tt.beside.Namespace + "/w0")
				return jobs[id] != nil && jobs["ns/g"] != nil && jobs["ns/g"].Queue == api.QueueID(cluster.PodGroup("g").Spec.Queue) &&
					cmp.Equal(jobs["ns/g"].PodGroup.Spec.MinResources, cluster.PodGroup("g").Spec.MinResources)
			})
			for range 3 {
				s.cycle()
			}
			if got := admittedGangs(s); got != tt.want {
				t.Errorf("%d of 1 are admitted beside the gang, want %d", got, tt.want)
			}
		})
	}
}

// TestHeldResourcesCountOnce checks that resources in use count once. The gang of one namespace uses half of the node
// and is in phase Inqueue, because its minMember is larger or a member is being bound. Upstream counts its resources
// twice, so the other half stays idle.
func TestHeldResourcesCountOnce(t *testing.T) {
	for _, plugin := range []string{"overcommit", "proportion", "capacity"} {
		for _, asks := range []string{"4", "8"} {
			t.Run(plugin+", asks for "+asks, func(t *testing.T) {
				held := groupAsking("held", schedtest.Queue, v1beta1.PodGroupInqueue, quantities("cpu", asks))
				held.Spec.MinMember = 100
				cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeNode().Name("n").Obj(), held,
					schedtest.MakePod().Name("held").Group("held").Req(schedtest.Resources{"cpu": "4"}).Node("n").Obj(),
					othersAsking("w0", schedtest.Queue, quantities("cpu", "4")), othersAsking("w1", schedtest.Queue, quantities("cpu", "6")))
				s := newTestScheduler(t, cluster, loaded(t, confWith(plugin)))
				for range 3 {
					s.cycle()
				}
				if got := admittedGangs(s); got != 1 {
					t.Errorf("%d of the gangs that request 4 and 6 CPUs are admitted beside one that holds 4 of 8, want 1", got)
				}
			})
		}
	}
}

// TestAGangThatIsAdmittedOrRefusedKeepsNothing checks that an admitted or refused gang reserves nothing. In each
// session, a tenant's older gang and a gang of another namespace together request more than is free. The older gang is
// deleted after its admission, or plugin overcommit refuses it. The other gang is admitted each time.
func TestAGangThatIsAdmittedOrRefusedKeepsNothing(t *testing.T) {
	const tiers = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins: [{name: gang}, {name: predicates}, %s]\n"
	tests := map[string]struct{ plugins, asks, runsIn string }{
		"admitted by proportion":                        {"{name: proportion}", "600m", "q"},
		"admitted by capacity":                          {"{name: capacity}", "600m", "q"},
		"admitted by capacity, with a hierarchy":        {"{name: capacity, enableHierarchy: true}", "600m", "q"},
		"admitted by overcommit":                        {"{name: overcommit, arguments: {overcommit-factor: 1}}", "600m", "q"},
		"admitted by capacity, refused by overcommit":   {"{name: capacity}, {name: overcommit, arguments: {overcommit-factor: 1}}", "7500m", "busy"},
		"admitted by proportion, refused by overcommit": {"{name: proportion}, {name: overcommit, arguments: {overcommit-factor: 1}}", "7500m", "busy"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := limitedQueue("q", nil)
			q.Spec.Parent = "root"
			busy := limitedQueue("busy", nil)
			busy.Spec.Parent = "root"
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), q, busy, schedtest.MakeNode().Name("n").Obj(),
				groupAsking("runs", tt.runsIn, v1beta1.PodGroupRunning, quantities("cpu", "7")),
				schedtest.MakePod().Name("runs").Group("runs").Req(schedtest.Resources{"cpu": "7"}).Node("n").Phase(v1.PodRunning).Obj())
			greedy := func(i int) *v1beta1.PodGroup {
				pg := groupAsking(fmt.Sprint("g", i), "q", v1beta1.PodGroupPending, quantities("cpu", tt.asks))
				pg.Namespace = "greedy"
				pg.CreationTimestamp.Time = pg.CreationTimestamp.Add(-time.Hour)
				return pg
			}
			cluster.Put(greedy(0))
			s := newTestScheduler(t, cluster, loaded(t, fmt.Sprintf(tiers, tt.plugins)))
			for i := range 5 {
				cluster.Put(othersAsking(fmt.Sprint("w", i), "q", quantities("cpu", "800m")))
				eventually(t, func() bool { return len(s.cache.Snapshot().Jobs) == i+3 })
				s.cycle()
				cluster.Remove(greedy(i))
				cluster.Put(greedy(i + 1))
				if got := admittedGangs(s); got != i+1 {
					t.Errorf("%d of %d are admitted", got, i+1)
				}
			}
		})
	}
}

// TestNothingIsPromisedToPodsOnNodesThatDoNotExist checks that nothing is reserved for pods on nodes that do not
// exist. A pod may be created with any node name. Its gang used to count as running and its request as reserved, so
// no other gang was admitted.
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
			if got := admittedGangs(s); got != want {
				t.Errorf("%d of 1 are admitted, want %d", got, want)
			}
		})
	}
}
