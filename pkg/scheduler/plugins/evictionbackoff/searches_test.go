// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestNodesThatAPausedGangAvoids: a paused gang avoids nodes where resources were being released before the first
// search of the session, except the nodes of its own victims, which other paused gangs avoid.
func TestNodesThatAPausedGangAvoids(t *testing.T) {
	nodes := map[string]*api.NodeInfo{}
	for name, releasing := range map[string]float64{"idle": 0, "evicted-for-own": 4000, "released": 1000} {
		nodes[name] = &api.NodeInfo{Name: name, Releasing: &api.Resource{MilliCPU: releasing}}
	}
	jobs := map[api.JobID]*api.JobInfo{}
	for _, name := range []string{"own", "other", "unpaused"} {
		jobs[api.JobID(name)] = &api.JobInfo{UID: api.JobID(name), Name: name}
	}
	p := newPlugin()
	p.promised = map[api.JobID]map[api.TaskID]bool{"own": {"own-0": true}}
	p.claims["own"] = newClaim()
	p.claims["own"].nodes["evicted-for-own"] = true
	ssn := &framework.Session{Session: &vcframework.Session{Jobs: jobs, Nodes: nodes}}
	paused := &pauses{ssn: ssn, of: p, paused: idleOnly{"own": true, "other": true}.paused}
	for _, search := range []struct {
		action string
		gang   api.JobID
		avoids []string
	}{
		{"allocate", "other", nil},
		{preempt, "own", []string{"released"}},
		{preempt, "other", []string{"evicted-for-own", "released"}},
		{"backfill", "other", nil},
		{reclaim, "unpaused", nil},
		{reclaim, "own", []string{"released"}},
	} {
		ssn.Action = search.action
		task := &api.TaskInfo{Job: search.gang}
		paused.setAvoided(task)
		var avoids []string
		for _, node := range nodes {
			if paused.accepts(task, node) != nil {
				avoids = append(avoids, node.Name)
			}
		}
		slices.Sort(avoids)
		if diff := cmp.Diff(search.avoids, avoids); diff != "" {
			t.Errorf("gang %s in %s avoids (-want +got):\n%s", search.gang, search.action, diff)
		}
		nodes["idle"].Releasing = &api.Resource{MilliCPU: 1000} // by evictions of this session's searches
		if search.action == "allocate" {
			nodes["idle"].Releasing = api.EmptyResource()
		}
	}
}

// TestOnlyActionsThatEvictTakeTurns checks that the limit on search time applies only to preempt and reclaim. allocate
// and backfill call the same function before they place a task.
func TestOnlyActionsThatEvictTakeTurns(t *testing.T) {
	job := &api.JobInfo{UID: "ns/gang", Namespace: "ns"}
	ssn := &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{job.UID: job, "other/gang": {UID: "other/gang", Namespace: "other"}}}}
	for action, waits := range map[string]bool{preempt: true, reclaim: true, "allocate": false, "backfill": false} {
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
	ssn := &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{"other/gang": {UID: "other/gang", Namespace: "other"}}}, Action: preempt}
	turns := newTurns()
	r := round{preempt, "ns"}
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
		if diff := cmp.Diff(map[round]map[string]bool{r: {string(id): true}}, turns.searched); diff != "" {
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
		ssn := &framework.Session{Session: &vcframework.Session{Jobs: jobs}, Action: preempt}
		turns := newTurns()
		s := newSearches(ssn, turns)
		if err := s.admit(&api.TaskInfo{Job: "ns/first", Namespace: "ns"}); err != nil {
			t.Fatal(err)
		}
		s.spent[round{preempt, "ns"}] = searchTime
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

// TestTheCostOfANodeIsThatOfItsLeastImportantVictims checks that the cost of a node counts only the victims of lowest
// priority that suffice for the preemptor. Pods of gangs that are not in the session are no victims.
func TestTheCostOfANodeIsThatOfItsLeastImportantVictims(t *testing.T) {
	jobs := map[api.JobID]*api.JobInfo{"high": {UID: "high", Queue: "q", Priority: 100}}
	tasks := map[api.TaskID]*api.TaskInfo{}
	for priority := range int32(8) {
		name := fmt.Sprint("low", priority)
		jobs[api.JobID(name)] = &api.JobInfo{UID: api.JobID(name), Queue: "q", Priority: priority}
		tasks[api.TaskID(name)] = &api.TaskInfo{UID: api.TaskID(name), Job: api.JobID(name), Preemptable: true, Resreq: gpus(1), TransactionContext: api.TransactionContext{Status: api.Running}}
	}
	tasks["unknown"] = &api.TaskInfo{UID: "unknown", Job: "unknown", Preemptable: true, Resreq: gpus(8), TransactionContext: api.TransactionContext{Status: api.Running}}
	node := &api.NodeInfo{Name: "n", Idle: api.EmptyResource(), Releasing: api.EmptyResource(), Pipelined: api.EmptyResource(), Tasks: tasks}
	v := &victims{ssn: &framework.Session{Session: &vcframework.Session{Jobs: jobs}, Action: preempt}}
	for range 20 { // the tasks of a node have no order
		for n, want := range map[float64]cost{1: {1, 0}, 3: {3, 2}, 8: {8, 7}, 9: {victims: math.MaxInt}} {
			if got := v.cost(&api.TaskInfo{Job: "high", InitResreq: gpus(n)}, jobs["high"], node); got != want {
				t.Fatalf("the cost of %v GPUs is %+v, want %+v", n, got, want)
			}
		}
	}
}
