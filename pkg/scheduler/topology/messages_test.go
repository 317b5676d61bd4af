// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessages compares the events on HyperNodes that claim nodes of another node group.
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
	want := map[string]string{
		"a node in two clusters":        `node "n1" is in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list the node in only one of them`,
		"two nodes in two clusters":     `node "n1" and 1 more are in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list each node in only one of them`,
		"a node in two leaves of one":   `node "n1" is in HyperNodes "l1" and "l2" of the same tier; "l1" is used (first by name); list the node in only one of them`,
		"eight nodes in two clusters":   `node "1" and 7 more are in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list each node in only one of them`,
		"a node of its own beside them": `node "n1" is in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list the node in only one of them`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
