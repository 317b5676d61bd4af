// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// Limits on the parts of a pod or PodGroup. Sessions process these parts for each node, each member or each other gang
// of the queue. The API server limits only the bytes of an object. So without these limits, a single object could delay
// all others for minutes. The limits are far above the needs of gangs.
const (
	// mostNames is how many kinds of resources a pod or PodGroup may request.
	mostNames = 100
	// mostOverPods is how many terms of pod affinity, anti-affinity and topology spread a pod may have. Each term is
	// matched against other pods, and upstream parses the affinity terms of every pod again in each session.
	mostOverPods = 50
	// mostRequirements is how many requirements on labels a pod may have. Each requirement is matched against the labels
	// of each node, once for all pods with equal requirements. So 1,000 requirements on each member of a gang of 100,
	// all different, take minutes on 5,000 nodes.
	mostRequirements = 100
	// mostTerms is how many tolerations a pod may have. The same limit applies to its volumes, containers and host
	// ports.
	mostTerms = 1000
	// mostValues is how many values the requirements on labels of one pod may list together. A label of each node is
	// compared with one value after the other.
	mostValues = 1000
	// mostOfPolicies is how many keys and values all sub-group policies of a PodGroup may have together.
	mostOfPolicies = 100
)

// bound is the number of parts of one kind, and the limit for this number.
type bound struct {
	n, most int
	field   string
}

// excess describes the first bound whose limit is exceeded; empty if none is exceeded.
func excess(bounds ...bound) string {
	for _, b := range bounds {
		if b.n > b.most {
			return fmt.Sprintf("%s: %d, must be at most %d", b.field, b.n, b.most)
		}
	}
	return ""
}

// tooLarge describes the first part of the PodGroup, or of one of its pending pods, that exceeds its limit; empty if
// none does.
func tooLarge(job *api.JobInfo) string {
	if wrong := groupExcess(&job.PodGroup.Spec); wrong != "" {
		return wrong
	}
	first, wrong := "", ""
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if first != "" && task.Name > first {
			continue // each session must report the same pod, the first by name
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
		policies += policySize(policy.LabelSelector, policy.MatchLabelKeys)
	}
	return excess(bound{names, mostNames, "resource names in spec.minResources"},
		bound{policies, mostOfPolicies, "policies, label keys and values in spec.subGroupPolicy"})
}

func policySize(selector *metav1.LabelSelector, keys []string) int {
	requirements, values := selectorSize(selector)
	return 1 + len(keys) + requirements + values
}

// withinPolicies returns the sub-group policies of a PodGroup, cut at mostOfPolicies, because the books match each
// version of each pod of the gang against them. One policy without a selector replaces the policies beyond the limit.
// It has as many keys as the replaced policies have keys and values, up to ten times the limit. So tooLarge still finds
// the gang too large.
func withinPolicies(policies []v1beta1.SubGroupPolicySpec) []v1beta1.SubGroupPolicySpec {
	kept, keptSize, size := len(policies), 0, 0
	for i := range policies {
		before := size
		size += policySize(policies[i].LabelSelector, policies[i].MatchLabelKeys)
		if before <= mostOfPolicies && size > mostOfPolicies {
			kept, keptSize = i, before
		}
	}
	if kept == len(policies) {
		return policies
	}
	rest := min(size, 10*mostOfPolicies) - keptSize - 1
	return append(slices.Clone(policies[:kept]), v1beta1.SubGroupPolicySpec{Name: policies[kept].Name, MatchLabelKeys: slices.Repeat([]string{"too-many"}, rest)})
}

// podExcess describes the first part of the pod that exceeds its limit; empty if none does. It is called for each
// pending pod in each session, so it allocates no memory for a pod within the limits.
func podExcess(spec *v1.PodSpec) string {
	s := sizeOf(spec)
	containers := len(spec.Containers) + len(spec.InitContainers)
	if s.kinds <= mostNames && s.over <= mostOverPods && s.values <= mostValues && s.requirements <= mostRequirements &&
		max(s.hostPorts, containers, len(spec.Tolerations), len(spec.Volumes)) <= mostTerms {
		return ""
	}
	if s.kinds > mostNames {
		s.kinds = differentKinds(spec)
	}
	return excess(bound{s.kinds, mostNames, "resource names in requests of containers and in spec.overhead"},
		bound{s.over, mostOverPods, "pod affinity terms of spec.affinity and spec.topologySpreadConstraints"},
		bound{s.requirements, mostRequirements, "requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints"},
		bound{s.values, mostValues, "values of requirements in spec.nodeSelector, spec.affinity and spec.topologySpreadConstraints"},
		bound{len(spec.Tolerations), mostTerms, "spec.tolerations"},
		bound{len(spec.Volumes), mostTerms, "spec.volumes"},
		bound{containers, mostTerms, "containers"},
		bound{s.hostPorts, mostTerms, "host ports of containers"})
}

// podSize counts the parts of a pod that sessions process one by one: kinds of resources, once for each container; host
// ports; pod affinity terms; and requirements of selectors with their values.
type podSize struct{ kinds, hostPorts, over, requirements, values int }

func sizeOf(spec *v1.PodSpec) podSize {
	s := podSize{kinds: len(spec.Overhead), over: len(spec.TopologySpreadConstraints), requirements: len(spec.NodeSelector)}
	s.addContainers(spec.InitContainers)
	s.addContainers(spec.Containers)
	for i := range spec.TopologySpreadConstraints {
		s.addSelector(spec.TopologySpreadConstraints[i].LabelSelector)
	}
	if affinity := spec.Affinity; affinity != nil {
		s.addNodeAffinity(affinity.NodeAffinity)
		if over := affinity.PodAffinity; over != nil {
			s.addTerms(over.RequiredDuringSchedulingIgnoredDuringExecution, over.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if over := affinity.PodAntiAffinity; over != nil {
			s.addTerms(over.RequiredDuringSchedulingIgnoredDuringExecution, over.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return s
}

func (s *podSize) addContainers(containers []v1.Container) {
	for i := range containers {
		s.kinds += len(containers[i].Resources.Requests) // only requests, because the API server adds a request for each limit
		for j := range containers[i].Ports {
			if containers[i].Ports[j].HostPort > 0 {
				s.hostPorts++
			}
		}
	}
}

// differentKinds counts the kinds of resources that the pod's containers and overhead request, each kind once.
func differentKinds(spec *v1.PodSpec) int {
	all := resourceNames{}
	all.addList(spec.Overhead)
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all.addList(containers[i].Resources.Requests)
		}
	}
	return len(all)
}

// addNodeAffinity adds the requirements of the node affinity, and their values. A term without requirements counts as one
// requirement.
func (s *podSize) addNodeAffinity(affinity *v1.NodeAffinity) {
	if affinity == nil {
		return
	}
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i := range required.NodeSelectorTerms {
			s.addNodeTerm(&required.NodeSelectorTerms[i])
		}
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		s.addNodeTerm(&affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
}

func (s *podSize) addNodeTerm(term *v1.NodeSelectorTerm) {
	s.requirements += max(1, len(term.MatchExpressions)+len(term.MatchFields))
	for i := range term.MatchExpressions {
		s.values += len(term.MatchExpressions[i].Values)
	}
	for i := range term.MatchFields {
		s.values += len(term.MatchFields[i].Values)
	}
}

func (s *podSize) addTerms(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	for i := range required {
		s.addTerm(&required[i])
	}
	for i := range preferred {
		s.addTerm(&preferred[i].PodAffinityTerm)
	}
}

// addTerm counts a pod affinity term in the field over, because it is matched against other pods. It also counts the
// term's requirements and values.
func (s *podSize) addTerm(term *v1.PodAffinityTerm) {
	s.over++
	s.addSelector(term.LabelSelector)
	s.addSelector(term.NamespaceSelector)
	s.values += len(term.Namespaces)
}

func (s *podSize) addSelector(selector *metav1.LabelSelector) {
	requirements, values := selectorSize(selector)
	s.requirements, s.values = s.requirements+requirements, s.values+values
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
