// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
)

// example is the tree that the test tables use: two spines, three blocks, six nodes.
func example() []Node {
	node := func(name, spine, block string, slots int) Node {
		return Node{Name: name, Domains: []string{spine, block}, Slots: slots}
	}
	return []Node{
		node("a1", "s1", "b1", 3), node("a2", "s1", "b1", 5),
		node("b1x", "s1", "b2", 6), node("b2x", "s1", "b2", 2),
		node("c1", "s2", "b3", 4), node("c2", "s2", "b3", 5),
	}
}

// rules returns the example's layers with rules such as "spine must" or "block 4".
func rules(words ...string) []Layer {
	layers := []Layer{{Name: "cluster"}, {Name: "spine"}, {Name: "block"}, {Name: "node"}}
	for _, word := range words {
		name, rule, _ := strings.Cut(word, " ")
		layer := &layers[slices.IndexFunc(layers, func(l Layer) bool { return l.Name == name })]
		switch rule {
		case "must":
			layer.Must = true
		case "prefer":
			layer.Prefer = true
		default:
			if _, err := fmt.Sscan(rule, &layer.Multiple); err != nil {
				panic(err)
			}
		}
	}
	return layers
}

func text(shares []Share) string {
	var parts []string
	for _, s := range shares {
		parts = append(parts, fmt.Sprintf("%s %d", s.Node, s.Members))
	}
	return strings.Join(parts, ", ")
}

func best(t *DomainTree, wanted int) string {
	for shares := range t.Plans(wanted, wanted) {
		return text(shares)
	}
	return ""
}

func TestPlans(t *testing.T) {
	with := func(change func(nodes map[string]*Node)) []Node {
		nodes := example()
		byName := map[string]*Node{}
		for i := range nodes {
			byName[nodes[i].Name] = &nodes[i]
		}
		change(byName)
		return nodes
	}
	tests := map[string]struct {
		rules  []string
		wanted int
		nodes  []Node
		want   string
		// says is the explanation if no plan exists.
		says string
	}{
		"one node holds it":                  {rules: []string{"block must"}, wanted: 5, want: "a2 5"},
		"the tighter of two blocks, by name": {rules: []string{"block must"}, wanted: 8, want: "a2 5, a1 3"},
		"the one block with room":            {rules: []string{"block must"}, wanted: 9, want: "c2 5, c1 4"},
		"several blocks of a spine":          {rules: []string{"spine must"}, wanted: 10, want: "a2 5, a1 3, b1x 2"},
		"more than a spine":                  {rules: []string{"spine must"}, wanted: 20, says: "no domain of layer spine fits the 20 members: s1 16, s2 9"},
		"anywhere":                           {wanted: 20, want: "a2 5, a1 3, b1x 6, b2x 2, c2 4"},
		"more than there is":                 {wanted: 26, says: "the cluster does not fit the 26 members: all nodes 25"},
		"multiples by node":                  {rules: []string{"block must", "node 4"}, wanted: 8, want: "c1 4, c2 4"},
		"multiples by block":                 {rules: []string{"spine must", "block 4"}, wanted: 8, want: "c2 5, c1 3"},
		"company next door":                  {rules: []string{"block must"}, wanted: 5, nodes: with(func(n map[string]*Node) { n["b2x"].AffinityCount = 1 }), want: "b1x 5"},
		"a number that is no multiple":       {rules: []string{"spine must", "block 8"}, wanted: 12, says: "no domain of layer spine fits the 12 members in multiples of 8 by block: s1 8 (b1 8 + b2 0 of 16 slots), s2 8"},
		"multiples that exclude each other":  {rules: []string{"spine must", "block 6", "node 4"}, wanted: 12, says: "no domain of layer spine fits the 12 members in multiples of 6 by block and 4 by node: s1 0, s2 0"},
		"a multiple of a layer around":       {rules: []string{"block must", "spine 4"}, wanted: 6, says: "in multiples of 4 by spine"},
		"a preferred layer does not force":   {rules: []string{"block prefer"}, wanted: 10, want: "a2 5, a1 3, b1x 2"},
		"fewer preferred domains before fewer slots": {rules: []string{"spine must", "block prefer"}, wanted: 12, nodes: []Node{
			{Name: "a", Domains: []string{"s1", "b1"}, Slots: 4}, {Name: "b", Domains: []string{"s1", "b2"}, Slots: 4}, {Name: "c", Domains: []string{"s1", "b3"}, Slots: 4},
			{Name: "x", Domains: []string{"s2", "b4"}, Slots: 7}, {Name: "y", Domains: []string{"s2", "b5"}, Slots: 6},
		}, want: "x 7, y 5"},
		"members keep the gang in their block": {
			rules: []string{"block must"}, wanted: 2, nodes: with(func(n map[string]*Node) { n["c1"].Members = 1 }), want: "c1 2",
		},
		"members keep the gang in a block that has no room": {
			rules: []string{"block must"}, wanted: 9, nodes: with(func(n map[string]*Node) { n["a1"].Members = 1 }),
			says: "block s1/b1, where the gang's pods are, does not fit the 9 members: s1/b1 8",
		},
		"most members decide": {
			rules: []string{"block must"}, wanted: 1, nodes: with(func(n map[string]*Node) { n["a1"].Members, n["c1"].Members = 1, 2 }), want: "c1 1",
		},
		"most members decide, in the first block": {
			rules: []string{"block must"}, wanted: 1, nodes: with(func(n map[string]*Node) { n["a1"].Members, n["c1"].Members = 2, 1 }), want: "a1 1",
		},
		"the tighter block, of all its nodes": {rules: []string{"block must"}, wanted: 9, want: "y1 5, y2 4", nodes: []Node{
			{Name: "x1", Domains: []string{"s", "x"}, Slots: 8}, {Name: "x2", Domains: []string{"s", "x"}, Slots: 2},
			{Name: "y1", Domains: []string{"s", "y"}, Slots: 5}, {Name: "y2", Domains: []string{"s", "y"}, Slots: 4},
		}},
		"more company, on all nodes of a block": {rules: []string{"block must"}, wanted: 9, want: "x1 8, x2 1", nodes: []Node{
			{Name: "x1", Domains: []string{"s", "x"}, Slots: 8, AffinityCount: 3}, {Name: "x2", Domains: []string{"s", "x"}, Slots: 2},
			{Name: "y1", Domains: []string{"s", "y"}, Slots: 8, AffinityCount: 1}, {Name: "y2", Domains: []string{"s", "y"}, Slots: 1, AffinityCount: 1},
		}},
		"not even one": {wanted: 1, nodes: []Node{{Name: "x", Domains: []string{"s", "b"}}}, says: "the cluster does not fit a member: all nodes 0"},
		"a multiple is completed where members are": {
			rules: []string{"spine must", "node 4"}, wanted: 1, nodes: with(func(n map[string]*Node) { n["a1"].Members, n["a2"].Members = 3, 4 }), want: "a1 1",
		},
		"a multiple is completed, and the rest goes on": {
			rules: []string{"spine must", "node 4"}, wanted: 5, nodes: with(func(n map[string]*Node) { n["a1"].Members = 3 }), want: "a1 1, a2 4",
		},
		"a multiple that cannot be completed is left": {
			rules: []string{"spine must", "node 4"}, wanted: 4, nodes: with(func(n map[string]*Node) { n["a1"].Members, n["a1"].Slots = 3, 0 }), want: "a2 4",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			nodes := tt.nodes
			if nodes == nil {
				nodes = example()
			}
			for range 5 {
				rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
				tree := New(rules(tt.rules...), nodes, tt.wanted)
				if diff := cmp.Diff(tt.want, best(tree, tt.wanted)); diff != "" {
					t.Fatalf("the best plan (-want +got):\n%s", diff)
				}
				if said := tree.Explain(tt.wanted); tt.want == "" && !strings.Contains(said, tt.says) {
					t.Fatalf("the explanation is %q, want %q", said, tt.says)
				}
			}
		})
	}
}

var planSeeds = rounds.Flag("gather.plans", 5000, 30_000, "how many drawn trees are planned")

// TestPlansAgreeWithBruteForce checks, for random trees, that every plan satisfies the rules, and that a plan exists if
// and only if some division of the members satisfies them.
func TestPlansAgreeWithBruteForce(t *testing.T) {
	plans, none, widest := 0, 0, 0
	for seed := range uint64(planSeeds.Of(t)) {
		random := rand.New(rand.NewPCG(seed, 1))
		layers, nodes := drawn(random)
		wanted := 1 + random.IntN(9)
		tree := New(layers, nodes, wanted)
		exists := false
		divisions(nodes, wanted, func(given []int) {
			exists = exists || broken(layers, nodes, given) == ""
		})
		found := 0
		for shares := range tree.Plans(wanted, wanted) {
			found++
			if why := broken(layers, nodes, givenBy(nodes, shares)); why != "" || sumOf(shares) != wanted {
				t.Fatalf("seed %d: plan %s for %d members: %s\n%+v\n%+v", seed, text(shares), wanted, why, layers, nodes)
			}
		}
		if exists != (found > 0) {
			t.Fatalf("seed %d: %d plans for %d members, and a division exists: %v\n%+v\n%+v", seed, found, wanted, exists, layers, nodes)
		}
		if (tree.Most(wanted, wanted) == wanted) != exists || (tree.Least(wanted, wanted) == wanted) != exists {
			t.Fatalf("seed %d: Most or Least does not agree with the plan for %d members", seed, wanted)
		}
		if exists {
			plans++
			widest = max(widest, found)
		} else {
			none++
			if tree.Explain(wanted) == "" {
				t.Fatalf("seed %d: no explanation", seed)
			}
		}
	}
	if plans < 1000 || none < 1000 || widest < 5 {
		t.Errorf("%d trees with plans, %d without, at most %d plans: the random trees are too uniform", plans, none, widest)
	}
}

// TestManyMembersOverManyNodesThatAreNoMultiple checks that a plan is found quickly if each node already has one
// member. The numbers of further members that a node can take are then not the multiples of one number. Computing sums
// number by number would take 15 s.
func TestManyMembersOverManyNodesThatAreNoMultiple(t *testing.T) {
	for _, multiple := range []int{2, 7} {
		var nodes []Node
		for i := range 500 {
			nodes = append(nodes, Node{Name: fmt.Sprintf("n%03d", i), Domains: []string{"s", "b"}, Slots: 100, Members: 1})
		}
		start := time.Now()
		tree := New(rules(fmt.Sprintf("node %d", multiple)), nodes, 5_000)
		most := tree.Most(1, 5_000)
		var plan []Share
		for plan = range tree.Plans(most, most) {
			break
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("multiples of %d: a plan took %v", multiple, took)
		}
		if most != 5_000 || sumOf(plan) != most || broken(rules(fmt.Sprintf("node %d", multiple)), nodes, givenBy(nodes, plan)) != "" {
			t.Errorf("multiples of %d: Most returns %d, want 5000, with plan %s", multiple, most, text(plan))
		}
	}
}

// drawn returns a random tree of up to 6 nodes in up to 2 blocks of up to 2 spines, with rules. The gang's members run
// in one of the domains that the rules permit.
func drawn(random *rand.Rand) ([]Layer, []Node) {
	layers := []Layer{{Name: "cluster"}, {Name: "spine"}, {Name: "block"}, {Name: "node"}}
	if random.IntN(2) == 0 {
		layers[random.IntN(4)].Must = true
	}
	for range random.IntN(3) {
		layers[random.IntN(4)].Multiple = 1 + random.IntN(4)
	}
	layers[random.IntN(4)].Prefer = random.IntN(2) == 0
	var nodes []Node
	for i := range 1 + random.IntN(6) {
		nodes = append(nodes, Node{
			Name: fmt.Sprintf("n%d", i), Domains: []string{fmt.Sprintf("s%d", random.IntN(2)), fmt.Sprintf("b%d", random.IntN(2))},
			Slots: random.IntN(6), AffinityCount: random.IntN(2),
		})
	}
	if random.IntN(2) == 0 {
		at := random.IntN(len(nodes))
		for i := range nodes {
			if slices.Equal(nodes[i].Domains, nodes[at].Domains) && (i == at || !layers[3].Must) {
				nodes[i].Members = random.IntN(5)
			}
		}
	}
	return layers, nodes
}

// divisions calls give for each way to divide the wanted members over the slots of the nodes.
func divisions(nodes []Node, wanted int, give func([]int)) {
	given := make([]int, len(nodes))
	var divide func(i, left int)
	divide = func(i, left int) {
		if i == len(nodes) {
			if left == 0 {
				give(given)
			}
			return
		}
		for n := 0; n <= min(left, nodes[i].Slots); n++ {
			given[i] = n
			divide(i+1, left-n)
		}
	}
	divide(0, wanted)
}

func givenBy(nodes []Node, shares []Share) []int {
	given := make([]int, len(nodes))
	for _, s := range shares {
		given[slices.IndexFunc(nodes, func(n Node) bool { return n.Name == s.Node })] += s.Members
	}
	return given
}

func sumOf(shares []Share) (sum int) {
	for _, s := range shares {
		sum += s.Members
	}
	return sum
}

// broken returns the rule that the division violates, or "". Running members count. A domain without new members need
// not satisfy a multiple.
func broken(layers []Layer, nodes []Node, given []int) string {
	for i, node := range nodes {
		if given[i] > node.Slots {
			return "more than the slots of " + node.Name
		}
	}
	for level, layer := range layers {
		members, added := map[string]int{}, map[string]int{}
		for i, node := range nodes {
			domain := strings.Join(append(slices.Clone(node.Domains), node.Name)[:level], "/")
			members[domain] += node.Members + given[i]
			added[domain] += given[i]
		}
		in := 0
		for domain, n := range members {
			if n > 0 {
				in++
			}
			if layer.Multiple > 1 && added[domain] > 0 && n%layer.Multiple != 0 {
				return fmt.Sprintf("%d in %s of layer %s", n, domain, layer.Name)
			}
		}
		if layer.Must && in > 1 {
			return "it does not lie in one domain of layer " + layer.Name
		}
	}
	return ""
}

// BenchmarkPlans measures a plan for 256 members on 40 blocks of 125 nodes.
func BenchmarkPlans(b *testing.B) {
	var nodes []Node
	for i := range 5_000 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%04d", i), Domains: []string{fmt.Sprintf("s%d", i/1000), fmt.Sprintf("b%02d", i/125)}, Slots: 1 + i%8})
	}
	layers := rules("block must", "node 2")
	for b.Loop() {
		if best(New(layers, nodes, 256), 256) == "" {
			b.Fatal("no plan")
		}
	}
}
