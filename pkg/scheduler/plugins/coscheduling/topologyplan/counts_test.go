// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAmountsAreSets compares operations on counts with the same operations on sets of numbers.
func TestAmountsAreSets(t *testing.T) {
	const limit = 24
	listed := func(a counts) (set []int) {
		for n := range limit + 1 {
			if a.has(n) {
				set = append(set, n)
			}
		}
		return set
	}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 2))
		draw := func() counts {
			a := upTo(random.IntN(limit) - 1)
			if k := 1 + random.IntN(4); random.IntN(2) == 0 {
				a = a.multiples(k, random.IntN(9), limit)
			}
			return a
		}
		a, b := draw(), draw()
		k, members := random.IntN(5), random.IntN(9)
		multiples, sums := []int{0}, map[int]bool{}
		for _, n := range listed(a) {
			if n > 0 && (k <= 1 || (members+n)%k == 0) {
				multiples = append(multiples, n)
			}
			for _, m := range listed(b) {
				sums[n+m] = true
			}
		}
		if diff := cmp.Diff(multiples, listed(a.multiples(k, members, limit))); diff != "" {
			t.Fatalf("seed %d: numbers of %v that give multiples of %d with %d members (-want +got):\n%s", seed, listed(a), k, members, diff)
		}
		got := a.plus(b, limit)
		for n := range limit + 1 {
			if got.has(n) != sums[n] {
				t.Fatalf("seed %d: %d is a sum of %v and %v: %t, want %t", seed, n, listed(a), listed(b), got.has(n), sums[n])
			}
			below := 0
			for _, m := range listed(a) {
				if m <= n {
					below = m
				}
			}
			if a.below(n) != below {
				t.Fatalf("seed %d: the largest of %v up to %d is %d, want %d", seed, listed(a), n, a.below(n), below)
			}
		}
	}
}

// TestMostAndLeast checks that Most and Least agree with the existing plans, also for more members than the tree was
// created for.
func TestMostAndLeast(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 3))
		layers, nodes := drawn(random)
		tree := New(layers, nodes, 1+random.IntN(12))
		least, most := random.IntN(5), random.IntN(16)
		var planned []int
		for n := max(least, 1); n <= most; n++ {
			for range tree.Plans(n, n) {
				planned = append(planned, n)
				break
			}
		}
		first, last := 0, 0
		if len(planned) > 0 {
			first, last = planned[0], planned[len(planned)-1]
		}
		if got := tree.Most(least, most); got != last {
			t.Fatalf("seed %d: Most(%d, %d) = %d, and plans exist for %v", seed, least, most, got, planned)
		}
		if got := tree.Least(least, most); got != first {
			t.Fatalf("seed %d: Least(%d, %d) = %d, and plans exist for %v", seed, least, most, got, planned)
		}
		wanted := 2 + random.IntN(6)
		for shares := range tree.Plans(wanted, wanted-1) {
			if why := broken(layers, nodes, givenBy(nodes, shares)); why != "" || sumOf(shares) != wanted-1 {
				t.Fatalf("seed %d: plan %s for %d of %d members: %s", seed, text(shares), wanted-1, wanted, why)
			}
		}
	}
	for _, n := range [][2]int{{3, 0}, {2, 3}} {
		for shares := range New(rules(), example(), 9).Plans(n[0], n[1]) {
			t.Errorf("got a plan to place %d of %d members, want none: %s", n[1], n[0], text(shares))
		}
	}
}
