// SPDX-License-Identifier: Apache-2.0

package random

import (
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// checkAntiAffinity reports pods in one domain if the required anti-affinity of one of them, freshly placed or not,
// excludes the other. Pods are only ever added, so the rule must hold in the end whatever the order was.
func (s *scene) checkAntiAffinity() {
	s.pairs(func(p, other *placed) {
		if repels(p, other) || repels(other, p) {
			s.fault("antiaffinity", "%s on %s and %s on %s", p.key(), p.node.Name, other.key(), other.node.Name)
		}
	})
}

func repels(p, other *placed) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	for _, term := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if matches(term.LabelSelector, other.Pod) && together(term.TopologyKey, p.node, other.node) {
			return true
		}
	}
	return false
}

// checkAffinity reports freshly placed pods whose required affinity matches no other pod in their domain. The first pod
// that matches its own term is an exception: for each term, one such pod may be alone if no matching pod ran before in
// any domain.
func (s *scene) checkAffinity() {
	founders := map[string]string{}
	for _, p := range s.pods {
		if !p.fresh() || p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
			continue
		}
		for _, term := range p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if _, ok := p.node.Labels[term.TopologyKey]; !ok {
				s.fault("affinity", "%s needs label %s, which %s has not", p.key(), term.TopologyKey, p.node.Name)
				continue
			}
			company, earlier := false, false
			for _, other := range s.pods {
				if other != p && matches(term.LabelSelector, other.Pod) {
					company = company || together(term.TopologyKey, p.node, other.node)
					_, inDomain := other.node.Labels[term.TopologyKey]
					earlier = earlier || inDomain && !other.fresh()
				}
			}
			id := term.TopologyKey + metav1.FormatLabelSelector(term.LabelSelector)
			switch {
			case company:
			case !matches(term.LabelSelector, p.Pod):
				s.fault("affinity", "%s on %s is without %s", p.key(), p.node.Name, id)
			case earlier || founders[id] != "":
				s.fault("affinity", "%s on %s is apart from the others of %s (%s)", p.key(), p.node.Name, id, founders[id])
			default:
				founders[id] = p.key()
			}
		}
	}
}

// checkSpread reports domains with a freshly placed pod and more than maxSkew pods above the emptiest domain. All pods
// of a gang have the same constraint and may use all domains, so the emptiest domain only fills up. A domain that
// exceeds the skew in the end also exceeded it when its last pod was placed.
func (s *scene) checkSpread() {
	for _, p := range s.pods {
		if !p.fresh() {
			continue
		}
		for _, constraint := range p.Spec.TopologySpreadConstraints {
			if constraint.WhenUnsatisfiable != v1.DoNotSchedule {
				continue
			}
			domain, ok := p.node.Labels[constraint.TopologyKey]
			if !ok {
				s.fault("spread", "%s needs label %s, which %s has not", p.key(), constraint.TopologyKey, p.node.Name)
				continue
			}
			counts := map[string]int{}
			for _, node := range s.nodes {
				if value, ok := node.Labels[constraint.TopologyKey]; ok && selects(p.Pod, node) {
					counts[value] += 0
				}
			}
			for _, other := range s.pods {
				value, ok := other.node.Labels[constraint.TopologyKey]
				if _, counted := counts[value]; ok && counted && other.state != releasing && matches(constraint.LabelSelector, other.Pod) {
					counts[value]++
				}
			}
			least := math.MaxInt
			for _, n := range counts {
				least = min(least, n)
			}
			if counts[domain]-least > int(constraint.MaxSkew) {
				s.fault("spread", "%s: %s %s has %d pods, another %d", p.key(), constraint.TopologyKey, domain, counts[domain], least)
			}
		}
	}
}

func matches(selector *metav1.LabelSelector, pod *v1.Pod) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		panic(err)
	}
	return parsed.Matches(labels.Set(pod.Labels))
}

// together reports whether the nodes have the same value of the label.
func together(key string, l, r *v1.Node) bool {
	left, ok := l.Labels[key]
	right, also := r.Labels[key]
	return ok && also && left == right
}
