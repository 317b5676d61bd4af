// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// constrain gives the pod random constraints on its node. Most pods get none.
func (g *gang) constrain(pod *v1.Pod) {
	if g.chance(15) {
		pod.Spec.NodeSelector = map[string]string{disk: pick(g.dice, "ssd", "hdd")}
	}
	if g.chance(15) {
		requirement := v1.NodeSelectorRequirement{Key: zone, Operator: pick(g.dice, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist)}
		if requirement.Operator == v1.NodeSelectorOpIn || requirement.Operator == v1.NodeSelectorOpNotIn {
			requirement.Values = []string{"zone-0", fmt.Sprintf("zone-%d", g.between(1, 2))}
		}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{requirement}},
			}},
		}}
	}
	if g.chance(20) {
		toleration := v1.Toleration{Key: "dedicated", Operator: v1.TolerationOpEqual, Value: pick(g.dice, "a", "b"), Effect: v1.TaintEffectNoSchedule}
		if g.chance(30) {
			toleration = v1.Toleration{Operator: v1.TolerationOpExists}
		}
		pod.Spec.Tolerations = []v1.Toleration{toleration}
	}
}

// couple makes the gang's pods depend on each other or on pods of other gangs. All pods get the same constraints, so
// the outcome can be checked without knowing the order of placement.
func (g *gang) couple() {
	appName := fmt.Sprintf("app-%d", g.IntN(3))
	for _, r := range g.roles {
		r.pod.Labels[app] = appName
	}
	kinds := g.Perm(len(couplings))[:pick(g.dice, 1, 1, 2)]
	for _, kind := range kinds {
		domain := pick(g.dice, zone, v1.LabelHostname)
		other := fmt.Sprintf("app-%d", g.IntN(3))
		for _, r := range g.roles {
			couplings[kind](g, r.pod, domain, other)
		}
	}
}

// couplings are the kinds of constraints between pods. domain is the topology key, and other is a value of the label
// app.
var couplings = []func(g *gang, pod *v1.Pod, domain, other string){
	// Anti-affinity between the pods.
	func(g *gang, pod *v1.Pod, domain, _ string) {
		antiAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = append(antiAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution, term(domain, gangLabel, g.name))
	},
	// Anti-affinity to an app.
	func(_ *gang, pod *v1.Pod, domain, other string) {
		antiAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = append(antiAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution, term(domain, app, other))
	},
	// Affinity between the pods, in a zone or on a node.
	func(g *gang, pod *v1.Pod, domain, _ string) {
		affinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term(domain, gangLabel, g.name)}
	},
	// Affinity to an app.
	func(_ *gang, pod *v1.Pod, domain, other string) {
		affinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term(domain, app, other)}
	},
	// Preferred anti-affinity between the pods.
	func(g *gang, pod *v1.Pod, domain, _ string) {
		antiAffinity(pod).PreferredDuringSchedulingIgnoredDuringExecution = []v1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: term(domain, gangLabel, g.name)}}
	},
	// Topology spread. With node constraints the domains could differ between the pods.
	func(g *gang, pod *v1.Pod, domain, other string) {
		pod.Spec.NodeSelector = nil
		if pod.Spec.Affinity != nil {
			pod.Spec.Affinity.NodeAffinity = nil
		}
		when := v1.DoNotSchedule
		if other == "app-0" {
			when = v1.ScheduleAnyway
		}
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: domain, WhenUnsatisfiable: when,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{gangLabel: g.name}},
		}}
	},
	// One host port each.
	func(_ *gang, pod *v1.Pod, _, other string) {
		port := 8000
		if other == "app-0" {
			port = 8001
		}
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{hostPort(port)}
	},
}

func affinity(pod *v1.Pod) *v1.PodAffinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	if pod.Spec.Affinity.PodAffinity == nil {
		pod.Spec.Affinity.PodAffinity = &v1.PodAffinity{}
	}
	return pod.Spec.Affinity.PodAffinity
}

func antiAffinity(pod *v1.Pod) *v1.PodAntiAffinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	if pod.Spec.Affinity.PodAntiAffinity == nil {
		pod.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	return pod.Spec.Affinity.PodAntiAffinity
}

func term(domain, label, value string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{TopologyKey: domain, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}}
}

func hostPort(port int) v1.ContainerPort {
	return v1.ContainerPort{ContainerPort: int32(port), HostPort: int32(port), Protocol: v1.ProtocolTCP}
}
