// SPDX-License-Identifier: Apache-2.0

package insession

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
)

// NodeGroups is a side's way to place a gang in one cluster.
type NodeGroups struct {
	// Plugin is the plugin's entry in the conf.
	Plugin string
	// Require makes the PodGroup ask for it.
	Require func(*v1beta1.PodGroup)
}

// RequiredCluster is ours.
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
