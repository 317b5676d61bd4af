// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
)

// drawHyperNodes puts most nodes into leaves of tier 1, and most leaves into spines of tier 2.
func (c *cluster) drawHyperNodes() {
	leaves := c.between(1, max(1, min(6, len(c.world.Nodes)/2)))
	c.leaves = make([][]string, leaves)
	for _, node := range c.world.Nodes {
		if !c.chance(10) {
			leaf := c.IntN(leaves)
			c.leaves[leaf] = append(c.leaves[leaf], node.Name)
		}
	}
	spines := make([][]string, c.between(1, 2))
	for i, nodes := range c.leaves {
		name := fmt.Sprintf("leaf-%d", i)
		c.addHyperNode(name, 1, topologyv1alpha1.MemberTypeNode, nodes)
		if !c.chance(15) {
			spine := c.IntN(len(spines))
			spines[spine] = append(spines[spine], name)
		}
	}
	for i, members := range spines {
		c.addHyperNode(fmt.Sprintf("spine-%d", i), 2, topologyv1alpha1.MemberTypeHyperNode, members)
	}
}

func (c *cluster) addHyperNode(name string, tier int, kind topologyv1alpha1.MemberType, members []string) {
	hyperNode := &topologyv1alpha1.HyperNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       topologyv1alpha1.HyperNodeSpec{Tier: tier, TierName: fmt.Sprintf("tier-%d", tier)},
	}
	for _, member := range members {
		hyperNode.Spec.Members = append(hyperNode.Spec.Members, topologyv1alpha1.MemberSpec{
			Type: kind, Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: member}},
		})
	}
	c.world.HyperNodes = append(c.world.HyperNodes, hyperNode)
}

// drawTopology gives most gangs, or their sub-groups, a network topology requirement.
func (g *gang) drawTopology(subGroupTierNames bool) {
	draw := func(named bool) *v1beta1.NetworkTopologySpec {
		tier := g.between(1, 2)
		spec := &v1beta1.NetworkTopologySpec{Mode: pick(g.dice, v1beta1.HardNetworkTopologyMode, v1beta1.HardNetworkTopologyMode, v1beta1.SoftNetworkTopologyMode)}
		if named {
			spec.HighestTierName = fmt.Sprintf("tier-%d", tier)
		} else {
			spec.HighestTierAllowed = &tier
		}
		return spec
	}
	if g.chance(70) {
		g.group.Spec.NetworkTopology = draw(g.chance(30))
	}
	for i := range g.group.Spec.SubGroupPolicy {
		if g.chance(50) {
			g.group.Spec.SubGroupPolicy[i].NetworkTopology = draw(subGroupTierNames && g.chance(30))
		}
	}
}

// home returns the nodes that the gang's running pods may be on: a random leaf, or all nodes if the cluster has no
// leaves or the leaf is empty.
func (g *gang) home() []string {
	if len(g.leaves) > 0 {
		if leaf := pick(g.dice, g.leaves...); len(leaf) > 0 {
			return leaf
		}
	}
	var all []string
	for _, node := range g.world.Nodes {
		all = append(all, node.Name)
	}
	return all
}
