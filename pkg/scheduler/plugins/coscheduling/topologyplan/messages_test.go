// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessages has the texts on why no plan exists for a gang.
func TestMessages(t *testing.T) {
	var blocks []Node
	for i := range 7 {
		blocks = append(blocks, Node{Name: fmt.Sprint("n", i), Domains: []string{"s1", fmt.Sprint("b", i)}, Slots: 2})
	}
	inBlock := example()
	inBlock[0].Members = 1
	empty := []Node{{Name: "x", Domains: []string{"s", "b"}}}
	explain := func(nodes []Node, wanted int, words ...string) string {
		tree := New(rules(words...), nodes, wanted)
		if plan := best(tree, wanted); plan != "" {
			t.Errorf("%d members by %v have the plan %s", wanted, words, plan)
		}
		return tree.Explain(wanted)
	}
	got := map[string]string{
		"more than a spine has":                explain(example(), 20, "spine must"),
		"more than a block has, of many":       explain(blocks, 3, "block must"),
		"more than the cluster has":            explain(example(), 26),
		"one, in a full cluster":               explain(empty, 1),
		"one, in a full block":                 explain(empty, 1, "block must"),
		"more than the block of its pods has":  explain(inBlock, 9, "block must"),
		"a number that is no multiple":         explain(example(), 12, "spine must", "block 8"),
		"multiples that exclude each other":    explain(example(), 12, "spine must", "block 6", "node 4"),
		"a number that is no multiple, widely": explain(example(), 6, "block must", "spine 4"),
	}
	want := map[string]string{
		"more than a spine has":                "no domain of layer spine fits the 20 members: s1 16, s2 9",
		"more than a block has, of many":       "no domain of layer block fits the 3 members: s1/b0 2, s1/b1 2, s1/b2 2, s1/b3 2, s1/b4 2, 2 more",
		"more than the cluster has":            "the cluster does not fit the 26 members: all nodes 25",
		"one, in a full cluster":               "the cluster does not fit a member: all nodes 0",
		"one, in a full block":                 "no domain of layer block fits a member: s/b 0",
		"more than the block of its pods has":  "block s1/b1, where the gang's pods are, does not fit the 9 members: s1/b1 8",
		"a number that is no multiple":         "no domain of layer spine fits the 12 members in multiples of 8 by block: s1 8 (b1 8 + b2 0 of 16 slots), s2 8",
		"multiples that exclude each other":    "no domain of layer spine fits the 12 members in multiples of 6 by block and 4 by node: s1 0, s2 0",
		"a number that is no multiple, widely": "no domain of layer block fits the 6 members in multiples of 4 by spine: s1/b1 6, s1/b2 6, s2/b3 6",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
