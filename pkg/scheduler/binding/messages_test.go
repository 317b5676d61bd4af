// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestMessages compares the messages of this package that users read on PodGroups and pods.
func TestMessages(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gang := &Transaction{GangGroup: &GangGroup{Gangs: []GangTerms{{Gang: "a/x"}, {Gang: "a/y"}}}}
	short := errors.New("3 of minMember 4")
	got := map[string]string{
		"PreBindPending":                  Delay{Kind: StepWaits, Plugin: "p", Node: "n", Since: since}.String(),
		"PreBindTimedOut":                 Delay{Kind: PreBindTimedOut, Plugin: "p", Node: "n", Since: since}.String(),
		"RollbackStuck":                   Delay{Kind: RollbackStuck, Plugin: "p", Node: "n", Since: since, Err: errStep}.String(),
		"RollbackStuck, does not return":  Delay{Kind: RollbackStuck, Plugin: "p", Node: "n", Since: since}.String(),
		"BindPending":                     Delay{Kind: BindWaits, Node: "n", Since: since}.String(),
		"BindPending, after an error":     Delay{Kind: BindWaits, Node: "n", Since: since, Err: errStep}.String(),
		"a step fails":                    (&StepError{Plugin: "p", Pod: "a/x-0", Node: "n", Err: errStep}).Error(),
		"a step times out":                (&StepError{Plugin: "p", Pod: "a/x-0", Node: "n", Err: (&Step{}).overdue()}).Error(),
		"a step panics":                   (&StepError{Plugin: "p", Pod: "a/x-0", Node: "n", Err: &PanicError{Value: "oh no"}}).Error(),
		"a bind fails":                    (&BindError{Pod: "a/x-0", Node: "n", Err: errStep}).Error(),
		"a pod was deleted":               (&BindError{Pod: "a/x-0", Node: "n", Err: ErrPodGone}).Error(),
		"too few members":                 (&Transaction{}).bindable("a/x", short).Error(),
		"too few members of one of gangs": gang.bindable("a/x", short).Error(),
		"a strict gang":                   gang.named("a/x", fmt.Errorf("only %d of %d members can be bound and %w", 2, 3, ErrStrict)).Error(),
		"members without a failure":       fmt.Errorf("%w: %w", ErrNoQuorum, short).Error(),
		"shutdown":                        ErrDraining.Error(),
		"the lease is lost":               ErrAborted.Error(),
	}
	want := map[string]string{
		"PreBindPending":                  "pre-bind plugin p has been running on node n since 2026-03-01T12:00:00Z",
		"PreBindTimedOut":                 "pre-bind plugin p on node n timed out or was cancelled, and has not returned (running since 2026-03-01T12:00:00Z); the pod cannot be rescheduled until it returns; if it never returns, restart the scheduler",
		"RollbackStuck":                   "rollback of pre-bind plugin p on node n failing since 2026-03-01T12:00:00Z: no room; retrying, the pod's resources stay reserved",
		"RollbackStuck, does not return":  "rollback of pre-bind plugin p on node n has not finished since 2026-03-01T12:00:00Z: it waits for other rollbacks of the gang, or hangs; the pod's resources stay reserved until it does; if it never finishes, restart the scheduler",
		"BindPending":                     "binding to node n pending since 2026-03-01T12:00:00Z; resources stay reserved until the outcome is known",
		"BindPending, after an error":     "binding to node n pending since 2026-03-01T12:00:00Z: no room; resources stay reserved until the outcome is known",
		"a step fails":                    "pre-bind plugin p failed for pod a/x-0 on node n: no room",
		"a step times out":                "pre-bind plugin p failed for pod a/x-0 on node n: timed out after 30s: " + context.DeadlineExceeded.Error(),
		"a step panics":                   "pre-bind plugin p failed for pod a/x-0 on node n: panic: oh no",
		"a bind fails":                    "binding pod a/x-0 to node n failed: no room",
		"a pod was deleted":               "binding pod a/x-0 to node n failed: the pod was deleted",
		"too few members":                 "only 3 of minMember 4 can be bound",
		"too few members of one of gangs": "gang a/x: only 3 of minMember 4 can be bound",
		"a strict gang":                   "gang a/x: only 2 of 3 members can be bound and the gang is strict",
		"members without a failure":       "the gang cannot reach its minimum: 3 of minMember 4",
		"shutdown":                        "the scheduler is shutting down",
		"the lease is lost":               "binding was aborted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfBinds compares the errors for pods that the API server reports as not bound, and for pods without any
// report.
func TestMessagesOfBinds(t *testing.T) {
	got := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		w.minimum["ns/first"], w.minimum["ns/unknown"] = 1, 1
		first := w.member("ns/first", "p", "n", script{binds: []reply{{overtaken: true}}})
		unknown := w.member("ns/unknown", "q", "n", script{binds: []reply{{err: errCut}}, lookups: slices.Repeat([]error{errServer}, 1000)})
		for gang, m := range map[api.JobID]*Member{"ns/first": first, "ns/unknown": unknown} {
			if err := w.submit(gang, m); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		w.abort()
		synctest.Wait()
		for _, r := range w.results {
			for _, f := range slices.Concat(r.Failed, r.Abandoned) {
				got[string(r.Gang)] = f.Err.Error()
			}
		}
	})
	want := map[string]string{
		"ns/first":   "binding pod ns/p to node n failed: another scheduler or a user bound the pod to node elsewhere",
		"ns/unknown": "binding was aborted before it was known whether the pod is bound",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
