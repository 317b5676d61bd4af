// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
)

// readAffinity reads the pod's node selector and node affinity once for all nodes. Upstream's predicates leave it to
// Kubernetes' filter, which reads them again for each node when it finds nothing here: thousands of terms for thousands of nodes.
//
// What the reading says of nodes is left to the filter, which says it of each. It would be the union of the names in all
// terms, made term by term; one that is empty, which takes no node, ends that at the first.
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
