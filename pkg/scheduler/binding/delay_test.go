// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestASlowBindIsReported checks that a slow bind is reported, whatever it waits for, because it keeps its node's
// resources reserved.
func TestASlowBindIsReported(t *testing.T) {
	const (
		waits = "binding to node n0 pending since 2000-01-01T00:00:00Z"
		kept  = "; resources stay reserved until the outcome is known"
	)
	comeAgain := apierrors.NewTimeoutError("come again later", 30)
	hangs := reply{takes: time.Hour}
	tests := map[string]struct {
		script
		gate []error
		// patient reports whether calls time out only after ten minutes, and whether one call may run at a time beside
		// one that hangs.
		patient bool
		// hogs is the number of other gangs' Bindings that hang.
		hogs int
		// deleted reports whether the pod is deleted after 100 seconds.
		deleted bool
		want    []string
	}{
		"Bindings time out": {
			script: script{binds: slices.Repeat([]reply{hangs}, 10)},
			want:   []string{waits + ": context deadline exceeded" + kept, "ended"},
		},
		"it cannot be read whether it is bound": {
			script: script{binds: []reply{{err: errCut}}, lookups: slices.Repeat([]error{errForbidden}, 20)},
			want:   []string{waits + ": " + errForbidden.Error() + kept, "ended"},
		},
		"the minimum cannot be read": {
			gate: slices.Repeat([]error{comeAgain}, 4),
			want: []string{waits + ": " + comeAgain.Error() + kept, "ended"},
		},
		"the minimum cannot be read, and then the pod is gone": {
			gate: slices.Repeat([]error{comeAgain}, 4), deleted: true,
			script: script{steps: steps("a")},
			want:   []string{waits + ": " + comeAgain.Error() + kept, "ended"},
		},
		"others' calls take all slots": {
			patient: true, hogs: 2,
			want: []string{waits + kept, "ended"},
		},
		"it fails after a while, and so does the rollback": {
			script: script{steps: []act{{plugin: "a", undo: slices.Repeat([]error{errStep}, 7)}}, binds: slices.Repeat([]reply{hangs}, 10)},
			want:   []string{waits + ": context deadline exceeded" + kept, "ended"},
		},
		"one that is bound within a minute is not": {
			script:  script{binds: []reply{{takes: 59 * time.Second}}},
			patient: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := []Option{withStuckAfter(time.Minute)}
				if tt.patient {
					opts = append(opts, withCallTimeout(10*time.Minute), withBindParallelism(1))
				}
				w := newHarness(opts...)
				w.gate = tt.gate
				for i := range tt.hogs {
					w.mustSubmit(t, []api.JobID{"x/hog", "y/hog"}[i], []string{"x", "y"}[i], 1, script{binds: []reply{{takes: 2 * time.Minute}}})
				}
				synctest.Wait()
				if err := w.submit(gang, w.members(gang, tt.script)...); err != nil {
					t.Fatal(err)
				}
				if tt.deleted {
					time.AfterFunc(100*time.Second, func() { w.deletePod("p0", errDeleted) })
				}
				w.drain(t)
				reported := slices.DeleteFunc(w.reportedDelays(), func(text string) bool { return strings.Contains(text, "node-") }) // without the reports about the hogs
				if diff := cmp.Diff(tt.want, slices.Compact(reported), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("unexpected reports (-want +got):\n%s", diff)
				}
				w.noViolations(t)
			})
		})
	}
}
