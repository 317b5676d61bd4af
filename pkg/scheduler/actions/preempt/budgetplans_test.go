// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestBudgetsAreNeverBrokenWithPluginPdb checks budgets that upstream's plugin pdb does not see, too.
func TestBudgetsAreNeverBrokenWithPluginPdb(t *testing.T) {
	stale := budgetFor("one", "a", 1)
	stale.Generation, stale.Status.ObservedGeneration = 2, 1
	second := strings.Replace(tiers, "- plugins:\n  - name: ibcluster\n", "- plugins:\n  - name: pdb\n  - name: ibcluster\n", 1)
	for name, tt := range map[string]struct {
		conf   string
		budget *policyv1.PodDisruptionBudget
	}{
		"allows none":                   {strictTiers, budgetFor("one", "a", 0)},
		"empty selector":                {strictTiers, budgetFor("one", "", 0)},
		"stale status":                  {strictTiers, stale},
		"pdb in the tier of predicates": {second, budgetFor("one", "a", 0)},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(1, "4"),
				gang{name: "a", min: 0, priority: 1, cpu: "4", on: []string{"n0"}, pod: func(p *schedtest.PodBuilder) { p.Label("a", "yes") }},
				gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
			w.Objects = append(w.Objects, tt.budget)
			if got := runWith(t, w, tt.conf); len(got.evicted) != 0 {
				t.Errorf("evicted %v, protected %v, want none; %v", got.evicted, got.protected, got.reasons)
			}
		})
	}
}

// TestPodsUnderABudgetArePutBackFirst checks a gang that needs one of two pods to go because of anti-affinity. The pod without a budget
// goes, though it is dearer.
func TestPodsUnderABudgetArePutBackFirst(t *testing.T) {
	noisy := func(labels ...string) func(p *schedtest.PodBuilder) {
		return func(p *schedtest.PodBuilder) {
			p.Label("noisy", "yes")
			for _, l := range labels {
				p.Label(l, "yes")
			}
		}
	}
	w := world(nodesOf(2, "8"),
		gang{name: "a", min: 0, priority: 1, cpu: "1", on: []string{"n0"}, pod: noisy("a")},
		gang{name: "c", min: 0, priority: 3, cpu: "1", on: []string{"n1"}, pod: noisy()},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: func(p *schedtest.PodBuilder) {
			p.Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
			}}}})
		}})
	w.Objects = append(w.Objects, budgetFor("one", "a", 0))
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"c-0"}) {
		t.Errorf("evicted %v, want c-0; %v", got.evicted, got.reasons)
	}
}

// TestAFullQueueLosesThePodWithoutABudget checks a queue at its capability and a node that is idle. Either of two pods makes room in
// the queue; the one without a budget goes, though it is dearer.
func TestAFullQueueLosesThePodWithoutABudget(t *testing.T) {
	w := world(nodesOf(3, "4"),
		gang{name: "a", min: 0, priority: 1, cpu: "4", on: []string{"n0"}},
		gang{name: "b", min: 0, priority: 2, cpu: "4", on: []string{"n1"}},
		gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	for _, pg := range w.PodGroups {
		pg.Spec.Queue = "q"
	}
	w.Queues = []*v1beta1.Queue{capped("8", deserving("q", "8"))}
	changePods(&w, "a-0", labelA)
	w.Objects = append(w.Objects, budgetFor("one", "a", 0))
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"b-0"}) {
		t.Errorf("evicted %v, want b-0; %v", got.evicted, got.reasons)
	}
}

// TestRefusalsEnd checks that a tenant cannot keep its pods by making the API server refuse one eviction of each plan.
func TestRefusalsEnd(t *testing.T) {
	const n = 20
	w := world(nodesOf(n, "4"),
		gang{name: "a", min: 0, priority: 1, cpu: "4", on: each(n), pod: func(p *schedtest.PodBuilder) { p.Label("a", "yes") }},
		gang{name: "new", min: n, priority: 9, cpu: "4", pending: n})
	w.Objects = append(w.Objects, budgetFor("one", "a", n))
	for round := range 100 {
		got := run(t, w, "")
		if len(got.evicted) != n {
			t.Fatalf("evicted %v", got.evicted)
		}
		if len(got.protected) == 0 {
			t.Logf("evicted after %d rounds", round)
			return
		}
		changePods(&w, "a-", func(pod *v1.Pod) { // a minute passes, which is the longest pause of a gang
			for i := range pod.Status.Conditions {
				c := &pod.Status.Conditions[i]
				c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-time.Minute))
			}
		})
		changePods(&w, got.protected[0], func(pod *v1.Pod) {
			pod.Status.Conditions = nil
			conditions.SetNotEvicted(&pod.Status, "EvictionFailed")
		})
	}
	t.Errorf("after 100 refusals in 100 minutes the API server is still asked")
}

// TestABudgetWhoseEvictionWasRefusedCountsAsUsedUp checks that other pods under a budget are spared, too, after a refusal.
func TestABudgetWhoseEvictionWasRefusedCountsAsUsedUp(t *testing.T) {
	w := budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	changePods(&w, "a-0", func(pod *v1.Pod) { conditions.SetNotEvicted(&pod.Status, "EvictionFailed") })
	w.Objects = []runtime.Object{budgetFor("one", "ab", 1)}
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"c-0"}) {
		t.Errorf("evicted %v, want c-0, which has no budget", got.evicted)
	}
}

// TestABudgetCountsAllPodsOfAGang checks the budget of a gang's pods that were evicted together for another gang in the same session.
func TestABudgetCountsAllPodsOfAGang(t *testing.T) {
	w := world(nodesOf(4, "4"),
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(2)},
		gang{name: "b", min: 0, priority: 2, cpu: "4", on: []string{"n2"}},
		gang{name: "c", min: 0, priority: 3, cpu: "4", on: []string{"n3"}},
		gang{name: "first", min: 2, priority: 9, cpu: "4", pending: 2},
		gang{name: "second", min: 1, priority: 8, cpu: "4", pending: 1})
	changePods(&w, "old-", labelA)
	changePods(&w, "b-0", labelA)
	w.Objects = append(w.Objects, budgetFor("one", "a", 2))
	pin2 := func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "name", Operator: v1.NodeSelectorOpIn, Values: []string{"n0", "n1"}}},
		}}}}}
	}
	changePods(&w, "first-", pin2)
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"c-0", "old-0", "old-1"}) {
		t.Errorf("evicted %v; %v", got.evicted, got.reasons)
	}
}

// TestAPodWhoseDeletionFailedIsSpared checks a pod without a budget, whose deletion has failed.
func TestAPodWhoseDeletionFailedIsSpared(t *testing.T) {
	w := budgetWorld(gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	changePods(&w, "a-0", func(pod *v1.Pod) { conditions.SetNotEvicted(&pod.Status, "EvictionFailed") })
	if got := run(t, w, ""); !cmp.Equal(got.evicted, []string{"b-0", "c-0"}) {
		t.Errorf("evicted %v, though the deletion of a-0 has just failed", got.evicted)
	}
}

// TestABudgetCountsEvictionsThatAreUnderway checks a pod that an earlier session has evicted, and that is not being deleted yet. Its
// budget allows one disruption.
func TestABudgetCountsEvictionsThatAreUnderway(t *testing.T) {
	w := budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	w.Nodes[0].Spec.Unschedulable = true // so that the gang does not wait for the pod
	w.Objects = append(w.Objects, budgetFor("one", "ab", 1))
	c := newCluster(w, fmt.Sprintf(tiers, ""))
	defer c.close()
	ssn := c.scheduler.Open()
	job := ssn.Jobs[schedtest.Namespace+"/a"]
	for _, task := range job.Tasks {
		if err := job.UpdateTaskStatus(task, api.Releasing); err != nil {
			t.Fatal(err)
		}
	}
	ssn.Run(c.actions...)
	ssn.Close()
	if want := []string{schedtest.Namespace + "/c-0"}; !cmp.Equal(ssn.Evicts(), want) {
		t.Errorf("evicted %v, want %v", ssn.Evicts(), want)
	}
}

// TestMoreBudgetsThanAreMatched checks a namespace with so many budgets that they are not matched with pods.
func TestMoreBudgetsThanAreMatched(t *testing.T) {
	for conf, want := range map[string][]string{tiers: {"a-0"}, strictTiers: nil} {
		w := budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
		for i := range maxBudgets + 1 {
			w.Objects = append(w.Objects, budgetFor(fmt.Sprint("b-", i), "other", 0))
		}
		if got := runWith(t, w, conf); !cmp.Equal(got.evicted, want) || len(got.protected) > 0 {
			t.Errorf("evicted %v, and the API server is asked about %v; want %v, and none", got.evicted, got.protected, want)
		}
	}
}

// TestABudgetThatAllowsMoreIsSeen checks a refusal because of a budget that is never broken, and the next session, in which the budget
// allows the eviction. Plugin pdb is configured and does not vote.
func TestABudgetThatAllowsMoreIsSeen(t *testing.T) {
	conf := strings.Replace(simpleTiers, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n    enablePreemptable: false\n", 1)
	budget := budgetFor("one", "", 0)
	c := newLiveCluster(budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1}), conf)
	defer c.close()
	ssn := c.scheduler.Open()
	informer := ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Informer()
	ssn.Close()
	if err := informer.GetStore().Add(budget); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := c.session(); len(got.evicted) > 0 {
			t.Fatalf("evicted %v, though the budget allows nothing", got.evicted)
		}
	}
	if err := informer.GetStore().Update(budgetFor("one", "", 1)); err != nil {
		t.Fatal(err)
	}
	if got := c.session(); !cmp.Equal(got.evicted, []string{"a-0"}) {
		t.Errorf("evicted %v, want a-0; reasons: %v", got.evicted, got.reasons)
	}
}
