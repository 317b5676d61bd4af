// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestOnlyUpstreamsActionsTakeTurns checks that the limit on search time applies only to upstream's actions that evict.
// preempt and reclaim limit their steps. allocate and backfill call the same function before they place a task.
func TestOnlyUpstreamsActionsTakeTurns(t *testing.T) {
	job := &api.JobInfo{UID: "ns/gang", Namespace: "ns"}
	ssn := &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{job.UID: job, "other/gang": {UID: "other/gang", Namespace: "other"}}}}
	for action, waits := range map[string]bool{
		preempt: false, reclaim: false, upstreamsPreempt: true, upstreamsReclaim: true, "allocate": false, "backfill": false,
	} {
		ssn.Action = action
		s := newSearches(ssn, newTurns())
		s.spent[round{action, "ns"}] = searchTime
		if err := s.admit(&api.TaskInfo{Job: job.UID, Namespace: "ns"}); (err != nil) != waits {
			t.Errorf("in %s, the result for a gang of a namespace without search time is %v, want an error: %t", action, err, waits)
		}
	}
}

// TestDeletedGangsLeaveARound: deleted gangs are dropped from a round. A namespace that gets new gangs in each session
// would otherwise never finish its round.
func TestDeletedGangsLeaveARound(t *testing.T) {
	ssn := bare(upstreamsPreempt, &api.JobInfo{UID: "other/gang", Namespace: "other"})
	turns := newTurns()
	r := round{upstreamsPreempt, "ns"}
	for i := range 3 {
		id := api.JobID(fmt.Sprint("ns/new-", i))
		ssn.Jobs[id], ssn.Jobs["ns/late"] = &api.JobInfo{UID: id, Namespace: "ns"}, &api.JobInfo{UID: "ns/late", Namespace: "ns"}
		s := newSearches(ssn, turns)
		if err := s.admit(&api.TaskInfo{Job: id, Namespace: "ns"}); err != nil {
			t.Fatal(err)
		}
		s.spent[r] = searchTime
		if err := s.admit(&api.TaskInfo{Job: "ns/late", Namespace: "ns"}); err == nil {
			t.Fatal("a gang may search although its namespace has used up its time")
		}
		s.end()
		if diff := cmp.Diff(map[round]map[api.JobID]bool{r: {id: true}}, turns.searched); diff != "" {
			t.Errorf("gangs that were searched for (-want +got):\n%s", diff)
		}
		delete(ssn.Jobs, id)
	}
}

// TestAnUntriedGangKeepsItsRoundOpen: gangs that have had their search wait for a postponed gang of their namespace,
// even if allocate does not try that gang for some sessions. If allocate tries it and it needs no search, the round
// ends without its search.
func TestAnUntriedGangKeepsItsRoundOpen(t *testing.T) {
	for name, tt := range map[string]struct{ untried, want bool }{
		"a gang that allocate does not try": {untried: true, want: true},
		"a gang that needs no search":       {},
	} {
		jobs := map[api.JobID]*api.JobInfo{"other/gang": {UID: "other/gang", Namespace: "other"}}
		for _, id := range []api.JobID{"ns/first", "ns/late"} {
			jobs[id] = &api.JobInfo{UID: id, Namespace: "ns"}
		}
		ssn := &framework.Session{Session: &vcframework.Session{Jobs: jobs}, Action: upstreamsPreempt}
		turns := newTurns()
		s := newSearches(ssn, turns)
		if err := s.admit(&api.TaskInfo{Job: "ns/first", Namespace: "ns"}); err != nil {
			t.Fatal(err)
		}
		s.spent[round{upstreamsPreempt, "ns"}] = searchTime
		if err := s.admit(&api.TaskInfo{Job: "ns/late", Namespace: "ns"}); err == nil {
			t.Fatal("a gang may search although its namespace has used up its time")
		}
		s.end()
		for range 3 {
			ssn.Placements.SetUntried("ns/late", tt.untried)
			newSearches(ssn, turns).end()
		}
		if got := turns.had(ssn, jobs["ns/first"]); got != tt.want {
			t.Errorf("%s: the gang that had its search waits for the others: %t, want %t", name, got, tt.want)
		}
		ssn.Placements.SetUntried("ns/late", false)
		s = newSearches(ssn, turns)
		if err := s.admit(&api.TaskInfo{Job: "ns/late", Namespace: "ns"}); err != nil {
			t.Errorf("%s: the postponed gang may not search: %v", name, err)
		}
		if s.end(); turns.had(ssn, jobs["ns/first"]) {
			t.Errorf("%s: the round does not end", name)
		}
	}
}
