// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestByRankIsTheOrderOfRanks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 60 {
		h := newRankHeap(size)
		var want []int32
		for place := range int32(size) {
			of := rank{class: roomClass(random.IntN(3)), score: float64(random.IntN(5))}
			if random.IntN(4) > 0 {
				h.set(place, of)
				want = append(want, place)
			}
		}
		slices.SortFunc(want, func(l, r int32) int {
			return cmp.Or(cmp.Compare(h.rank[l].class, h.rank[r].class), cmp.Compare(h.rank[r].score, h.rank[l].score), cmp.Compare(l, r))
		})
		for taken := range len(want) + 1 {
			var got []int32
			for place := range h.byRank() {
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
