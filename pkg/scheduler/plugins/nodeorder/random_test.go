// SPDX-License-Identifier: Apache-2.0

package nodeorder_test

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const gpu = "nvidia.com/gpu"

var namespaces = []string{"ns", "other"}

// objects are the Services and controllers of all random clusters. Some select pods, some select no pod, and one has no
// selector.
func objects() []runtime.Object {
	service := func(namespace, name string, selector map[string]string) *v1.Service {
		return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{Selector: selector}}
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "owner"}
	appA := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	out := []runtime.Object{
		service("ns", "none", nil),
		service("ns", "empty", map[string]string{}),
		service("ns", "job-1", map[string]string{"job": "1"}),
		service("ns", "job-1-app-a", map[string]string{"job": "1", "app": "a"}),
		service("ns", "job-2", map[string]string{"job": "2"}),
		service("other", "app-b", map[string]string{"app": "b"}),
		&v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: map[string]string{"app": "b"}}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: appA}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{}}},
	}
	for _, namespace := range namespaces {
		out = append(out, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"team": namespace}}})
	}
	return out
}

// dice generates random clusters.
type dice struct{ *rand.Rand }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

func (d dice) cluster(nodes, placed, pending int) sessiontest.ClusterSpec {
	var w sessiontest.ClusterSpec
	zones := pick(d, []string{""}, []string{"z1"}, []string{"z1"}, []string{"z1", "z2", "z3"}, []string{"z1", "z2", ""})
	hosts, shunned := !d.oneIn(4), d.oneIn(2)
	for i := range nodes {
		w.Nodes = append(w.Nodes, d.node(fmt.Sprintf("n%d", i), pick(d, zones...), hosts || d.oneIn(2), shunned))
	}
	for i := range 4 {
		for _, namespace := range namespaces {
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Namespace(namespace).Name(fmt.Sprintf("g%d", i)).MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj())
		}
	}
	affine := d.oneIn(2)
	for i := range placed + pending {
		pod := d.pod(fmt.Sprintf("p%d", i), affine)
		if i < placed {
			pod.Spec.NodeName, pod.Status.Phase = pick(d, w.Nodes...).Name, v1.PodRunning
			if d.oneIn(8) {
				pod.DeletionTimestamp = &schedtest.Created
			}
			if d.oneIn(4) {
				pod.Annotations = nil // a pod without a gang
			}
		}
		w.Pods = append(w.Pods, pod)
	}
	return w
}

func (d dice) node(name, zone string, host, shunned bool) *v1.Node {
	b := schedtest.MakeNode().Name(name).Label("disk", pick(d, "ssd", "hdd")).Label("row", pick(d, "1", "2", "3"))
	capacity := schedtest.Resources{"cpu": pick(d, "4", "8", "7900m", "0"), "memory": pick(d, "16Gi", "7Gi", "1000000001", "0"), "pods": "110"}
	switch d.IntN(6) {
	case 0:
		delete(capacity, "cpu")
	case 1:
		delete(capacity, "memory")
	case 2, 3, 4:
		capacity[gpu] = pick(d, "8", "4", "0")
	}
	b.Capacity(capacity)
	if zone != "" {
		b.Label(v1.LabelTopologyZone, zone)
	}
	node := b.Obj()
	if !host {
		delete(node.Labels, v1.LabelHostname)
	}
	for d.oneIn(2) && shunned {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{
			Key: pick(d, "k1", "k2"), Value: pick(d, "", "v"), Effect: pick(d, v1.TaintEffectPreferNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoSchedule),
		})
	}
	return node
}

func (d dice) pod(name string, affine bool) *v1.Pod {
	b := schedtest.MakePod().Namespace(pick(d, namespaces...)).Name(name).Group(fmt.Sprintf("g%d", d.IntN(4)))
	if d.oneIn(2) {
		b.Label("app", pick(d, "a", "b", "c"))
	}
	if d.oneIn(2) {
		b.Label("job", pick(d, "1", "2", "3"))
	}
	pod := b.Obj()
	pod.Spec.Containers = d.containers("c", 1+d.IntN(2))
	if d.oneIn(3) {
		pod.Spec.InitContainers = d.containers("i", 1+d.IntN(3))
		for i := range pod.Spec.InitContainers {
			if d.oneIn(2) { // a sidecar container
				pod.Spec.InitContainers[i].RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			}
		}
	}
	if d.oneIn(5) {
		pod.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("120Mi")}
	}
	if d.oneIn(6) {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("3"), "memory": resource.MustParse("3Gi")}}
	}
	for d.oneIn(3) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
			Key: pick(d, "k1", "k2"), Operator: pick(d, v1.TolerationOpExists, v1.TolerationOpEqual), Value: pick(d, "", "v"),
			Effect: pick(d, "", v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoSchedule),
		})
	}
	if d.oneIn(4) {
		pod.Spec.NodeSelector = map[string]string{"row": pick(d, "1", "2")}
	}
	if d.oneIn(3) {
		pod.OwnerReferences = []metav1.OwnerReference{{
			Controller: new(true), Name: pick(d, "owner", "owner", "gone"),
			APIVersion: pick(d, "v1", "apps/v1", "apps/v1", "batch.volcano.sh/v1alpha1"),
			Kind:       pick(d, "ReplicaSet", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"),
		}}
	}
	if d.oneIn(6) {
		pod.Spec.TopologySpreadConstraints = d.constraints()
	}
	pod.Spec.Affinity = d.affinity(affine)
	return pod
}

func (d dice) containers(prefix string, n int) []v1.Container {
	var out []v1.Container
	for i := range n {
		requests := v1.ResourceList{}
		for name, amounts := range map[v1.ResourceName][]string{
			"cpu": {"1", "500m", "0", "3"}, "memory": {"1Gi", "0", "500M", "100m"}, gpu: {"1", "2", "0"}, "ephemeral-storage": {"1Gi"},
		} {
			if d.oneIn(2) {
				requests[name] = resource.MustParse(pick(d, amounts...))
			}
		}
		out = append(out, v1.Container{
			Name: fmt.Sprintf("%s%d", prefix, i), Resources: v1.ResourceRequirements{Requests: requests},
			Image: pick(d, "small", "large:v1", "reg:5000/huge", "reg:5000/huge:latest", "absent", ""),
		})
	}
	return out
}

func (d dice) constraints() []v1.TopologySpreadConstraint {
	var out []v1.TopologySpreadConstraint
	for range 1 + d.IntN(2) {
		out = append(out, v1.TopologySpreadConstraint{
			MaxSkew: int32(1 + d.IntN(3)), TopologyKey: pick(d, v1.LabelHostname, v1.LabelTopologyZone, "row", "absent"),
			WhenUnsatisfiable: pick(d, v1.ScheduleAnyway, v1.ScheduleAnyway, v1.DoNotSchedule), LabelSelector: d.selector(),
		})
	}
	return out
}

// affinity returns random preferred and required node and pod affinity. Some terms cannot be parsed.
func (d dice) affinity(pods bool) *v1.Affinity {
	if d.oneIn(2) {
		return nil
	}
	out := &v1.Affinity{}
	if d.oneIn(2) {
		out.NodeAffinity = &v1.NodeAffinity{}
		for range d.IntN(3) {
			out.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
				out.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: int32(d.IntN(4)), Preference: d.nodeTerm()})
		}
		if d.oneIn(3) {
			out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{d.nodeTerm(), d.nodeTerm()}}
		}
	}
	if !pods || d.oneIn(2) {
		return out
	}
	if d.oneIn(2) {
		out.PodAffinity = &v1.PodAffinity{}
		out.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, out.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = d.podTerms()
	} else {
		out.PodAntiAffinity = &v1.PodAntiAffinity{}
		out.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, out.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = d.podTerms()
	}
	return out
}

func (d dice) nodeTerm() v1.NodeSelectorTerm {
	var term v1.NodeSelectorTerm
	for range d.IntN(3) {
		operator := pick(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn)
		if d.oneIn(30) {
			operator = "Sometimes"
		}
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: "disk", Operator: operator, Values: []string{pick(d, "ssd", "hdd")}})
	}
	if d.oneIn(3) {
		term.MatchFields = []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}
	}
	return term
}

func (d dice) podTerms() (preferred []v1.WeightedPodAffinityTerm, required []v1.PodAffinityTerm) {
	for range d.IntN(3) {
		term := v1.PodAffinityTerm{TopologyKey: pick(d, v1.LabelHostname, "row", "absent"), LabelSelector: d.selector()}
		switch d.IntN(4) {
		case 0:
			term.Namespaces = []string{pick(d, namespaces...)}
		case 1:
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(d, namespaces...)}}
		}
		if d.oneIn(2) {
			required = append(required, term)
		} else {
			preferred = append(preferred, v1.WeightedPodAffinityTerm{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: term})
		}
	}
	return preferred, required
}

func (d dice) selector() *metav1.LabelSelector {
	if d.oneIn(30) { // this selector cannot be parsed
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Sometimes"}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(d, "a", "b", "c")}}
}
