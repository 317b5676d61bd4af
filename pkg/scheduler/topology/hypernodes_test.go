// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

func hyperNode(name string, tier int, parent string, nodes ...string) HyperNode {
	return HyperNode{Name: name, Tier: tier, Parent: parent, Nodes: sets.New(nodes...)}
}

func named(tierName string, h HyperNode) HyperNode { h.TierName = tierName; return h }

func TestForestOfHyperNodes(t *testing.T) {
	tests := map[string]struct {
		tiers        []string
		hyperNodes   []HyperNode
		wantLevels   []Level
		want         []string
		wantProblems []string
	}{
		"none": {wantLevels: []Level{}},
		"all tiers, the highest is the widest": {
			hyperNodes: []HyperNode{
				hyperNode("l2", 1, "a", "n3"), hyperNode("a", 2, "", "n1", "n2", "n3"), hyperNode("l1", 1, "a", "n1", "n2"),
			},
			wantLevels: []Level{{Name: "2"}, {Name: "1"}},
			want:       []string{"a: n1 n2 n3 [l1 l2]", "a/l1: n1 n2", "a/l2: n3"},
		},
		"tiers by number": {
			tiers:      []string{"2"},
			hyperNodes: []HyperNode{hyperNode("world", 3, "", "n1"), hyperNode("a", 2, "world", "n1"), hyperNode("l1", 1, "a", "n1")},
			wantLevels: []Level{{Name: "2"}},
			want:       []string{"a: n1"},
		},
		"tiers by name": {
			tiers:      []string{"cluster", "leaf"},
			hyperNodes: []HyperNode{named("cluster", hyperNode("a", 2, "", "n1")), named("leaf", hyperNode("l1", 1, "a", "n1"))},
			wantLevels: []Level{{Name: "cluster"}, {Name: "leaf"}},
			want:       []string{"a: n1 [l1]", "a/l1: n1"},
		},
		"a tier's name is another name of its level": {
			hyperNodes: []HyperNode{named("cluster", hyperNode("a", 2, "", "n1"))},
			wantLevels: []Level{{Name: "2", Short: "cluster"}},
			want:       []string{"a: n1"},
		},
		"a tier that is left out does not part a group from the one around it": {
			tiers:      []string{"3", "1"},
			hyperNodes: []HyperNode{hyperNode("a", 3, "", "n1"), hyperNode("s1", 2, "a", "n1"), hyperNode("l1", 1, "s1", "n1")},
			wantLevels: []Level{{Name: "3"}, {Name: "1"}},
			want:       []string{"a: n1 [l1]", "a/l1: n1"},
		},
		"one that lies in none of the widest tier is left out": {
			hyperNodes: []HyperNode{hyperNode("a", 2, "", "n1"), hyperNode("l1", 1, "", "n2")},
			wantLevels: []Level{{Name: "2"}, {Name: "1"}},
			want:       []string{"a: n1"},
		},
		"one without nodes is left out": {
			hyperNodes: []HyperNode{hyperNode("a", 1, "", "n1"), hyperNode("b", 1, "")},
			wantLevels: []Level{{Name: "1"}},
			want:       []string{"a: n1"},
		},
		"a node in two of a tier belongs to the first by name": {
			hyperNodes:   []HyperNode{hyperNode("b", 1, "", "n1", "n2", "n3"), hyperNode("a", 1, "", "n1", "n2")},
			wantLevels:   []Level{{Name: "1"}},
			want:         []string{"a: n1 n2", "b: n3"},
			wantProblems: []string{`node "n1" and 1 more are in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list each node in only one of them`},
		},
		"what a group does not get, its children do not get either, and one message says so": {
			hyperNodes: []HyperNode{
				hyperNode("a", 2, "", "n1"), hyperNode("b", 2, "", "n1", "n2"),
				hyperNode("la", 1, "a", "n1"), hyperNode("lb", 1, "b", "n1", "n2"),
			},
			wantLevels:   []Level{{Name: "2"}, {Name: "1"}},
			want:         []string{"a: n1 [la]", "b: n2 [lb]", "a/la: n1", "b/lb: n2"},
			wantProblems: []string{`node "n1" is in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list the node in only one of them`},
		},
		"many nodes in two of a tier: the first by name is reported": {
			hyperNodes: []HyperNode{
				hyperNode("a", 1, "", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"), hyperNode("b", 1, "", "n8", "n7", "n6", "n5", "n4", "n3", "n2", "n1"),
			},
			wantLevels:   []Level{{Name: "1"}},
			want:         []string{"a: n1 n2 n3 n4 n5 n6 n7 n8"},
			wantProblems: []string{`node "n1" and 7 more are in HyperNodes "a" and "b" of the same tier; "a" is used (first by name); list each node in only one of them`},
		},
		"groups of several levels in one come by name": {
			hyperNodes: []HyperNode{
				hyperNode("a", 3, "", "n1", "n2"), hyperNode("s", 2, "a", "n1"), hyperNode("l", 1, "a", "n2"),
			},
			wantLevels: []Level{{Name: "3"}, {Name: "2"}, {Name: "1"}},
			want:       []string{"a: n1 n2 [l s]", "a/s: n1", "a/l: n2"},
		},
		"a node in two leaves of one cluster": {
			hyperNodes:   []HyperNode{hyperNode("a", 2, "", "n1"), hyperNode("l2", 1, "a", "n1"), hyperNode("l1", 1, "a", "n1")},
			wantLevels:   []Level{{Name: "2"}, {Name: "1"}},
			want:         []string{"a: n1 [l1]", "a/l1: n1"},
			wantProblems: []string{`node "n1" is in HyperNodes "l1" and "l2" of the same tier; "l1" is used (first by name); list the node in only one of them`},
		},
		"a node in a group and in a wider one beside it": {
			hyperNodes:   []HyperNode{hyperNode("a", 3, "", "n1", "n2"), hyperNode("z", 2, "a", "n1", "n2"), hyperNode("c", 1, "a", "n1")},
			wantLevels:   []Level{{Name: "3"}, {Name: "2"}, {Name: "1"}},
			want:         []string{"a: n1 n2 [z]", "a/z: n1 n2"},
			wantProblems: []string{`node "n1" is in HyperNodes "z" and "c" of different tiers, neither inside the other; "z" is used (wider tier); list the node in only one of them`},
		},
		"members that name each other in a circle end nowhere": {
			hyperNodes: []HyperNode{hyperNode("a", 3, "", "n1"), hyperNode("b", 2, "c", "n2"), hyperNode("c", 1, "b", "n2")},
			wantLevels: []Level{{Name: "3"}, {Name: "2"}, {Name: "1"}},
			want:       []string{"a: n1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := NewHyperNodes(tt.tiers...).Forest(tt.hyperNodes)
			if diff := cmp.Diff(tt.wantLevels, f.Levels()); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, drawn(f)); diff != "" {
				t.Errorf("forest (-want +got):\n%s", diff)
			}
			var problems []string
			for _, problem := range f.Problems() {
				problems = append(problems, problem.String())
			}
			if diff := cmp.Diff(tt.wantProblems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForestOfHyperNodesIsKept(t *testing.T) {
	world := func(change func(*HyperNode)) []HyperNode {
		list := []HyperNode{hyperNode("a", 2, "", "n1", "n2"), named("leaf", hyperNode("l1", 1, "a", "n1"))}
		if change != nil {
			change(&list[1])
		}
		return list
	}
	tests := map[string]struct {
		next []HyperNode
		kept bool
	}{
		"equal":               {next: world(nil), kept: true},
		"in another order":    {next: slices.Concat(world(nil)[1:], world(nil)[:1]), kept: true},
		"another node":        {next: world(func(h *HyperNode) { h.Nodes = sets.New("n2") })},
		"a node less":         {next: world(func(h *HyperNode) { h.Nodes = sets.New[string]() })},
		"another tier":        {next: world(func(h *HyperNode) { h.Tier = 2 })},
		"another tier's name": {next: world(func(h *HyperNode) { h.TierName = "rack" })},
		"another parent":      {next: world(func(h *HyperNode) { h.Parent = "" })},
		"another name":        {next: world(func(h *HyperNode) { h.Name = "l2" })},
		"one less":            {next: world(nil)[:1]},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			source := NewHyperNodes()
			first := source.Forest(world(nil))
			if kept := source.Forest(tt.next) == first; kept != tt.kept {
				t.Errorf("kept: %t, want %t", kept, tt.kept)
			}
		})
	}
}

func BenchmarkHyperNodes(b *testing.B) {
	var list []HyperNode
	for c := range 40 {
		cluster := hyperNode(fmt.Sprintf("ib-%d", c), 2, "")
		for l := range 16 {
			leaf := hyperNode(fmt.Sprintf("ib-%d-leaf-%d", c, l), 1, cluster.Name)
			for n := range 16 {
				leaf.Nodes.Insert(fmt.Sprintf("ib-%d-node-%d-%d", c, l, n))
			}
			cluster.Nodes = cluster.Nodes.Union(leaf.Nodes)
			list = append(list, leaf)
		}
		list = append(list, cluster)
	}
	source := NewHyperNodes()
	for b.Loop() {
		source.Forest(slices.Clone(list))
	}
}
