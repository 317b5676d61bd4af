// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// podWithTerms returns a pod with some of each limited field.
func podWithTerms() *v1.Pod {
	all := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}}
	pod := schedtest.MakePod().Name("p0").Group("g").Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "8"}).Obj()
	pod.Spec.Affinity = &v1.Affinity{
		NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "a", Operator: v1.NodeSelectorOpIn, Values: []string{"x", "y"}}}},
		}}},
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: all, TopologyKey: v1.LabelHostname}}},
	}
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", LabelSelector: all}}
	return pod
}

// TestAPodWithoutExcessCostsNoAllocation checks that a pod within the limits costs no allocation, because each of
// thousands of waiting pods is checked.
func TestAPodWithoutExcessCostsNoAllocation(t *testing.T) {
	pod := podWithTerms()
	if allocations := testing.AllocsPerRun(100, func() {
		if wrong := podExcess(&pod.Spec); wrong != "" {
			t.Error(wrong)
		}
	}); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// TestPortsOfTheHostCount checks that only host ports count against the limit of ports. Other container ports are only
// informative, and media servers list thousands of them.
func TestPortsOfTheHostCount(t *testing.T) {
	for hostPort, want := range map[int32]string{0: "", 1: "host ports of containers: 1001, must be at most 1000"} {
		pod := podWithTerms()
		for i := range int32(1001) {
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, v1.ContainerPort{ContainerPort: 1 + i, HostPort: hostPort * (1 + i)})
		}
		if got := podExcess(&pod.Spec); got != want {
			t.Errorf("the message is %q, want %q", got, want)
		}
	}
}

// TestRequirementsOnNodesCount checks that requirements of node affinity count against the limit of requirements. If
// the members of a gang have different requirements, these are compared with the labels of each node for each pod.
func TestRequirementsOnNodesCount(t *testing.T) {
	for requirements, want := range map[int]string{
		100: "",
		101: "requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints: 101, must be at most 100",
	} {
		pod := schedtest.MakePod().Name("p0").Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj()
		term := v1.NodeSelectorTerm{}
		for i := range requirements {
			term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: fmt.Sprint("label-", i), Operator: v1.NodeSelectorOpDoesNotExist})
		}
		for kind, affinity := range map[string]*v1.NodeAffinity{
			"required":  {RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}},
			"preferred": {PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1, Preference: term}}},
		} {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: affinity}
			if got := podExcess(&pod.Spec); got != want {
				t.Errorf("%d requirements of a %s term: the pod has %q, want %q", requirements, kind, got, want)
			}
		}
	}
}
