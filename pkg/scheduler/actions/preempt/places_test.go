// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// inClusters labels the nodes: nodes with numbers below size are in cluster a, the next ones in b, and so on.
func inClusters(w *sessiontest.ClusterSpec, size int) {
	for i, node := range w.Nodes {
		node.Labels["ibcluster"] = string(rune('a' + i/size))
	}
}

// required asks for one InfiniBand cluster for the gang's PodGroup.
func required(w *sessiontest.ClusterSpec, gang string) {
	i := slices.IndexFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == gang })
	metav1.SetMetaDataAnnotation(&w.PodGroups[i].ObjectMeta, ibcluster.ModeAnnotation, "required")
}

// TestTheCheapestClusterIsFreed checks that a gang that needs one InfiniBand cluster gets room in the cluster where that
// costs least, and nothing is evicted elsewhere.
func TestTheCheapestClusterIsFreed(t *testing.T) {
	w := world(nodesOf(6, "4"),
		gang{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n0", "n1"}},
		gang{name: "cheap", min: 0, priority: 1, cpu: "4", on: []string{"n2", "n3"}},
		gang{name: "spread", min: 0, priority: 1, cpu: "2", on: []string{"n4", "n4", "n5", "n5"}},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	inClusters(&w, 2)
	required(&w, "new")
	got := run(t, w, "")
	if want := []string{"cheap-0", "cheap-1"}; !slices.Equal(got.evicted, want) {
		t.Errorf("evicted %v, want %v", got.evicted, want)
	}
	for pod, node := range got.pipelined {
		if node != "n2" && node != "n3" {
			t.Errorf("%s waits for node %s outside of the cluster that is freed", pod, node)
		}
	}
}

// TestNoClusterIsFreedInPart checks that pods of several clusters are not evicted if none of the clusters can hold the
// gang.
func TestNoClusterIsFreedInPart(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "low", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n2"}},
		gang{name: "high", min: 0, priority: 9, cpu: "4", on: []string{"n1", "n3"}},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	inClusters(&w, 2)
	required(&w, "new")
	got := run(t, w, "")
	if len(got.evicted) > 0 || len(got.pipelined) > 0 {
		t.Errorf("evicted %v for %v, want none", got.evicted, got.pipelined)
	}
}

// TestAHyperNodeIsFreed checks that a gang with a hard network topology preempts, in one HyperNode, also if its PodGroup has
// minResources, which no HyperNode has free.
func TestAHyperNodeIsFreed(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "low", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n2", "n3"}},
		gang{name: "high", min: 0, priority: 9, cpu: "4", on: []string{"n1"}},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name("h0").Tier(1).Nodes("n0", "n1").Obj(), schedtest.MakeHyperNode().Name("h1").Tier(1).Nodes("n2", "n3").Obj())
	i := slices.IndexFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == "new" })
	tier := 1
	w.PodGroups[i].Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
	for name, least := range map[string]*v1.ResourceList{"without minResources": nil, "with minResources": {"cpu": resource.MustParse("8")}} {
		t.Run(name, func(t *testing.T) {
			w.PodGroups[i].Spec.MinResources = least
			got := run(t, w, "")
			if want := []string{"low-1", "low-2"}; !slices.Equal(got.evicted, want) {
				t.Errorf("evicted %v, want %v; reason: %s", got.evicted, want, got.reasons["new"])
			}
		})
	}
}

// TestUnlikeMembersGetRoomTogether checks a gang of members of two sizes, each of which has room alone.
func TestUnlikeMembersGetRoomTogether(t *testing.T) {
	w := world(nodesOf(3, "8"),
		gang{name: "old", min: 0, priority: 1, cpu: "4", on: []string{"n0", "n0", "n1", "n1", "n2", "n2"}},
		gang{name: "new", min: 3, priority: 9, cpu: "8", pending: 1})
	for i := range 2 {
		w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("small-%d", i)).Group("new").Priority(9).Req(schedtest.Resources{"cpu": "4"}).Obj())
	}
	got := run(t, w, "")
	if len(got.evicted) != 4 || len(got.pipelined) != 3 {
		t.Errorf("evicted %v, members wait on %v; want four pods and three members", got.evicted, got.pipelined)
	}
}

// TestANodeThatAPluginRefusesIsLeftOut checks a node that has cheaper victims, but that anti-affinity to a pod that stays
// there keeps from the gang.
func TestANodeThatAPluginRefusesIsLeftOut(t *testing.T) {
	avoids := func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
		}}}})
	}
	w := world(map[string]string{"n0": "5", "n1": "5"},
		gang{name: "noisy", min: 1, priority: 9, cpu: "1", on: []string{"n0"}, pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "cheap", min: 0, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n1"}},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: avoids})
	got := run(t, w, "")
	if want := []string{"dear-0"}; !slices.Equal(got.evicted, want) {
		t.Errorf("evicted %v, want %v; reason: %s", got.evicted, want, got.reasons["new"])
	}
}

// TestAVictimThatAnAntiAffinityNamesIsFound checks that a pod is evicted that keeps a member away by anti-affinity,
// although its node has enough resources beside it.
func TestAVictimThatAnAntiAffinityNamesIsFound(t *testing.T) {
	avoids := func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
		}}}})
	}
	w := world(map[string]string{"n0": "8"},
		gang{name: "quiet", min: 0, priority: 1, cpu: "1", on: []string{"n0"}},
		gang{name: "noisy", min: 0, priority: 5, cpu: "1", on: []string{"n0"}, pod: func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: avoids})
	got := run(t, w, "")
	if want := []string{"noisy-0"}; !slices.Equal(got.evicted, want) {
		t.Errorf("evicted %v, want %v; reason: %s", got.evicted, want, got.reasons["new"])
	}
}

// TestADisruptionBudgetHoldsForAllVictims checks that a PodDisruptionBudget, which plugin pdb keeps, holds for the victims
// of all gangs of a session together.
func TestADisruptionBudgetHoldsForAllVictims(t *testing.T) {
	kept := func(p *schedtest.PodBuilder) { p.Label("budget", "yes") }
	labelled := func(p *schedtest.PodBuilder) { p.Label("budget", "no") } // plugin pdb spares pods without labels
	for name, wanting := range map[string][]gang{
		"one gang":  {{name: "new", min: 2, priority: 9, cpu: "4", pending: 2}},
		"two gangs": {{name: "new", min: 1, priority: 9, cpu: "4", pending: 1}, {name: "newer", min: 1, priority: 9, cpu: "4", pending: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(3, "4"), append([]gang{
				{name: "cheap", min: 0, priority: 1, cpu: "4", on: []string{"n0"}, pod: kept},
				{name: "cheaper", min: 0, priority: 1, cpu: "4", on: []string{"n1"}, pod: kept},
				{name: "dear", min: 0, priority: 5, cpu: "4", on: []string{"n2"}, pod: labelled},
			}, wanting...)...)
			w.Objects = append(w.Objects, budgetOfOne())
			got := runWith(t, w, strings.Replace(tiers, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n", 1))
			if want := []string{"cheap-0", "dear-0"}; !slices.Equal(got.evicted, want) {
				t.Errorf("evicted %v, want %v; reasons: %v", got.evicted, want, got.reasons)
			}
		})
	}
}

// budgetOfOne returns a PodDisruptionBudget for pods with label budget=yes that allows one disruption.
func budgetOfOne() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: schedtest.Namespace, Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"budget": "yes"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
}

// TestADisruptionBudgetHoldsForBothActions checks a PodDisruptionBudget of pods that preempt and reclaim would both evict in
// one session.
func TestADisruptionBudgetHoldsForBothActions(t *testing.T) {
	kept := func(p *schedtest.PodBuilder) { p.Label("budget", "yes") }
	w := world(nodesOf(3, "4"),
		gang{name: "cheap", queue: "a", min: 0, priority: 1, cpu: "4", on: []string{"n0"}, pod: kept},
		gang{name: "cheaper", queue: "a", min: 0, priority: 1, cpu: "4", on: []string{"n1"}, pod: kept},
		gang{name: "third", queue: "a", min: 0, priority: 9, cpu: "4", on: []string{"n2"}, pod: kept},
		gang{name: "new", queue: "a", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "other", queue: "b", min: 1, priority: 9, cpu: "4", pending: 1})
	w.Queues = []*v1beta1.Queue{deserving("a", "4"), deserving("b", "8")}
	w.Objects = append(w.Objects, budgetOfOne())
	conf := strings.NewReplacer(
		"actions: allocate, reclaim", "actions: allocate, preempt, reclaim",
		"  - name: gang\n", "  - name: gang\n    enablePreemptable: false\n", "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n",
	).Replace(reclaimTiers)
	c := newClusterOf(w, conf, New(nil), NewReclaim(nil))
	defer c.close()
	if got := c.session(); len(got.evicted) != 1 {
		t.Errorf("evicted %v, want one pod; reasons: %v", got.evicted, got.reasons)
	}
}

// TestAllMayGoInTheSecondPlace checks a gang that anti-affinity keeps out of the cheapest cluster, and that needs a pod to go in the
// next one although resources suffice.
func TestAllMayGoInTheSecondPlace(t *testing.T) {
	noisy := func(p *schedtest.PodBuilder) { p.Label("noisy", "yes") }
	w := world(nodesOf(2, "8"),
		gang{name: "a", min: 0, priority: 1, cpu: "1", on: []string{"n0"}, pod: noisy},
		gang{name: "stays", min: 1, priority: 9, cpu: "1", on: []string{"n0"}, pod: noisy},
		gang{name: "b", min: 0, priority: 2, cpu: "1", on: []string{"n1"}, pod: noisy},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
			}}}})
		}})
	inClusters(&w, 1)
	required(&w, "new")
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"b-0"}) {
		t.Errorf("evicted %v; %v", got.evicted, got.reasons)
	}
}
