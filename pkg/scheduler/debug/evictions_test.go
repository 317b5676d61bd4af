// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
)

// TestListShowsTheLastTryToEvict checks that a gang shows the last try for it, and names a limited number of its victims.
func TestListShowsTheLastTryToEvict(t *testing.T) {
	view := viewOf(gang("a", ""), gang("b", ""))
	if page := view.List(Query{Limit: 9}); page.Gangs[0].Evictions != nil {
		t.Errorf("a gang that was never tried shows %+v", page.Gangs[0].Evictions)
	}
	many := preempt.Try{Gangs: []api.JobID{"ns/a"}, Action: "preempt", Result: preempt.Evicted, Places: []string{"ib-a"}, PutBack: 2, Lost: time.Minute, Took: time.Millisecond}
	for i := range mostVictims + 1 {
		many.Evicted = append(many.Evicted, &api.TaskInfo{Namespace: "ns", Name: fmt.Sprint("low-", i), Priority: 10, TransactionContext: api.TransactionContext{NodeName: "n"}})
	}
	view.tries.Note(preempt.Try{Gangs: []api.JobID{"ns/a", "ns/b"}, Action: "reclaim", Result: preempt.Refused, Why: "no room"})
	view.tries.Note(many)
	page := view.List(Query{Limit: 9})
	first, second := page.Gangs[0].Evictions, page.Gangs[1].Evictions
	if first == nil || second == nil || len(first.Victims) != mostVictims || first.Victims[0] != (Victim{"ns", "low-0", "n", 10}) {
		t.Fatalf("the gangs show %+v and %+v, want %d victims of a, from low-0 on", first, second, mostVictims)
	}
	first.Victims = nil
	want := []EvictionTry{
		{Action: "preempt", Result: "evicted", Places: []string{"ib-a"}, Pods: mostVictims + 1, PutBack: 2, LostSeconds: 60, TookSeconds: 0.001},
		{Action: "reclaim", Result: "refused", Why: "no room"},
	}
	if diff := cmp.Diff(want, []EvictionTry{*first, *second}, cmpopts.IgnoreFields(EvictionTry{}, "At")); diff != "" || time.Since(first.At) > time.Hour {
		t.Errorf("tries at %s (-want +got):\n%s", first.At, diff)
	}
}
