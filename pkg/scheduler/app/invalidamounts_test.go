// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// innocents adds a gang of two pods that waits in the default queue and fits.
func innocents(cluster *schedtest.Cluster) {
	cluster.Put(schedtest.MakePodGroup().Name("g").MinMember(2).Phase(v1beta1.PodGroupPending).Obj())
	for i := range 2 {
		cluster.Put(schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
}

func quantities(name, value string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceName(name): resource.MustParse(value)}
}

// TestInvalidAmountsStopNoGang checks that invalid amounts stop no gang. Upstream's CRDs and webhooks, and the API
// server, accept each of these objects. Each of them used to make every cycle panic.
func TestInvalidAmountsStopNoGang(t *testing.T) {
	podGroup := func(list v1.ResourceList, phase v1beta1.PodGroupPhase) *v1beta1.PodGroup {
		pg := schedtest.MakePodGroup().Name("evil").Phase(phase).Obj()
		pg.Spec.MinResources = &list
		return pg
	}
	queue := func(change func(*v1beta1.QueueSpec)) *v1beta1.Queue {
		q := schedtest.MakeQueue().Name("evil").Obj()
		change(&q.Spec)
		return q
	}
	inQueue := schedtest.MakePodGroup().Name("evil").Queue("evil").Phase(v1beta1.PodGroupPending).Obj()
	runs := schedtest.MakePod().Name("runs").Group("evil").Req(schedtest.Resources{"cpu": "1"}).Node("n").Phase(v1.PodRunning).Obj()
	tests := map[string]struct {
		objects []runtime.Object
		message string
	}{
		"a PodGroup that needs less than nothing": {
			objects: []runtime.Object{podGroup(quantities("cpu", "-5"), v1beta1.PodGroupPending)},
			message: "spec.minResources[cpu] is -5, must be 0 or more",
		},
		"a little less than nothing": {
			objects: []runtime.Object{podGroup(quantities("cpu", "-1m"), v1beta1.PodGroupPending)},
			message: "spec.minResources[cpu] is -1m, must be 0 or more",
		},
		"of devices": {
			objects: []runtime.Object{podGroup(quantities("nvidia.com/gpu", "-5"), v1beta1.PodGroupPending)},
			message: "spec.minResources[nvidia.com/gpu] is -5, must be 0 or more",
		},
		"of pods, when it was admitted already": {
			objects: []runtime.Object{podGroup(quantities("pods", "-3"), v1beta1.PodGroupInqueue)},
			message: "spec.minResources[pods] is -3, must be 0 or more",
		},
		"while a pod of it runs": {
			objects: []runtime.Object{podGroup(quantities("cpu", "-5"), v1beta1.PodGroupRunning), runs},
			message: "spec.minResources[cpu] is -5, must be 0 or more",
		},
		"a queue that may hold less than nothing": {
			objects: []runtime.Object{inQueue, queue(func(q *v1beta1.QueueSpec) { q.Capability = quantities("cpu", "-5") })},
			message: "queue evil: spec.capability[cpu] is -5, must be 0 or more",
		},
		"a queue that is guaranteed less than nothing": {
			objects: []runtime.Object{inQueue, queue(func(q *v1beta1.QueueSpec) { q.Guarantee.Resource = quantities("nvidia.com/gpu", "-5") })},
			message: "queue evil: spec.guarantee.resource[nvidia.com/gpu] is -5, must be 0 or more",
		},
		"a queue that deserves less than nothing": {
			objects: []runtime.Object{inQueue, queue(func(q *v1beta1.QueueSpec) { q.Deserved = quantities("memory", "-1") })},
			message: "queue evil: spec.deserved[memory] is -1, must be 0 or more",
		},
		"a PodGroup of more sub-group policies than anyone needs": {
			objects: []runtime.Object{larger(inQueueDefault(), func(pg *v1beta1.PodGroup) { groupInputs["sub-group policies"].group(pg, 34) })},
			message: "policies, label keys and values in spec.subGroupPolicy: 102, must be at most 100",
		},
		"of more kinds of resources": {
			objects: []runtime.Object{larger(inQueueDefault(), func(pg *v1beta1.PodGroup) { groupInputs["minResources"].group(pg, 101) })},
			message: "resource names in spec.minResources: 101, must be at most 100",
		},
		"of a pod with more terms, while another runs": {
			objects: []runtime.Object{inQueueDefault(), runs, evilPodWith("terms of node affinity", 101)},
			message: "pod waits: requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints: 101, must be at most 100",
		},
		"of a pod with more labels in its selector": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("a node selector", 101)},
			message: "pod waits: requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints: 101, must be at most 100",
		},
		"with more preferences": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("preferred node affinity", 101)},
			message: "pod waits: requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints: 101, must be at most 100",
		},
		"with a longer selector": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("the selector of pod affinity", 101)},
			message: "pod waits: requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints: 101, must be at most 100",
		},
		"with more values": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("values of node affinity", 1001)},
			message: "pod waits: values of requirements in spec.nodeSelector, spec.affinity and spec.topologySpreadConstraints: 1001, must be at most 1000",
		},
		"with more terms over pods": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("pod anti-affinity", 51)},
			message: "pod waits: pod affinity terms of spec.affinity and spec.topologySpreadConstraints: 51, must be at most 50",
		},
		"with more preferences over pods": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("preferred pod affinity", 51)},
			message: "pod waits: pod affinity terms of spec.affinity and spec.topologySpreadConstraints: 51, must be at most 50",
		},
		"with more constraints": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("topology spread", 51)},
			message: "pod waits: pod affinity terms of spec.affinity and spec.topologySpreadConstraints: 51, must be at most 50",
		},
		"with more resources": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("resources that no node has", 101)},
			message: "pod waits: resource names in requests of containers and in spec.overhead: 101, must be at most 100",
		},
		"with more tolerations": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("tolerations", 1001)},
			message: "pod waits: spec.tolerations: 1001, must be at most 1000",
		},
		"with more volumes": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("volumes", 1001)},
			message: "pod waits: spec.volumes: 1001, must be at most 1000",
		},
		"with more containers": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("init containers", 1000)},
			message: "pod waits: containers: 1001, must be at most 1000",
		},
		"with more ports": {
			objects: []runtime.Object{inQueueDefault(), evilPodWith("host ports", 1001)},
			message: "pod waits: host ports of containers: 1001, must be at most 1000",
		},
		"a queue that is its own parent": {
			objects: []runtime.Object{inQueue, runs, queue(func(q *v1beta1.QueueSpec) { q.Parent = "evil" })},
			message: "queue evil: spec.parent is evil, which forms a cycle; it must lead to queue root",
		},
		"a queue whose parent is not there": {
			objects: []runtime.Object{inQueue, runs, queue(func(q *v1beta1.QueueSpec) { q.Parent = "nowhere" })},
			message: "queue evil: spec.parent leads to queue nowhere, which does not exist",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj())
			for _, object := range tt.objects {
				cluster.Put(object)
			}
			innocents(cluster)
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))

			s.cycle()

			eventually(t, func() bool { return cmp.Equal([]string{"n", "n"}, nodesOf(cluster, 2)) })
			eventually(t, func() bool { return strings.Contains(unschedulableMessage(cluster.PodGroup("evil")), tt.message) })
			for range 3 {
				s.cycle()
			}
			reported := 0
			for _, event := range cluster.Events.Take() {
				if strings.Contains(event, tt.message) {
					reported++
				}
			}
			if reported != 1 {
				t.Errorf("it was reported by %d events, want 1", reported)
			}
		})
	}
}

func inQueueDefault() *v1beta1.PodGroup {
	return schedtest.MakePodGroup().Name("evil").Phase(v1beta1.PodGroupPending).Obj()
}

func larger(pg *v1beta1.PodGroup, change func(*v1beta1.PodGroup)) *v1beta1.PodGroup {
	change(pg)
	return pg
}

// evilPodWith returns a waiting pod of the PodGroup evil, with n elements of the input.
func evilPodWith(input string, n int) *v1.Pod {
	pod := schedtest.MakePod().Name("waits").Group("evil").Req(schedtest.Resources{"cpu": "1"}).Obj()
	podInputs[input].pod(pod, n)
	return pod
}

func unschedulableMessage(pg *v1beta1.PodGroup) string {
	for _, c := range pg.Status.Conditions {
		if c.Type == v1beta1.PodGroupUnschedulableType && c.Status == v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// TestAnOverflowingRequestDoesNotCountAsZero checks that an overflowing request does not count as zero. Upstream
// reads a request of 1e30 CPUs as 0 and one of 8Ei as -1, so the pod would fit anywhere and make room for others.
func TestAnOverflowingRequestDoesNotCountAsZero(t *testing.T) {
	for _, request := range []string{"1e30", "8Ei", "9.3e15"} {
		t.Run(request, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("huge").Obj(),
				schedtest.MakePod().Name("huge").Group("huge").Req(schedtest.Resources{"cpu": request}).Obj())
			innocents(cluster)
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))

			s.cycle()

			eventually(t, func() bool { return cmp.Equal([]string{"n", "n"}, nodesOf(cluster, 2)) })
			s.cycle()
			if node := cluster.Pod("huge").Spec.NodeName; node != "" {
				t.Errorf("the pod was bound to node %s of 8 cpu", node)
			}
		})
	}
}

// innocentsAreBound adds innocents with minResources of 2 CPUs to the cluster, and fails the test unless they are
// bound by the second cycle.
func innocentsAreBound(t *testing.T, cluster *schedtest.Cluster) {
	t.Helper()
	innocents(cluster)
	needs := quantities("cpu", "2")
	innocent := cluster.PodGroup("g")
	innocent.Spec.MinResources = &needs
	cluster.Put(innocent)
	s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))

	s.cycle()
	s.cycle()

	eventually(t, func() bool { return cmp.Equal([]string{"n", "n"}, nodesOf(cluster, 2)) })
}

// TestAPodWithUnknownResourcesStopsNoGang checks that a pod with unknown resources stops no gang. The API server
// accepts a pod that names its node, whatever it requests. Such requests used to use up the share of the queue and
// the limit for admission in the whole cluster.
func TestAPodWithUnknownResourcesStopsNoGang(t *testing.T) {
	tests := map[string]struct{ node, phase string }{
		"on a node that does not exist":          {node: "nowhere", phase: "Running"},
		"that is to start there":                 {node: "nowhere", phase: "Pending"},
		"on a node that has less":                {node: "small", phase: "Running"},
		"that says it runs, and has no node":     {phase: "Running"},
		"on a node that has less, and it leaves": {node: "small", phase: "Terminating"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj(), schedtest.MakeNode().Name("small").Capacity(schedtest.Resources{"cpu": "1"}).Obj(),
				schedtest.MakePodGroup().Name("evil").Phase(v1beta1.PodGroupRunning).Obj())
			evil := schedtest.MakePod().Name("evil").Group("evil").Req(schedtest.Resources{"cpu": "1e12"}).Node(tt.node).Phase(v1.PodPhase(tt.phase))
			if tt.phase == "Terminating" {
				evil.Phase(v1.PodRunning).Terminating()
			}
			cluster.Put(evil.Obj())
			innocentsAreBound(t, cluster)
		})
	}
}

// TestMinResourcesOfAnAdmittedGangHoldUpNoOtherNamespace checks that minResources of an admitted gang delay no other
// namespace. A tenant may raise them to any amount, and upstream's plugins reserve all of it for the gang.
func TestMinResourcesOfAnAdmittedGangHoldUpNoOtherNamespace(t *testing.T) {
	running := schedtest.MakePod().Name("runs").Group("raised").Req(schedtest.Resources{"cpu": "1"}).Node("n").Phase(v1.PodRunning).Obj()
	running.Namespace = "others"
	tests := map[string]struct {
		phase  v1beta1.PodGroupPhase
		pods   []runtime.Object
		raised v1.ResourceList
	}{
		"of cpu":                      {phase: v1beta1.PodGroupInqueue, raised: quantities("cpu", "1e9")},
		"of cpu, a little beyond":     {phase: v1beta1.PodGroupInqueue, raised: quantities("cpu", "80001m")},
		"of what no node has":         {phase: v1beta1.PodGroupInqueue, raised: quantities("nvidia.com/gpu", "1")},
		"of cpu, while it runs":       {phase: v1beta1.PodGroupRunning, pods: []runtime.Object{running}, raised: quantities("cpu", "1e9")},
		"beyond what can be reckoned": {phase: v1beta1.PodGroupInqueue, raised: quantities("memory", "1e30")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeNode().Name("n").Obj())
			raised := schedtest.MakePodGroup().Name("raised").Phase(tt.phase).Obj()
			raised.Spec.MinResources, raised.Namespace = &tt.raised, "others"
			cluster.Put(raised)
			for _, pod := range tt.pods {
				cluster.Put(pod)
			}
			innocentsAreBound(t, cluster)
		})
	}
}

// TestARequestAboveEveryNodeIsReported checks that a request above the capacity of every node is reported. Messages
// on the PodGroup and the pod state the request and the possible amount.
func TestARequestAboveEveryNodeIsReported(t *testing.T) {
	tests := map[string]struct{ resource, request, want string }{
		"of cpu":                   {"cpu", "1e12", "a member requests more than any node has: cpu 1T of at most 8"},
		"of more than is reckoned": {"cpu", "1e18", "a member requests more than any node has: cpu 4P of at most 8"},
		"of what no node has":      {"nvidia.com/gpu", "1e18", "a member requests more than any node has: nvidia.com/gpu 4P of at most 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
				schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("huge").Obj(),
				schedtest.MakePod().Name("huge").Group("huge").Req(schedtest.Resources{tt.resource: tt.request}).Obj())
			s := newTestScheduler(t, cluster, builtIn(t, "enqueue allocate backfill"))
			eventually(t, func() bool {
				s.cycle()
				if !strings.Contains(unschedulableMessage(cluster.PodGroup("huge")), tt.want) {
					return false
				}
				for _, condition := range cluster.Pod("huge").Status.Conditions {
					if condition.Type == v1.PodScheduled && strings.Contains(condition.Message, tt.want) {
						return true
					}
				}
				return false
			})
		})
	}
}
