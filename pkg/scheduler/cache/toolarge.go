// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Bounds of what sessions look at again for each node, each member or each other gang of the queue: a single object within the
// API server's limits, which are those of its bytes, could keep all others waiting for minutes. They are far beyond what
// gangs need.
const (
	// mostNames is how many kinds of resources a pod or PodGroup may ask for.
	mostNames = 100
	// mostOverPods is how many terms a pod may have that are held against other pods.
	mostOverPods = 100
	// mostTerms is how many of each other kind of thing a pod may have: requirements on nodes, tolerations, ports and such.
	mostTerms = 1000
	// mostValues is how many values these requirements may list together.
	mostValues = 10_000
	// mostOfPolicies is how many keys and values a PodGroup's sub-group policies may have together.
	mostOfPolicies = 100
)

// bound is how many there are of something, and how many there may be.
type bound struct {
	n, most int
	field   string
}

// excess says of which there are too many; empty when of none.
func excess(bounds ...bound) string {
	for _, b := range bounds {
		if b.n > b.most {
			return fmt.Sprintf("%s: %d, it must be at most %d", b.field, b.n, b.most)
		}
	}
	return ""
}

// tooLarge says of what the PodGroup, or a pod of it that waits, has more than sessions reckon with; empty when of nothing.
func tooLarge(job *api.JobInfo) string {
	if wrong := groupExcess(&job.PodGroup.Spec); wrong != "" {
		return wrong
	}
	first, wrong := "", ""
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if first != "" && task.Name > first {
			continue // the same pod is told each time
		}
		if more := podExcess(&task.Pod.Spec); more != "" {
			first, wrong = task.Name, fmt.Sprintf("pod %s: %s", task.Name, more)
		}
	}
	return wrong
}

func groupExcess(spec *scheduling.PodGroupSpec) string {
	names := 0
	if spec.MinResources != nil {
		names = len(*spec.MinResources)
	}
	policies := 0
	for i := range spec.SubGroupPolicy {
		policy := &spec.SubGroupPolicy[i]
		requirements, values := selectorSize(policy.LabelSelector)
		policies += 1 + len(policy.MatchLabelKeys) + requirements + values
	}
	return excess(bound{names, mostNames, "kinds of resources in spec.minResources"},
		bound{policies, mostOfPolicies, "policies, label keys and values in spec.subGroupPolicy"})
}

func podExcess(spec *v1.PodSpec) string {
	names, ports := containersSize(spec)
	requirements, values := len(spec.NodeSelector), 0
	add := func(r, v int) { requirements, values = requirements+r, values+v }
	over := len(spec.TopologySpreadConstraints)
	for i := range spec.TopologySpreadConstraints {
		add(selectorSize(spec.TopologySpreadConstraints[i].LabelSelector))
	}
	if spec.Affinity != nil {
		add(nodeAffinitySize(spec.Affinity.NodeAffinity))
		for _, term := range podTerms(spec.Affinity) {
			over++
			add(selectorSize(term.LabelSelector))
			add(selectorSize(term.NamespaceSelector))
			values += len(term.Namespaces)
		}
	}
	return excess(bound{names, mostNames, "kinds of resources in requests of its containers"},
		bound{over, mostOverPods, "terms of spec.affinity over pods and spec.topologySpreadConstraints"},
		bound{requirements, mostTerms, "requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints"},
		bound{values, mostValues, "values of these requirements"},
		bound{len(spec.Tolerations), mostTerms, "spec.tolerations"},
		bound{len(spec.Volumes), mostTerms, "spec.volumes"},
		bound{len(spec.Containers) + len(spec.InitContainers), mostTerms, "containers"},
		bound{ports, mostTerms, "ports of its containers"})
}

// containersSize counts kinds of resources and ports. Kinds of several containers count once, when there are that many.
func containersSize(spec *v1.PodSpec) (names, ports int) {
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			names += max(len(containers[i].Resources.Requests), len(containers[i].Resources.Limits))
			ports += len(containers[i].Ports)
		}
	}
	if names += len(spec.Overhead); names <= mostNames {
		return names, ports
	}
	kinds := map[v1.ResourceName]bool{}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				kinds[name] = true
			}
		}
	}
	return len(kinds), ports
}

// nodeAffinitySize counts requirements, and their values. A term without any counts too.
func nodeAffinitySize(affinity *v1.NodeAffinity) (requirements, values int) {
	if affinity == nil {
		return 0, 0
	}
	add := func(term *v1.NodeSelectorTerm) {
		requirements += max(1, len(term.MatchExpressions)+len(term.MatchFields))
		for _, list := range [][]v1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
			for i := range list {
				values += len(list[i].Values)
			}
		}
	}
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i := range required.NodeSelectorTerms {
			add(&required.NodeSelectorTerms[i])
		}
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		add(&affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
	return requirements, values
}

// podTerms are the terms that are held against other pods.
func podTerms(affinity *v1.Affinity) (terms []*v1.PodAffinityTerm) {
	required := func(list []v1.PodAffinityTerm) {
		for i := range list {
			terms = append(terms, &list[i])
		}
	}
	preferred := func(list []v1.WeightedPodAffinityTerm) {
		for i := range list {
			terms = append(terms, &list[i].PodAffinityTerm)
		}
	}
	if affinity.PodAffinity != nil {
		required(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity.PodAntiAffinity != nil {
		required(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return terms
}

func selectorSize(selector *metav1.LabelSelector) (requirements, values int) {
	if selector == nil {
		return 0, 0
	}
	requirements = len(selector.MatchLabels) + len(selector.MatchExpressions)
	for i := range selector.MatchExpressions {
		values += len(selector.MatchExpressions[i].Values)
	}
	return requirements, values
}
