// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessages has the texts of events on HyperNodes that claim nodes of another node group.
func TestMessages(t *testing.T) {
	problem := func(hyperNodes ...HyperNode) string {
		problems := NewHyperNodes().Forest(hyperNodes).Problems()
		if len(problems) != 1 {
			t.Fatalf("problems are %v, want one", problems)
		}
		return problems[0].String()
	}
	got := map[string]string{
		"a node in two clusters":        problem(hyperNode("a", 1, "", "n1"), hyperNode("b", 1, "", "n1")),
		"two nodes in two clusters":     problem(hyperNode("a", 1, "", "n1", "n2"), hyperNode("b", 1, "", "n1", "n2")),
		"a node in two leaves of one":   problem(hyperNode("a", 2, "", "n1"), hyperNode("l1", 1, "a", "n1"), hyperNode("l2", 1, "a", "n1")),
		"eight nodes in two clusters":   problem(hyperNode("a", 1, "", "1", "2", "3", "4", "5", "6", "7", "8"), hyperNode("b", 1, "", "1", "2", "3", "4", "5", "6", "7", "8")),
		"a node of its own beside them": problem(hyperNode("a", 1, "", "n1"), hyperNode("b", 1, "", "n1", "n2")),
	}
	const cause = " has already (the first by name wins): list each node in one HyperNode of a tier"
	want := map[string]string{
		"a node in two clusters":        "HyperNode b claims node n1, which group a" + cause,
		"two nodes in two clusters":     "HyperNode b claims node n1 and 1 more, which group a" + cause,
		"a node in two leaves of one":   "HyperNode l2 claims node n1, which group a/l1" + cause,
		"eight nodes in two clusters":   "HyperNode b claims node 1 and 7 more, which group a" + cause,
		"a node of its own beside them": "HyperNode b claims node n1, which group a" + cause,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
