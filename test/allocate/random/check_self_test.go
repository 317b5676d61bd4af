// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestFaults checks the function faults with valid outcomes, and with outcomes that break one kind of constraint
// each.
//
// The cluster has node-0 and node-1 in zone-0 under leaf-0, and node-2 in zone-1 under leaf-1. Each node has 4 CPUs
// and room for 2 pods. The two pods of the gang, a and b, are bound or pipelined as the case states.
func TestFaults(t *testing.T) {
	both := map[string]string{"ns/a": "node-0", "ns/b": "node-1"}
	same := map[string]string{"ns/a": "node-0", "ns/b": "node-0"}
	across := map[string]string{"ns/a": "node-0", "ns/b": "node-2"}
	for name, test := range map[string]struct {
		change    func(w *faultCase)
		bound     map[string]string
		pipelined map[string]string
		want      []string
	}{
		"nothing placed":            {},
		"both on nodes of one zone": {bound: both},
		"both on one node":          {bound: same},
		"both pipelined":            {pipelined: same},
		"half a gang":               {bound: map[string]string{"ns/a": "node-0"}, want: []string{"gang"}},
		"half a gang, the other runs": {
			change: func(w *faultCase) { w.runs(w.b, "node-2") }, bound: map[string]string{"ns/a": "node-0"},
		},
		"half a gang, the other is leaving": {
			change: func(w *faultCase) { w.runs(w.b, "node-2"); w.b.DeletionTimestamp = &schedtest.Created }, bound: map[string]string{"ns/a": "node-0"},
			want: []string{"gang"},
		},
		"too few of a role": {
			change: func(w *faultCase) { w.gang.Spec.MinMember, w.gang.Spec.MinTaskMember = 1, map[string]int32{"ps": 1} },
			bound:  both, want: []string{"gang"},
		},
		"role minima whose sum exceeds minMember do not count": {
			change: func(w *faultCase) { w.gang.Spec.MinTaskMember = map[string]int32{"ps": 3} }, bound: both,
		},
		"a sub-group in part": {
			change: func(w *faultCase) {
				w.gang.Spec = schedtest.MakePodGroup().MinMember(1).SubGroups("sub", subLabel, 0, 2).Obj().Spec
				w.a.Labels[subLabel], w.b.Labels[subLabel] = "0", "0"
			},
			bound: map[string]string{"ns/a": "node-0"}, want: []string{"subgroup"},
		},
		"too few sub-groups": {
			change: func(w *faultCase) {
				w.gang.Spec = schedtest.MakePodGroup().MinMember(1).SubGroups("sub", subLabel, 2, 1).Obj().Spec
				w.a.Labels[subLabel], w.b.Labels[subLabel] = "0", "1"
			},
			bound: map[string]string{"ns/a": "node-0"}, want: []string{"gang"},
		},
		"an unknown node": {bound: map[string]string{"ns/a": "node-0", "ns/b": "node-9"}, want: []string{"node"}},
		"an unknown pod":  {bound: map[string]string{"ns/a": "node-0", "ns/b": "node-1", "ns/c": "node-1"}, want: []string{"pod"}},
		"too much cpu":    {change: func(w *faultCase) { w.ask(w.a, "3") }, bound: same, want: []string{"capacity"}},
		"too much once all pipelined pods are there": {
			change: func(w *faultCase) { w.ask(w.a, "3") }, pipelined: same, want: []string{"capacity"},
		},
		"too much beside a pod that is leaving": {
			change: func(w *faultCase) { w.bystander("node-0", "3").DeletionTimestamp = &schedtest.Created }, bound: same, want: []string{"capacity", "pods"},
		},
		"enough once a pod has left": {
			change: func(w *faultCase) { w.bystander("node-0", "3").DeletionTimestamp = &schedtest.Created }, pipelined: map[string]string{"ns/a": "node-0"},
		},
		"too many pods": {change: func(w *faultCase) { w.bystander("node-0", "0") }, bound: same, want: []string{"pods"}},
		"a gated pod": {
			change: func(w *faultCase) { w.a.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }, bound: both, want: []string{"gate"},
		},
		"a pod that asks for nothing": {
			change: func(w *faultCase) { w.a.Spec.Containers[0].Resources.Requests = nil }, bound: both, want: []string{"besteffort"},
		},
		"a node selector": {
			change: func(w *faultCase) { w.a.Spec.NodeSelector = map[string]string{zone: "zone-1"} }, bound: both, want: []string{"selector"},
		},
		"a node affinity": {
			change: func(w *faultCase) {
				w.a.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
						{Key: zone, Operator: v1.NodeSelectorOpNotIn, Values: []string{"zone-0"}},
					}}},
				}}}
			},
			bound: both, want: []string{"selector"},
		},
		"a taint": {
			change: func(w *faultCase) {
				w.nodes[0].Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
			},
			bound: both, want: []string{"taint"},
		},
		"a cordoned node": {change: func(w *faultCase) { w.nodes[0].Spec.Unschedulable = true }, bound: both, want: []string{"taint"}},
		"a taint that is tolerated": {
			change: func(w *faultCase) {
				w.nodes[0].Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
				w.a.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}}
			},
			bound: both,
		},
		"a host port": {
			change: func(w *faultCase) {
				w.a.Spec.Containers[0].Ports, w.b.Spec.Containers[0].Ports = []v1.ContainerPort{hostPort(80)}, []v1.ContainerPort{hostPort(80)}
			},
			bound: same, want: []string{"port"},
		},
		"a host port on two nodes": {
			change: func(w *faultCase) {
				w.a.Spec.Containers[0].Ports, w.b.Spec.Containers[0].Ports = []v1.ContainerPort{hostPort(80)}, []v1.ContainerPort{hostPort(80)}
			},
			bound: both,
		},
		"anti-affinity": {
			change: func(w *faultCase) { away(w.a, zone, "b") }, bound: both, want: []string{"antiaffinity"},
		},
		"anti-affinity in another domain": {change: func(w *faultCase) { away(w.a, zone, "b") }, bound: across},
		"anti-affinity of one that runs already": {
			change: func(w *faultCase) { away(w.bystander("node-0", "1"), zone, "b") }, bound: both, want: []string{"antiaffinity"},
		},
		"affinity without company": {
			change: func(w *faultCase) { near(w.a, "b") }, bound: across, want: []string{"affinity"},
		},
		"affinity with company": {change: func(w *faultCase) { near(w.a, "b") }, bound: both},
		"affinity to itself, twice": {
			change: func(w *faultCase) {
				w.a.Labels[app], w.b.Labels[app] = "x", "x"
				near(w.a, "x")
				near(w.b, "x")
			},
			bound: across, want: []string{"affinity"},
		},
		"affinity to itself beside one that runs elsewhere": {
			change: func(w *faultCase) {
				w.bystander("node-2", "1").Labels[app] = "a"
				near(w.a, "a")
			},
			bound: both, want: []string{"affinity"},
		},
		"affinity to itself": {change: func(w *faultCase) { near(w.a, "a") }, bound: both},
		"spread unevenly":    {change: spreadOut, bound: both, want: []string{"spread"}},
		"spread evenly":      {change: spreadOut, bound: across},
		"spread over a label the node lacks": {
			change: func(w *faultCase) { spreadOut(w); delete(w.nodes[2].Labels, zone) }, bound: across, want: []string{"spread"},
		},
		"a topology":           {change: func(w *faultCase) { w.tie(1) }, bound: both},
		"a topology broken":    {change: func(w *faultCase) { w.tie(1) }, bound: across, want: []string{"topology"}},
		"a topology of tier 2": {change: func(w *faultCase) { w.tie(2) }, bound: across},
		"a topology that running members pin": {
			change: func(w *faultCase) { w.tie(1); w.runs(w.b, "node-2") }, bound: map[string]string{"ns/a": "node-0"}, want: []string{"topology"},
		},
		"a claim of another zone": {
			change: func(w *faultCase) { use(w.a, fmt.Sprintf(zoneClaim, 1)) }, bound: both, want: []string{"volume"},
		},
		"a shared claim in two zones": {
			change: func(w *faultCase) { use(w.a, fmt.Sprintf(waitingClaim, 0)); use(w.b, fmt.Sprintf(waitingClaim, 0)) },
			bound:  across, want: []string{"volume"},
		},
		"claims of 3 GiB each, a zone has one such volume": {
			change: func(w *faultCase) { use(w.a, fmt.Sprintf(waitingClaim, 2)); use(w.b, fmt.Sprintf(waitingClaim, 5)) },
			bound:  both, want: []string{"volume"},
		},
		"claims of 2 and 3 GiB": {
			change: func(w *faultCase) { use(w.a, fmt.Sprintf(waitingClaim, 1)); use(w.b, fmt.Sprintf(waitingClaim, 2)) }, bound: both,
		},
		"a queue's capability": {
			change: func(w *faultCase) {
				w.queue.Spec.Capability = v1.ResourceList{"cpu": w.nodes[0].Status.Allocatable.Cpu().DeepCopy()}
				w.ask(w.a, "3")
			},
			bound: both, want: []string{"queue"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFaultCase()
			if test.change != nil {
				test.change(w)
			}
			var got []string
			for _, fault := range faults(w.instance(), outcome{bound: test.bound, pipelined: test.pipelined}) {
				got = append(got, fault.kind)
			}
			if diff := cmp.Diff(test.want, slices.Compact(got)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// faultCase is the cluster of TestFaults.
type faultCase struct {
	nodes []*v1.Node
	a, b  *v1.Pod
	gang  *v1beta1.PodGroup
	queue *v1beta1.Queue
	rest  []*v1.Pod
}

func newFaultCase() *faultCase {
	w := &faultCase{gang: schedtest.MakePodGroup().Name("gang").Queue("q").MinMember(2).Obj(), queue: schedtest.MakeQueue().Name("q").Obj()}
	for i, inZone := range []string{"zone-0", "zone-0", "zone-1"} {
		w.nodes = append(w.nodes, schedtest.MakeNode().Name([]string{"node-0", "node-1", "node-2"}[i]).Label(zone, inZone).Capacity(schedtest.Resources{"cpu": "4", "pods": "2"}).Obj())
	}
	w.a = schedtest.MakePod().Name("a").Group("gang").Label(app, "a").Req(schedtest.Resources{"cpu": "2"}).Obj()
	w.b = schedtest.MakePod().Name("b").Group("gang").Label(app, "b").Req(schedtest.Resources{"cpu": "2"}).Obj()
	return w
}

func (w *faultCase) instance() instance {
	c := &cluster{}
	c.addHyperNode("leaf-0", 1, "Node", []string{"node-0", "node-1"})
	c.addHyperNode("leaf-1", 1, "Node", []string{"node-2"})
	c.addHyperNode("spine", 2, "HyperNode", []string{"leaf-0", "leaf-1"})
	return instance{conf: "capacity", world: sessiontest.ClusterSpec{
		Nodes: w.nodes, Pods: append([]*v1.Pod{w.a, w.b}, w.rest...), HyperNodes: c.world.HyperNodes,
		PodGroups: []*v1beta1.PodGroup{w.gang}, Queues: []*v1beta1.Queue{w.queue},
	}}
}

func (w *faultCase) runs(pod *v1.Pod, node string) {
	pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning
}

func (w *faultCase) ask(pod *v1.Pod, cpu string) {
	pod.Spec.Containers[0].Resources.Requests = schedtest.MakePod().Req(schedtest.Resources{"cpu": cpu}).Obj().Spec.Containers[0].Resources.Requests
}

// bystander adds a running pod without a gang.
func (w *faultCase) bystander(node, cpu string) *v1.Pod {
	pod := schedtest.MakePod().Name("bystander").Req(schedtest.Resources{"cpu": cpu}).Obj()
	w.runs(pod, node)
	w.rest = append(w.rest, pod)
	return pod
}

func (w *faultCase) tie(tier int) {
	w.gang.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
}

func away(pod *v1.Pod, domain, other string) {
	antiAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term(domain, app, other)}
}

func near(pod *v1.Pod, other string) {
	affinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term(zone, app, other)}
}

// spreadOut gives the gang a topology spread constraint over the zones.
func spreadOut(w *faultCase) {
	for _, pod := range []*v1.Pod{w.a, w.b} {
		pod.Labels[gangLabel] = "gang"
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{gangLabel: "gang"}},
		}}
	}
}
