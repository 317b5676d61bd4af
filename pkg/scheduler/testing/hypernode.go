// SPDX-License-Identifier: Apache-2.0

package testing

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// HyperNodeBuilder builds a HyperNode.
type HyperNodeBuilder struct{ hyperNode topologyv1alpha1.HyperNode }

// MakeHyperNode begins a HyperNode of tier 1 without members.
func MakeHyperNode() *HyperNodeBuilder {
	return &HyperNodeBuilder{topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: Created},
		Spec:       topologyv1alpha1.HyperNodeSpec{Tier: 1},
	}}
}

// Name names the HyperNode.
func (b *HyperNodeBuilder) Name(name string) *HyperNodeBuilder { b.hyperNode.Name = name; return b }

// Tier sets the tier. Nodes in a HyperNode of a lower tier are closer to each other.
func (b *HyperNodeBuilder) Tier(tier int) *HyperNodeBuilder { b.hyperNode.Spec.Tier = tier; return b }

// TierName names the tier.
func (b *HyperNodeBuilder) TierName(name string) *HyperNodeBuilder {
	b.hyperNode.Spec.TierName = name
	return b
}

// Nodes adds nodes to the HyperNode by name.
func (b *HyperNodeBuilder) Nodes(names ...string) *HyperNodeBuilder {
	return b.exactly(topologyv1alpha1.MemberTypeNode, names)
}

// NodesLike adds the nodes whose names the regular expression matches.
func (b *HyperNodeBuilder) NodesLike(pattern string) *HyperNodeBuilder {
	return b.member(topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberSelector{RegexMatch: &topologyv1alpha1.RegexMatch{Pattern: pattern}})
}

// NodesLabelled adds the nodes that have the label with this value.
func (b *HyperNodeBuilder) NodesLabelled(key, value string) *HyperNodeBuilder {
	return b.member(topologyv1alpha1.MemberTypeNode, topologyv1alpha1.MemberSelector{
		LabelMatch: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
	})
}

// HyperNodes adds HyperNodes, which must be of a lower tier, by name.
func (b *HyperNodeBuilder) HyperNodes(names ...string) *HyperNodeBuilder {
	return b.exactly(topologyv1alpha1.MemberTypeHyperNode, names)
}

func (b *HyperNodeBuilder) exactly(memberType topologyv1alpha1.MemberType, names []string) *HyperNodeBuilder {
	for _, name := range names {
		b.member(memberType, topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: name}})
	}
	return b
}

func (b *HyperNodeBuilder) member(memberType topologyv1alpha1.MemberType, selector topologyv1alpha1.MemberSelector) *HyperNodeBuilder {
	b.hyperNode.Spec.Members = append(b.hyperNode.Spec.Members, topologyv1alpha1.MemberSpec{Type: memberType, Selector: selector})
	return b
}

// Obj returns a copy of the HyperNode; the builder can be used further.
func (b *HyperNodeBuilder) Obj() *topologyv1alpha1.HyperNode { return b.hyperNode.DeepCopy() }

// PriorityClass returns a priority class.
func PriorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}
