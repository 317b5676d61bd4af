// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// budgetFor returns a PodDisruptionBudget for pods with the label, or for all pods of the namespace if label is empty.
func budgetFor(name, label string, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
	selector := &metav1.LabelSelector{}
	if label != "" {
		selector.MatchLabels = map[string]string{label: "yes"}
	}
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: schedtest.Namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, DisruptedPods: map[string]metav1.Time{}},
	}
	for _, pod := range disrupted {
		b.Status.DisruptedPods[pod] = metav1.Now()
	}
	return b
}

// budgetWorld returns a cluster of three nodes with a pod each: a, b and c, which have priorities 1, 2 and 3. Label ab is on a
// and b.
func budgetWorld(gangs ...gang) sessiontest.ClusterSpec {
	label := func(labels ...string) func(*schedtest.PodBuilder) {
		return func(p *schedtest.PodBuilder) {
			for _, l := range labels {
				p.Label(l, "yes")
			}
		}
	}
	return world(nodesOf(3, "4"), append([]gang{
		{name: "a", min: 0, priority: 1, cpu: "4", on: []string{"n0"}, pod: label("a", "ab")},
		{name: "b", min: 0, priority: 2, cpu: "4", on: []string{"n1"}, pod: label("ab")},
		{name: "c", min: 0, priority: 3, cpu: "4", on: []string{"n2"}},
	}, gangs...)...)
}

// TestBudgetsAreBrokenLast checks which pods are evicted for one or two gangs where PodDisruptionBudgets select pods, and
// about which of them the API server is asked. The pods differ in priority only: a is the cheapest, c the dearest.
func TestBudgetsAreBrokenLast(t *testing.T) {
	none := budgetFor("elsewhere", "a", 0)
	none.Namespace = "elsewhere"
	nothing := budgetFor("nothing", "a", 0)
	nothing.Spec.Selector = nil
	tests := map[string]struct {
		budgets            []*policyv1.PodDisruptionBudget
		members            int
		evicted, protected []string
	}{
		"no budget":                            {nil, 1, []string{"a-0"}, nil},
		"the cheapest is protected":            {[]*policyv1.PodDisruptionBudget{budgetFor("one", "a", 0)}, 1, []string{"b-0"}, nil},
		"the cheapest may be disrupted":        {[]*policyv1.PodDisruptionBudget{budgetFor("one", "a", 1)}, 1, []string{"a-0"}, []string{"a-0"}},
		"two share a budget for one":           {[]*policyv1.PodDisruptionBudget{budgetFor("one", "ab", 1)}, 2, []string{"a-0", "c-0"}, []string{"a-0"}},
		"the budget has to be broken":          {[]*policyv1.PodDisruptionBudget{budgetFor("one", "", 1)}, 2, []string{"a-0", "b-0"}, []string{"a-0"}},
		"all are protected":                    {[]*policyv1.PodDisruptionBudget{budgetFor("one", "", 0)}, 3, []string{"a-0", "b-0", "c-0"}, nil},
		"two budgets, of which one is used up": {[]*policyv1.PodDisruptionBudget{budgetFor("one", "a", 1), budgetFor("two", "ab", 0)}, 1, []string{"c-0"}, nil},
		"two budgets that allow it":            {[]*policyv1.PodDisruptionBudget{budgetFor("one", "a", 1), budgetFor("two", "ab", 1)}, 1, []string{"a-0"}, nil},
		"its disruption is counted already":    {[]*policyv1.PodDisruptionBudget{budgetFor("one", "a", 0, "a-0")}, 1, []string{"a-0"}, nil},
		"the budget is of another namespace":   {[]*policyv1.PodDisruptionBudget{none}, 1, []string{"a-0"}, nil},
		"the budget selects nothing":           {[]*policyv1.PodDisruptionBudget{nothing}, 1, []string{"a-0"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := budgetWorld(gang{name: "new", min: tt.members, priority: 9, cpu: "4", pending: tt.members})
			for _, b := range tt.budgets {
				w.Objects = append(w.Objects, b)
			}
			got := run(t, w, "")
			if diff := cmp.Diff(tt.evicted, got.evicted); diff != "" {
				t.Errorf("evicted pods (-want +got):\n%s\nreasons: %v", diff, got.reasons)
			}
			if diff := cmp.Diff(tt.protected, got.protected); diff != "" {
				t.Errorf("pods about which the API server is asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestABudgetCountsTheEvictionsOfTheSession checks that a gang counts the pods that were evicted before for another gang in the
// same session, which the budget's status does not count yet.
func TestABudgetCountsTheEvictionsOfTheSession(t *testing.T) {
	w := budgetWorld(
		gang{name: "first", min: 1, priority: 9, cpu: "4", pending: 1},
		gang{name: "second", min: 1, priority: 9, cpu: "4", pending: 1})
	w.Objects = append(w.Objects, budgetFor("one", "ab", 1))
	got := run(t, w, "")
	if diff := cmp.Diff([]string{"a-0", "c-0"}, got.evicted); diff != "" {
		t.Errorf("evicted pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a-0"}, got.protected); diff != "" {
		t.Errorf("pods about which the API server is asked (-want +got):\n%s", diff)
	}
}

// labelA puts label a on the pod.
func labelA(pod *v1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, "a", "yes") }

// TestBudgetsOfWhatIsEvictedTogether checks budgets of pods that go together, and of pods on nodes that no member may use.
func TestBudgetsOfWhatIsEvictedTogether(t *testing.T) {
	elsewhere := budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1, pod: func(p *schedtest.PodBuilder) {
		p.Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "name", Operator: v1.NodeSelectorOpNotIn, Values: []string{"n0"}}},
		}}}}})
	}})
	core := world(nodesOf(5, "4"),
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(3)},
		gang{name: "next", min: 2, priority: 2, cpu: "4", on: []string{"n3", "n4"}},
		gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2})
	changePods(&core, "old-0", labelA)
	whole := world(nodesOf(3, "4"),
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(3)},
		gang{name: "new", min: 3, priority: 9, cpu: "4", pending: 3})
	changePods(&whole, "old-0", labelA)
	refused := budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
	changePods(&refused, "a-0", func(pod *v1.Pod) { conditions.SetNotEvicted(&pod.Status, "EvictionFailed") })
	stale := budgetFor("one", "a", 1)
	stale.Generation, stale.Status.ObservedGeneration = 2, 1
	for name, tt := range map[string]struct {
		w                  sessiontest.ClusterSpec
		budget             *policyv1.PodDisruptionBudget
		evicted, protected []string
	}{
		"a pod where the gang cannot be placed":      {elsewhere, budgetFor("one", "ab", 1), []string{"b-0"}, []string{"b-0"}},
		"a spare pod that goes with its gang":        {core, budgetFor("one", "a", 0), []string{"next-0", "next-1"}, nil},
		"a spare pod, and no other gang":             {whole, budgetFor("one", "a", 0), []string{"old-0", "old-1", "old-2"}, nil},
		"a budget that was just changed":             {budgetWorld(gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1}), stale, []string{"b-0"}, nil},
		"a pod whose eviction was refused before":    {refused, budgetFor("one", "a", 1), []string{"b-0"}, nil},
		"the cheapest pod has nothing to do with it": {budgetWorld(gang{name: "new", min: 2, priority: 9, cpu: "4", pending: 2}), budgetFor("one", "ab", 2), []string{"a-0", "b-0"}, []string{"a-0", "b-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.w.Objects = []runtime.Object{tt.budget}
			got := run(t, tt.w, "")
			slices.Sort(got.protected)
			if diff := cmp.Diff(tt.evicted, got.evicted); diff != "" {
				t.Errorf("evicted pods (-want +got):\n%s\nreasons: %v", diff, got.reasons)
			}
			if diff := cmp.Diff(tt.protected, got.protected); diff != "" {
				t.Errorf("pods about which the API server is asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestABudgetDoesNotCountAPodTwice checks that a queue at its capability admits no more if a spare pod of a gang is under a budget
// that allows nothing. Its pods would have to go together.
func TestABudgetDoesNotCountAPodTwice(t *testing.T) {
	w := world(nodesOf(5, "4"),
		gang{name: "old", min: 2, priority: 1, cpu: "4", on: each(3)},
		gang{name: "held", min: 0, priority: 9, cpu: "4", on: []string{"n3"}},
		gang{name: "new", min: 4, priority: 9, cpu: "4", pending: 4})
	for _, pg := range w.PodGroups {
		pg.Spec.Queue = "q"
	}
	w.Queues = []*v1beta1.Queue{capped("16", deserving("q", "16"))}
	changePods(&w, "old-0", labelA)
	w.Objects = append(w.Objects, budgetFor("one", "a", 0))
	if got := run(t, w, ""); len(got.evicted) > 0 {
		t.Errorf("evicted %v for a gang of 16 CPUs in a queue of 16, of which 4 stay in use", got.evicted)
	}
}

// TestAPodWhoseEvictionWasRefused checks when the API server is asked again about a pod whose eviction it has refused. The pod is the
// only one that may go, and its budget allows it.
func TestAPodWhoseEvictionWasRefused(t *testing.T) {
	strict := strings.Replace(tiers, "  - name: conformance\n", "  - name: conformance\n  - name: pdb\n", 1)
	for name, tt := range map[string]struct {
		conf      string
		ago       time.Duration
		protected []string
	}{
		"just now":                          {tiers, time.Minute, nil},
		"a while ago":                       {tiers, staysFor + time.Minute, []string{"a-0"}},
		"just now, and budgets always hold": {strict, time.Minute, []string{"a-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(nodesOf(1, "4"),
				gang{name: "a", min: 0, priority: 1, cpu: "4", on: []string{"n0"}},
				gang{name: "new", min: 1, priority: 9, cpu: "4", pending: 1})
			changePods(&w, "a-0", func(pod *v1.Pod) {
				labelA(pod)
				conditions.SetNotEvicted(&pod.Status, "EvictionFailed")
				pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-tt.ago))
			})
			w.Objects = append(w.Objects, budgetFor("one", "a", 1))
			got := runWith(t, w, tt.conf)
			if diff := cmp.Diff([]string{"a-0"}, got.evicted); diff != "" {
				t.Errorf("evicted pods (-want +got):\n%s\nreasons: %v", diff, got.reasons)
			}
			if diff := cmp.Diff(tt.protected, got.protected); diff != "" {
				t.Errorf("pods about which the API server is asked (-want +got):\n%s", diff)
			}
		})
	}
}
