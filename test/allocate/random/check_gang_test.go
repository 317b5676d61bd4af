// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// checkGangs reports gangs that are bound only in part, below one of their minima.
func (s *scene) checkGangs() {
	for name := range s.groups {
		if len(s.freshOf(name)) == 0 {
			continue
		}
		for _, short := range s.shortOf(name, s.there) {
			s.fault("gang", "%s", short)
		}
		s.checkSubGroups(name)
	}
}

// shortOf returns the minima that the gang does not reach. It counts the members for which the function there returns
// true.
func (s *scene) shortOf(name string, there func(*v1.Pod) bool) []string {
	group := s.groups[name]
	total, roles, subs := 0, map[string]int{}, map[string]int{}
	for _, pod := range s.members[name] {
		if there(pod) {
			total++
			roles[pod.Annotations[batchv1alpha1.TaskSpecKey]]++
			subs[pod.Labels[subLabel]]++
		}
	}
	var out []string
	if total < int(group.Spec.MinMember) {
		out = append(out, fmt.Sprintf("%s has %d members of %d", name, total, group.Spec.MinMember))
	}
	sum := int32(0)
	for _, n := range group.Spec.MinTaskMember {
		sum += n
	}
	for role, n := range group.Spec.MinTaskMember {
		if sum <= group.Spec.MinMember && roles[role] < int(n) { // Role minima whose sum exceeds minMember do not count, as in upstream.
			out = append(out, fmt.Sprintf("%s has %d members of role %s of %d", name, roles[role], role, n))
		}
	}
	for _, policy := range group.Spec.SubGroupPolicy {
		whole := 0
		for _, n := range subs {
			if n >= int(*policy.SubGroupSize) {
				whole++
			}
		}
		if whole < int(*policy.MinSubGroups) {
			out = append(out, fmt.Sprintf("%s has %d whole sub-groups of %d", name, whole, *policy.MinSubGroups))
		}
	}
	return out
}

// there reports whether the member counts for the gang's minima. A waiting member without requests counts, because
// backfill places it.
func (s *scene) there(pod *v1.Pod) bool { return s.has(pod) || asksNothing(pod) }

// has reports whether the member runs or is bound.
func (s *scene) has(pod *v1.Pod) bool {
	return runs(pod) && pod.DeletionTimestamp == nil || s.outcome.bound[pod.Namespace+"/"+pod.Name] != ""
}

func asksNothing(pod *v1.Pod) bool { return len(pod.Spec.Containers[0].Resources.Requests) == 0 }

// checkSubGroups reports sub-groups that are placed only in part.
func (s *scene) checkSubGroups(name string) {
	for _, policy := range s.groups[name].Spec.SubGroupPolicy {
		got, begun := map[string]int{}, map[string]bool{}
		for _, pod := range s.members[name] {
			sub, key := pod.Labels[subLabel], pod.Namespace+"/"+pod.Name
			if s.there(pod) || s.outcome.pipelined[key] != "" {
				got[sub]++
			}
			begun[sub] = begun[sub] || s.outcome.bound[key] != ""
		}
		for _, sub := range sortedKeys(begun) {
			if begun[sub] && got[sub] < int(*policy.SubGroupSize) {
				s.fault("subgroup", "sub-group %s of %s has %d members of %d", sub, name, got[sub], *policy.SubGroupSize)
			}
		}
	}
}

// checkTopology reports gangs and sub-groups with members in more than one HyperNode of the highest allowed tier.
func (s *scene) checkTopology() {
	for name, group := range s.groups {
		s.checkWithin(name, group.Spec.NetworkTopology, func(*v1.Pod) string { return name })
		for _, policy := range group.Spec.SubGroupPolicy {
			s.checkWithin(name, policy.NetworkTopology, func(pod *v1.Pod) string { return name + "/" + pod.Labels[subLabel] })
		}
	}
}

// checkWithin checks each part of the gang separately.
func (s *scene) checkWithin(gang string, spec *v1beta1.NetworkTopologySpec, part func(*v1.Pod) string) {
	if spec == nil || spec.Mode != v1beta1.HardNetworkTopologyMode {
		return
	}
	before, after, fresh := map[string][]string{}, map[string][]string{}, map[string]bool{}
	for _, p := range s.pods {
		if gangOf(p.Pod) != gang || p.state == releasing {
			continue
		}
		id := part(p.Pod)
		after[id] = append(after[id], p.node.Name)
		if p.fresh() {
			fresh[id] = true
		} else {
			before[id] = append(before[id], p.node.Name)
		}
	}
	for _, id := range sortedKeys(fresh) {
		if s.within(spec, before[id]) && !s.within(spec, after[id]) {
			s.fault("topology", "%s is on %v, which no HyperNode of tier %s holds", id, after[id], tierOf(spec))
		}
	}
}

func tierOf(spec *v1beta1.NetworkTopologySpec) string {
	if spec.HighestTierAllowed == nil {
		return spec.HighestTierName
	}
	return fmt.Sprintf("tier-%d", *spec.HighestTierAllowed)
}

// within reports whether one HyperNode of the tier or a lower one has all of the nodes. Tiers are named by their
// number.
func (s *scene) within(spec *v1beta1.NetworkTopologySpec, nodes []string) bool {
	members := map[string][]string{}
	var expand func(name string) []string
	for _, hyperNode := range s.world.HyperNodes {
		for _, member := range hyperNode.Spec.Members {
			members[hyperNode.Name] = append(members[hyperNode.Name], member.Selector.ExactMatch.Name)
		}
	}
	expand = func(name string) []string {
		inner, isHyperNode := members[name]
		if !isHyperNode {
			return []string{name}
		}
		var out []string
		for _, member := range inner {
			out = append(out, expand(member)...)
		}
		return out
	}
	for _, hyperNode := range s.world.HyperNodes {
		if hyperNode.Spec.TierName > tierOf(spec) {
			continue
		}
		all := expand(hyperNode.Name)
		if !slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(all, node) }) {
			return true
		}
	}
	return len(nodes) == 0
}

// checkQueues reports queues that exceed their capability of a resource that one of their fresh pods requests.
// Without a plugin for queues there is nothing to check.
func (s *scene) checkQueues() {
	if !strings.Contains(s.conf, "proportion") && !strings.Contains(s.conf, "capacity") {
		return
	}
	for _, queue := range s.world.Queues {
		used, asked := v1.ResourceList{}, v1.ResourceList{}
		for _, p := range s.pods {
			group := s.groups[gangOf(p.Pod)]
			if group == nil || group.Spec.Queue != queue.Name || p.state == releasing {
				continue
			}
			add(used, p.Pod)
			if p.fresh() {
				add(asked, p.Pod)
			}
		}
		for resource, limit := range queue.Spec.Capability {
			if total := used[resource]; !asked.Name(resource, limit.Format).IsZero() && total.Cmp(limit) > 0 {
				s.fault("queue", "queue %s holds %s of %s, its capability is %s", queue.Name, total.String(), resource, limit.String())
			}
		}
	}
}
