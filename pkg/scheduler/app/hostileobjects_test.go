// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// maxEvil is the maximum number of objects of each kind.
const maxEvil = 4

// dice reads choices from the bytes, and returns zeros when no bytes are left.
type dice struct{ data []byte }

func (d *dice) below(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % n
}

func (d *dice) yes() bool { return d.below(4) == 1 }

func pick[T any](d *dice, from ...T) T { return from[d.below(len(from))] }

func (d *dice) amounts() v1.ResourceList {
	list := v1.ResourceList{}
	for range d.below(4) {
		name := pick[v1.ResourceName](d, "cpu", "memory", "pods", "nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi", "count/pods", "example.com/a", "unknown")
		list[name] = resource.MustParse(pick(d, "0", "1", "3", "500m", "1n", "123456789.123", "1e30", "8Ei", "9.3e15", "9e15", "9223372036854775807"))
	}
	return list
}

// badAmounts returns amounts that may include invalid ones which upstream's CRDs accept.
func (d *dice) badAmounts() v1.ResourceList {
	list := d.amounts()
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if d.yes() {
			list[name] = resource.MustParse(pick(d, "-5", "-1m", "-1e30", "-9223372036854775807"))
		}
	}
	return list
}

func (d *dice) selector() *metav1.LabelSelector {
	if d.yes() {
		return nil
	}
	return &metav1.LabelSelector{
		MatchLabels: map[string]string{pick(d, "a", "", "not a key"): pick(d, "x", "", "not a value!")},
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: pick(d, "a", "b", ""), Operator: pick[metav1.LabelSelectorOperator](d, "In", "Exists", "NotIn", "Nonsense"), Values: pick(d, nil, []string{"x"}, []string{"!"}),
		}},
	}
}

func (d *dice) topology() *v1beta1.NetworkTopologySpec {
	if !d.yes() {
		return nil
	}
	return &v1beta1.NetworkTopologySpec{
		Mode: pick(d, v1beta1.HardNetworkTopologyMode, v1beta1.SoftNetworkTopologyMode), HighestTierAllowed: pick(d, nil, new(int)), HighestTierName: pick(d, "", "rack", "none"),
	}
}

// annotations returns annotations that upstream reads from PodGroups, pods and queues.
func (d *dice) annotations() map[string]string {
	annotations := map[string]string{}
	for range d.below(4) {
		key := pick(d, "sla-waiting-time", "volcano.sh/preemptable", "volcano.sh/revocable-zone", "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable",
			"volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity", "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights",
			"volcano.sh/numa-topology-policy", "volcano.sh/cooldown-time", "volcano.sh/oversubscription-cpu", "volcano.sh/task-spec")
		annotations[key] = pick(d, "", "true", "1h", "-1h", "nonsense", "-5", "150%", "-1%", "root/a/b", "root/evil-0", "0/0/0", "1/-2/nan", "a,b;a,a;,", "99999999999999999999")
	}
	return annotations
}

// addHostileObjects adds PodGroups, pods, queues, nodes, HyperNodes and priority classes that the API server accepts.
// None of them requests resources that the innocent gangs need.
func addHostileObjects(d *dice, cluster *schedtest.Cluster) {
	for i := range d.below(maxEvil + 1) {
		cluster.Put(evilQueue(d, i))
	}
	for i := range d.below(maxEvil + 1) {
		cluster.Put(evilPodGroup(d, i))
		for j := range d.below(maxEvil + 1) {
			cluster.Put(evilPod(d, i, j))
		}
	}
	for i := range d.below(maxEvil + 1) {
		cluster.Put(evilNode(d, i))
	}
	for i := range d.below(maxEvil + 1) {
		cluster.Put(evilHyperNode(d, i))
	}
	for i := range d.below(maxEvil + 1) {
		cluster.Put(evilPriorityClass(d, i))
	}
}

func evilName(d *dice) string { return fmt.Sprintf("evil-%d", d.below(maxEvil)) }

func evilQueue(d *dice, i int) *v1beta1.Queue {
	queue := schedtest.MakeQueue().Name(fmt.Sprintf("evil-%d", i)).Weight(int32(1 + d.below(2))).Obj()
	queue.Annotations = d.annotations()
	queue.Spec.Capability, queue.Spec.Deserved = d.badAmounts(), d.badAmounts()
	if d.yes() { // The queue's guarantee is not available to other queues.
		queue.Spec.Guarantee.Resource = v1.ResourceList{"cpu": resource.MustParse(pick(d, "-5", "0", "1"))}
	}
	queue.Spec.Parent = pick(d, "", "root", schedtest.Queue+"-", evilName(d), queue.Name)
	queue.Spec.Reclaimable = pick(d, nil, new(bool))
	queue.Status.State = pick(d, v1beta1.QueueStateOpen, v1beta1.QueueStateClosed, v1beta1.QueueStateClosing, "")
	if d.yes() {
		queue.Spec.Affinity = &v1beta1.Affinity{NodeGroupAffinity: pick(d, nil, &v1beta1.NodeGroupAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []string{"", "x"}})}
	}
	return queue
}

func evilPodGroup(d *dice, i int) *v1beta1.PodGroup {
	pg := schedtest.MakePodGroup().Name(fmt.Sprintf("evil-%d", i)).MinMember(pick[int32](d, 0, 1, 2, 100, math.MaxInt32)).
		Queue(pick(d, schedtest.Queue, evilName(d), "none", "root")).PriorityClass(pick(d, "", "none", evilName(d))).
		Phase(pick(d, v1beta1.PodGroupPending, v1beta1.PodGroupRunning, v1beta1.PodGroupCompleted, v1beta1.PodGroupUnknown, "")).Obj()
	pg.Annotations = d.annotations()
	if list := d.badAmounts(); !d.yes() {
		pg.Spec.MinResources = &list
	}
	for range d.below(3) {
		if pg.Spec.MinTaskMember == nil {
			pg.Spec.MinTaskMember = map[string]int32{}
		}
		pg.Spec.MinTaskMember[pick(d, "", "a", "b")] = pick[int32](d, -1, 0, 1, math.MaxInt32, math.MinInt32)
	}
	pg.Spec.NetworkTopology = d.topology()
	for range d.below(3) {
		pg.Spec.SubGroupPolicy = append(pg.Spec.SubGroupPolicy, v1beta1.SubGroupPolicySpec{
			Name: pick(d, "", "a"), SubGroupSize: pick(d, nil, new(int32(1)), new(int32(math.MaxInt32))), MinSubGroups: pick(d, nil, new(int32), new(int32(math.MaxInt32))),
			LabelSelector: d.selector(), MatchLabelKeys: pick(d, nil, []string{"a"}, []string{"a", "a", ""}), NetworkTopology: d.topology(),
		})
	}
	return pg
}

func evilPod(d *dice, group, i int) *v1.Pod {
	pod := schedtest.MakePod().Name(fmt.Sprintf("evil-%d-%d", group, i)).Group(fmt.Sprintf("evil-%d", group)).Role(pick(d, "", "a", "b")).
		Label("a", pick(d, "", "x")).Obj()
	maps.Copy(pod.Annotations, d.annotations())
	pod.Spec.NodeName = pick(d, "", "", evilName(d), "none")
	pod.Status.Phase = pick(d, v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown)
	pod.Spec.Priority = pick(d, nil, new(int32), new(int32(math.MinInt32)))
	if d.yes() {
		pod.DeletionTimestamp = &schedtest.Created
	}
	for j := range pick(d, 1, 2, 300) {
		container := v1.Container{Name: fmt.Sprintf("c%d", j), Image: pick(d, "", "i")}
		container.Resources.Requests, container.Resources.Limits = d.amounts(), d.amounts()
		container.Ports = pick(d, nil, []v1.ContainerPort{{HostPort: 1}, {HostPort: 1}})
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		if d.yes() {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		}
	}
	pod.Spec.Overhead = d.amounts()
	if d.yes() {
		term := v1.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: pick(d, v1.LabelHostname, "none"), NamespaceSelector: d.selector()}
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	if d.yes() {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: pick[int32](d, 1, math.MaxInt32), TopologyKey: pick(d, v1.LabelHostname, "none"), WhenUnsatisfiable: pick(d, v1.DoNotSchedule, v1.ScheduleAnyway),
			LabelSelector: d.selector(), MinDomains: pick(d, nil, new(int32(math.MaxInt32))), MatchLabelKeys: pick(d, nil, []string{"a", "a"}),
		}}
	}
	if d.yes() {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: pick(d, nil, &v1.NodeSelector{},
			&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "a", Operator: "Gt", Values: []string{"x"}}}}}})}}
	}
	return pod
}

func evilNode(d *dice, i int) *v1.Node {
	node := schedtest.MakeNode().Name(fmt.Sprintf("evil-%d", i)).Obj()
	node.Status.Allocatable, node.Status.Capacity = d.amounts(), d.amounts()
	node.Annotations = d.annotations()
	if d.yes() {
		node.Labels = map[string]string{"volcano.sh/nodegroup-name": pick(d, "", "x"), "volcano.sh/revocable-zone": "z"}
	}
	node.Spec.Unschedulable = d.yes()
	node.Spec.Taints = pick(d, nil, []v1.Taint{{}}, []v1.Taint{{Key: "a", Effect: "Nonsense"}})
	return node
}

func evilPriorityClass(d *dice, i int) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("evil-%d", i)}, GlobalDefault: d.yes(),
		Value: pick[int32](d, 0, 1, math.MinInt32, 1_000_000_000), PreemptionPolicy: pick(d, nil, new(v1.PreemptNever)),
	}
}

func evilHyperNode(d *dice, i int) *topologyv1alpha1.HyperNode {
	hyperNode := &topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("evil-%d", i)}}
	hyperNode.Spec.Tier, hyperNode.Spec.TierName = pick(d, 0, 1, 2, math.MaxInt32), pick(d, "", "rack")
	for range 1 + d.below(3) {
		member := topologyv1alpha1.MemberSpec{Type: pick(d, topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberTypeHyperNode)}
		switch d.below(4) {
		case 0:
			member.Selector.ExactMatch = &topologyv1alpha1.ExactMatch{Name: pick(d, "n", evilName(d), hyperNode.Name, "innocent")}
		case 1:
			member.Selector.RegexMatch = &topologyv1alpha1.RegexMatch{Pattern: pick(d, "(", ".*", "(a{1000}){1000}", "^n$")}
		case 2:
			member.Selector.LabelMatch = d.selector()
		}
		hyperNode.Spec.Members = append(hyperNode.Spec.Members, member)
	}
	return hyperNode
}
