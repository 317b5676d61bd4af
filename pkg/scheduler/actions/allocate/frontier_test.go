// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestByRankIsTheOrderOfRanks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 60 {
		f := &field{at: make([]int32, size), rank: make([]rank, size)}
		var want []int32
		for place := range int32(size) {
			f.rank[place] = rank{class: rankClass(random.IntN(3)), score: float64(random.IntN(5))}
			if f.at[place] = -1; random.IntN(4) > 0 {
				heap.Push(f, place)
				want = append(want, place)
			}
		}
		slices.SortFunc(want, func(l, r int32) int {
			return cmp.Or(cmp.Compare(f.rank[l].class, f.rank[r].class), cmp.Compare(f.rank[r].score, f.rank[l].score), cmp.Compare(l, r))
		})
		for taken := range len(want) + 1 {
			var got []int32
			for place := range f.byRank() {
				if len(got) == taken {
					break
				}
				got = append(got, place)
			}
			if diff := gocmp.Diff(slices.Clone(want[:taken]), got); taken > 0 && diff != "" {
				t.Fatalf("the first %d of %d (-want +got):\n%s", taken, len(want), diff)
			}
		}
	}
}
