// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestGangsAreSeenInTurns: the mutex is given up after so many members, and each gang is seen once.
func TestGangsAreSeenInTurns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 3 * lookedAtOnce / 4 {
			name := fmt.Sprintf("g%d", i)
			w.showGroup(schedtest.MakePodGroup().Name(name).Obj())
			w.books.Pods.Show(schedtest.MakePod().Name(name).Group(name).Obj())
		}
		seen := map[api.JobID]int{}
		ids := append(w.GangIDs(), "ns/gone")
		left := w.seeSome(slices.Clone(ids), func(job *api.JobInfo) { seen[job.UID]++ })
		if len(seen) != lookedAtOnce/2 || len(left) != len(ids)-lookedAtOnce/2 {
			t.Errorf("%d gangs of two are seen at once and %d are left of %d, want %d seen", len(seen), len(left), len(ids), lookedAtOnce/2)
		}
		w.SeeGangs(left, func(job *api.JobInfo) { seen[job.UID]++ })
		for id, n := range seen {
			if n != 1 {
				t.Errorf("gang %s is seen %d times", id, n)
			}
		}
		if len(seen) != len(ids)-1 {
			t.Errorf("%d gangs are seen, want %d", len(seen), len(ids)-1)
		}
	})
}
