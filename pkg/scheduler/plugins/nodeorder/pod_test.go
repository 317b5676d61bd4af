// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPreferredTermsAreNotParsedToSignATask checks that the signature of a task does not parse preferred terms. The
// parsed terms of each pending pod would take several times the memory of the pod.
func TestPreferredTermsAreNotParsedToSignATask(t *testing.T) {
	preferring := func(terms int) *v1.Pod {
		weighted := make([]v1.WeightedPodAffinityTerm, terms)
		for i := range weighted {
			weighted[i] = v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: v1.PodAffinityTerm{
				TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "x"}},
			}}
		}
		return &v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}}}
	}
	one, many := preferring(1), preferring(100)
	few := testing.AllocsPerRun(10, func() { newPod(one) })
	if got := testing.AllocsPerRun(10, func() { newPod(many) }); got > few {
		t.Errorf("a pod with 100 terms needs %v allocations, want %v as for a pod with 1 term", got, few)
	}
}
