// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"testing"
	"testing/synctest"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAPodGroupThatTheWatchHasNotComeToIsNotDeleted checks that a PodGroup that the watch has not delivered yet does
// not count as deleted, although the books already have it. The steps of its members run. Members of a deleted PodGroup
// are released.
func TestAPodGroupThatTheWatchHasNotComeToIsNotDeleted(t *testing.T) {
	tests := map[string]struct {
		watchedUpTo string
		want        api.TaskStatus
	}{
		"the watch is behind":           {watchedUpTo: "999999", want: api.Binding},
		"the watch is at that version":  {watchedUpTo: "1000000", want: api.Pending},
		"the watch is past the version": {watchedUpTo: "1000001", want: api.Pending},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				w.books.Lock()
				w.books.Jobs.Get(gang).PodGroup.ResourceVersion = "1000000"
				w.books.Unlock()
				w.at = tt.watchedUpTo
				if err := w.shown["*v1beta1.PodGroup"].Delete(schedtest.MakePodGroup().Name("g").Obj()); err != nil {
					t.Fatal(err)
				}
				slow := binding.Step{Plugin: "slow", PreBind: func(ctx context.Context, _ *api.TaskInfo, _ string) error {
					<-ctx.Done()
					return ctx.Err()
				}}
				if err := w.Add(w.decided(), nil, nil, []binding.Step{slow}); err != nil {
					t.Fatal(err)
				}
				w.Seal()
				synctest.Wait()
				if got := w.task("p0").Status; got != tt.want {
					t.Errorf("the member is %s, want %s", got, tt.want)
				}
			})
		})
	}
}
