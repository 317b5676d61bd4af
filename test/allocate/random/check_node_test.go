// SPDX-License-Identifier: Apache-2.0

package random

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// checkPods checks each placed pod with its node alone: whether the pod may be placed at all, whether it accepts the
// node, and whether the node accepts it.
func (s *scene) checkPods() {
	for _, p := range s.pods {
		if !p.fresh() {
			continue
		}
		if len(p.Spec.SchedulingGates) > 0 {
			s.fault("gate", "%s is gated and put on %s", p.key(), p.node.Name)
		}
		if len(p.Spec.Containers[0].Resources.Requests) == 0 {
			s.fault("besteffort", "%s asks for nothing, which is not allocate's, and is put on %s", p.key(), p.node.Name)
		}
		if !selects(p.Pod, p.node) {
			s.fault("selector", "%s does not want %s with %v", p.key(), p.node.Name, p.node.Labels)
		}
		taints := p.node.Spec.Taints
		if p.node.Spec.Unschedulable {
			taints = append(slices.Clone(taints), v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
		}
		for _, taint := range taints {
			if taint.Effect != v1.TaintEffectPreferNoSchedule && !tolerates(p.Pod, taint) {
				s.fault("taint", "%s does not tolerate %s of %s", p.key(), taint.ToString(), p.node.Name)
			}
		}
	}
}

// selects reports whether the pod's node selector and node affinity match the node.
func selects(pod *v1.Pod, node *v1.Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if found, ok := node.Labels[key]; !ok || found != value {
			return false
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(term v1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r v1.NodeSelectorRequirement) bool {
			value, has := node.Labels[r.Key]
			switch r.Operator {
			case v1.NodeSelectorOpIn:
				return !has || !slices.Contains(r.Values, value)
			case v1.NodeSelectorOpNotIn:
				return has && slices.Contains(r.Values, value)
			case v1.NodeSelectorOpExists:
				return !has
			case v1.NodeSelectorOpDoesNotExist:
				return has
			}
			panic("the generator does not use operator " + r.Operator)
		})
	})
}

func tolerates(pod *v1.Pod, taint v1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
		return (t.Effect == "" || t.Effect == taint.Effect) &&
			(t.Key == "" && t.Operator == v1.TolerationOpExists || t.Key == taint.Key) &&
			(t.Operator == v1.TolerationOpExists || t.Value == taint.Value)
	})
}

// checkNodes adds up the requests of the pods on each node. Bound pods must fit beside all other pods. Pipelined pods
// must fit once the releasing pods are gone.
func (s *scene) checkNodes() {
	for name, node := range s.nodes {
		now, later := v1.ResourceList{}, v1.ResourceList{}
		podsNow, podsLater := int64(0), int64(0)
		touched := false
		for _, p := range s.pods {
			if p.node != node {
				continue
			}
			touched = touched || p.fresh()
			if p.state != pipelined {
				add(now, p.Pod)
				podsNow++
			}
			if p.state != releasing {
				add(later, p.Pod)
				podsLater++
			}
		}
		if !touched {
			continue
		}
		for when, sum := range map[string]v1.ResourceList{"now": now, "once pods are released": later} {
			for resource, asked := range sum {
				if has := node.Status.Allocatable[resource]; asked.Cmp(has) > 0 {
					s.fault("capacity", "node %s has %s of %s, its pods ask for %s %s", name, has.String(), resource, asked.String(), when)
				}
			}
		}
		if has := node.Status.Allocatable.Pods().Value(); max(podsNow, podsLater) > has {
			s.fault("pods", "node %s takes %d pods, has %d, and %d once pods are released", name, has, podsNow, podsLater)
		}
	}
}

func add(sum v1.ResourceList, pod *v1.Pod) {
	for _, container := range pod.Spec.Containers {
		for resource, asked := range container.Resources.Requests {
			total := sum[resource]
			total.Add(asked)
			sum[resource] = total
		}
	}
}

// checkPorts reports host ports that two pods of one node use, one of them freshly placed.
func (s *scene) checkPorts() {
	s.pairs(func(p, other *placed) {
		if p.node != other.node || (other.fresh() && p.key() > other.key()) {
			return
		}
		for _, mine := range p.Spec.Containers[0].Ports {
			for _, theirs := range other.Spec.Containers[0].Ports {
				if mine.HostPort > 0 && mine.HostPort == theirs.HostPort && mine.Protocol == theirs.Protocol {
					s.fault("port", "%s and %s both want port %d of %s", p.key(), other.key(), mine.HostPort, p.node.Name)
				}
			}
		}
	})
}

// pairs calls for every freshly placed pod with every other placed pod.
func (s *scene) pairs(fn func(p, other *placed)) {
	for _, p := range s.pods {
		if !p.fresh() {
			continue
		}
		for _, other := range s.pods {
			if p != other {
				fn(p, other)
			}
		}
	}
}
