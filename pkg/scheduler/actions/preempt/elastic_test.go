// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// strictTiers has plugin pdb, so that no PodDisruptionBudget is broken.
var strictTiers = strings.Replace(tiers, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n", 1)

// on lets pods use only nodes whose label has the value.
func on(label, value string) func(*schedtest.PodBuilder) {
	return func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: label, Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
		}}}}})
	}
}

// TestAnElasticGangLosesThePodWhereRoomIsNeeded checks a gang of five pods that needs two. One of them goes for a pod that can use
// only one node, whichever node that is.
func TestAnElasticGangLosesThePodWhereRoomIsNeeded(t *testing.T) {
	for name, conf := range map[string]string{
		"gang does not vote": tiers,
		"gang votes":         strings.Replace(tiers, "    enablePreemptable: false\n", "", 1),
	} {
		for _, node := range each(5) {
			t.Run(name+node, func(t *testing.T) {
				got := runWith(t, world(nodesOf(5, "4"),
					gang{name: "e", min: 2, priority: 1, cpu: "4", on: each(5)},
					gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: on("name", node)}), conf)
				if len(got.evicted) != 1 {
					t.Errorf("evicted %v, want one; %v", got.evicted, got.reasons)
				}
			})
		}
	}
}

// TestAnElasticGangShrinksInTheClusterThatIsNeeded checks a gang of four pods that needs two and has pods in two InfiniBand clusters,
// of which the gang that needs room can use one.
func TestAnElasticGangShrinksInTheClusterThatIsNeeded(t *testing.T) {
	w := world(nodesOf(6, "4"),
		gang{name: "e", min: 2, priority: 1, cpu: "4", on: []string{"n0", "n1", "n2", "n3"}},
		gang{name: "same", min: 2, priority: 9, cpu: "4", on: []string{"n4", "n5"}},
		gang{name: "mine", min: 1, priority: 9, cpu: "4", pending: 1, pod: func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "ibcluster", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}},
			}}}}})
		}})
	inClusters(&w, 2)
	if got := run(t, w, ""); len(got.evicted) != 1 {
		t.Errorf("evicted %v, want one of four where two are spare; %v", got.evicted, got.reasons)
	}
}

// TestABudgetAllowsAnyPodOfAGangToGo checks that with plugin pdb, a budget that allows one disruption lets the pod go whose node is
// needed.
func TestABudgetAllowsAnyPodOfAGangToGo(t *testing.T) {
	for _, node := range each(3) {
		t.Run(node, func(t *testing.T) {
			w := world(nodesOf(3, "4"),
				gang{name: "e", min: 0, priority: 1, cpu: "4", on: each(3), pod: func(p *schedtest.PodBuilder) { p.Label("a", "yes") }},
				gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: on("name", node)})
			w.Objects = append(w.Objects, budgetFor("one", "a", 1))
			if got := runWith(t, w, strictTiers); len(got.evicted) != 1 {
				t.Errorf("evicted %v, want one; %v", got.evicted, got.reasons)
			}
		})
	}
}

// TestTwoGangsGetASparePodEach checks that pods evicted for one gang do not count twice against the minimum of their gang, if plugins
// gang and pdb choose victims.
func TestTwoGangsGetASparePodEach(t *testing.T) {
	conf := strings.Replace(strictTiers, "    enablePreemptable: false\n", "", 1)
	w := world(nodesOf(4, "4"),
		gang{name: "e", min: 2, priority: 1, cpu: "4", on: each(4), pod: func(p *schedtest.PodBuilder) { p.Label("a", "no") }},
		gang{name: "first", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "second", min: 1, priority: 9, cpu: "4", pending: 1})
	if got := runWith(t, w, conf); len(got.evicted) != 2 {
		t.Errorf("evicted %v, want two spare pods; %v", got.evicted, got.reasons)
	}
}

// TestTheSparePodsOfAGangAreSeenAgain checks a gang that plugin gang lets lose one pod: the one that loses the least work. That pod is
// too small for the gang that needs room, until the gang has saved its work and both pods lose as much.
func TestTheSparePodsOfAGangAreSeenAgain(t *testing.T) {
	conf := strings.Replace(simpleTiers, "    enablePreemptable: false\n", "", 1)
	spec := func(checkpoint bool) sessiontest.ClusterSpec {
		w := world(nodesOf(2, "4"),
			gang{name: "e", min: 1, priority: 1, cpu: "4", on: each(2), age: time.Hour},
			gang{name: "same", min: 1, priority: 9, cpu: "2", on: []string{"n1"}},
			gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
		change(&w, func(pod *v1.Pod) {
			started := metav1.NewTime(began.Add(-time.Minute))
			pod.Status.StartTime = &started
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
		}, "e-1")
		if checkpoint {
			podGroupOf(&w, "e").Annotations = map[string]string{CheckpointAnnotation: began.Add(-time.Second).UTC().Format(time.RFC3339)}
		}
		return w
	}
	before, after := spec(false), spec(true)
	c := newLiveCluster(before, conf)
	defer c.close()
	for range 2 {
		if got := c.session(); len(got.evicted) > 0 {
			t.Fatalf("evicted %v; reasons: %v", got.evicted, got.reasons)
		}
	}
	c.showChanges(before, after)
	if got := c.session(); !cmp.Equal(got.evicted, []string{"e-0"}) {
		t.Errorf("evicted %v, want e-0; reasons: %v", got.evicted, got.reasons)
	}
}
