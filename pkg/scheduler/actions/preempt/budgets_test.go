// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
