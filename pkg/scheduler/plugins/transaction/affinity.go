// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
)

// readAffinity parses the pod's node selector and node affinity once for all nodes. Upstream's predicates leave the
// parsing to Kubernetes' NodeAffinity filter. Without a parsed result in the cycle state, the filter would parse
// thousands of terms again for each of thousands of nodes.
//
// readAffinity puts an empty term first, which matches no node. Because of it, PreFilter does not collect node names
// from the terms, which would be slow. The result is the same, because the filter checks each node.
func readAffinity(state fwk.CycleState, pod *v1.Pod) {
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil && len(required.NodeSelectorTerms) > 0 {
			own := *pod
			own.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: slices.Insert(slices.Clone(required.NodeSelectorTerms), 0, v1.NodeSelectorTerm{}),
			}}}
			pod = &own
		}
	}
	(&nodeaffinity.NodeAffinity{}).PreFilter(context.Background(), state, pod, nil)
}
