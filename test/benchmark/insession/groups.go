// SPDX-License-Identifier: Apache-2.0

package insession

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
)

// NodeGroups is a side's way to place a gang in one cluster.
type NodeGroups struct {
	// Plugin is the plugin's entry in the configuration.
	Plugin string
	// Require makes the PodGroup require one cluster.
	Require func(*v1beta1.PodGroup)
}

// RequiredCluster is our way.
func RequiredCluster() NodeGroups {
	return NodeGroups{
		Plugin: fmt.Sprintf("  - name: ibcluster\n    arguments:\n      ibcluster.levels: [%s, %s, %s]\n", ClusterLabel, SpineLabel, LeafLabel),
		Require: func(podGroup *v1beta1.PodGroup) {
			metav1.SetMetaDataAnnotation(&podGroup.ObjectMeta, ibcluster.ModeAnnotation, "required")
		},
	}
}

// The labels of nodes, from the widest group to the narrowest.
const (
	ClusterLabel = "ibcluster"
	SpineLabel   = "spine"
	LeafLabel    = "leaf"
)

// GatheredInCluster is our way with a topology: the gang is in one cluster, with a multiple of 8 members on each
// node.
func GatheredInCluster() NodeGroups {
	return NodeGroups{
		Require: func(podGroup *v1beta1.PodGroup) {
			metav1.SetMetaDataAnnotation(&podGroup.ObjectMeta, gangs.TopologyAnnotation,
				`{"gatherStrategy":[{"layer":"Cluster","strategy":"MustGather"},{"layer":"NodeTopologyLayer","podCountMultiple":8}]}`)
		},
	}
}

// Topology returns the topology of the clusters, for gathered gangs.
func Topology() *v1alpha1.ClusterNetworkTopology {
	topology := &v1alpha1.ClusterNetworkTopology{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultTopologyName}}
	topology.Spec.NetworkTopologySpec = []v1alpha1.NetworkTopologySpec{
		{TopologyLayer: "Cluster", LabelKey: []string{ClusterLabel}},
		{TopologyLayer: "Spine", ParentTopologyLayer: "Cluster", LabelKey: []string{SpineLabel}},
		{TopologyLayer: "Leaf", ParentTopologyLayer: "Spine", LabelKey: []string{LeafLabel}},
	}
	return topology
}
