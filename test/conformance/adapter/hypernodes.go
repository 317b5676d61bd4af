// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// hyperNodes returns objects for a table's HyperNodes. Tables contain the data that upstream derives from objects. The
// names in this data may differ from the objects' names, tier names may be separate, or there are tiers and nodes
// without objects.
func hyperNodes(info *api.HyperNodesInfo) []*topologyv1alpha1.HyperNode {
	tierNames := map[int]string{}
	for name, tier := range info.HyperNodeTierNameMap() {
		tierNames[tier] = name
	}
	given, nodes := info.HyperNodes(), info.RealNodesSet()
	var all []*topologyv1alpha1.HyperNode
	for tier, names := range info.HyperNodesSetByTier() {
		for name := range names {
			hyperNode := &topologyv1alpha1.HyperNode{Spec: topologyv1alpha1.HyperNodeSpec{Tier: tier, Members: members(nodes[name])}}
			if info := given[name]; info != nil && info.HyperNode != nil {
				hyperNode = info.HyperNode.DeepCopy()
			}
			hyperNode.ObjectMeta = metav1.ObjectMeta{Name: name}
			hyperNode.Spec.TierName = cmp.Or(hyperNode.Spec.TierName, tierNames[tier])
			all = append(all, hyperNode)
		}
	}
	return all
}

func members(nodes sets.Set[string]) []topologyv1alpha1.MemberSpec {
	var all []topologyv1alpha1.MemberSpec
	for _, name := range sets.List(nodes) {
		all = append(all, topologyv1alpha1.MemberSpec{
			Type:     topologyv1alpha1.MemberTypeNode,
			Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: name}},
		})
	}
	return all
}
