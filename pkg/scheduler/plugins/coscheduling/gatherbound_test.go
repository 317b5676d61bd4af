// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTheCostOfInfeasibleGangsIsBounded: all members of a gang must share one node, and no node has room for all, but
// blocks have enough slots. Only trial placements detect this. The number of placements per session has a limit that
// does not depend on the number of such gangs.
func TestTheCostOfInfeasibleGangsIsBounded(t *testing.T) {
	const bound = 10_000
	for _, gangs := range []int{1, 12} {
		var texts []string
		for i := range 100 {
			texts = append(texts, fmt.Sprintf("n%d s b%d 60", i, i/2))
		}
		w := sessiontest.ClusterSpec{Nodes: networkOf(texts...)}
		for i := range gangs {
			name := fmt.Sprintf("g%d", i)
			for _, pod := range waiting(name, 0, 100, func(p *schedtest.PodBuilder) { p.Label("app", name) }) {
				pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
				}}}}
				w.Pods = append(w.Pods, pod)
			}
			w.PodGroups = append(w.PodGroups, gangNamed(name, 100, asks("Block must")))
		}
		ssn := gatherSession(t, w, gatherConf, spines, false)
		placed := 0
		ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(*vcframework.Event) { placed++ }})
		action, _ := vcframework.GetAction("allocate")
		ssn.Run(action)
		if len(ssn.Binds()) > 0 {
			t.Fatalf("%d members are bound, want none", len(ssn.Binds()))
		}
		if placed < 5_000 || placed > bound {
			t.Errorf("%d gangs: %d tasks were placed without success, want some thousands and at most %d", gangs, placed, bound)
		}
		if reason, _ := ssn.PendingReason("ns/g11"); gangs > 11 && reason.Message == "" {
			t.Error("the last gang has no pending reason")
		}
	}
}
