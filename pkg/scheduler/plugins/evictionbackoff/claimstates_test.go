// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// bare returns a session with the jobs and without plugins.
func bare(action string, jobs ...*api.JobInfo) *framework.Session {
	ssn := &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{}, Nodes: map[string]*api.NodeInfo{}}}
	ssn.Action = action
	for _, job := range jobs {
		ssn.Jobs[job.UID] = job
	}
	return ssn
}

// jobOf returns a job with one task in each status. The UID of a task is the job's name with a number. The deletion of
// releasing tasks has begun.
func jobOf(namespace, name string, statuses ...api.TaskStatus) *api.JobInfo {
	job := api.NewJobInfo(api.JobID(namespace + "/" + name))
	job.Namespace, job.Name, job.Queue = namespace, name, api.QueueID("q-"+name)
	for i, status := range statuses {
		task := api.NewTaskInfo(schedtest.MakePod().Namespace(namespace).Name(name).Group(name).Obj())
		task.UID, task.Status, task.NodeName = api.TaskID(name+string(rune('0'+i))), status, "n"
		if status == api.Releasing {
			task.Pod.DeletionTimestamp = new(metav1.Now())
		}
		job.AddTaskInfo(task)
	}
	return job
}

// notDeleted has the deletion of the job's tasks not begin yet.
func notDeleted(job *api.JobInfo) *api.JobInfo {
	for _, task := range job.Tasks {
		task.Pod.DeletionTimestamp = nil
	}
	return job
}

// TestClaimsFromSessionToSession: a claim lasts while a nominee is pending. Its gang is placed first while victims
// terminate, and in one session after that.
func TestClaimsFromSessionToSession(t *testing.T) {
	type state struct{ Promised, Open, Blocked bool }
	const forGood = framework.AbsentFor
	tests := map[string]struct {
		gang, victims *api.JobInfo
		open          bool
		left          time.Duration
		want          *state
		absent        time.Duration // how long no session had the gang
	}{
		"its victim leaves":                  {jobOf("ns", "wants", api.Pending), jobOf("ns", "lends", api.Releasing), true, 1, &state{true, true, true}, 0},
		"its victim stays, after an error":   {jobOf("ns", "wants", api.Pending), jobOf("ns", "lends", api.Running), true, 1, &state{true, false, true}, 0},
		"its victim has left":                {jobOf("ns", "wants", api.Pending), jobOf("ns", "lends"), true, 1, &state{true, false, true}, 0},
		"its victim had left before":         {jobOf("ns", "wants", api.Pending), jobOf("ns", "lends"), false, 1, &state{false, false, true}, 0},
		"with its gang":                      {jobOf("ns", "wants", api.Pending), nil, true, 1, &state{true, false, true}, 0},
		"its victim should have left":        {jobOf("ns", "wants", api.Pending), jobOf("ns", "lends", api.Releasing), true, 0, &state{false, true, true}, 0},
		"its victim's deletion begins late":  {jobOf("ns", "wants", api.Pending), notDeleted(jobOf("ns", "lends", api.Releasing)), true, 0, &state{true, true, true}, 0},
		"one of two nominees is placed":      {jobOf("ns", "wants", api.Running, api.Pending), jobOf("ns", "lends", api.Releasing), true, 1, &state{true, true, true}, 0},
		"all nominees are placed":            {jobOf("ns", "wants", api.Running, api.Running), jobOf("ns", "lends", api.Releasing), true, 1, nil, 0},
		"nominees are placed, others wait":   {jobOf("ns", "wants", api.Running, api.Running, api.Pending), jobOf("ns", "lends", api.Releasing), true, 1, nil, 0},
		"the gang was deleted":               {nil, jobOf("ns", "lends", api.Releasing), true, 1, nil, forGood},
		"this session lacks the gang":        {nil, jobOf("ns", "lends", api.Releasing), true, 1, &state{false, true, true}, forGood - 1},
		"another gang has a claim that ends": {jobOf("ns", "wants", api.Pending), jobOf("ns", "lends", api.Releasing), true, 1, &state{true, true, true}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlugin()
				c := newClaim()
				for uid, task := range jobOf("ns", "wants", api.Pending, api.Pending).Tasks {
					c.nominees[uid] = nomineeOf(task)
				}
				c.victims["lends0"] = "ns/lends"
				c.open, c.until, c.seen = tt.open, time.Now().Add(tt.left), time.Now().Add(-tt.absent)
				other := newClaim()
				other.seen = time.Now().Add(-forGood)
				p.claims["ns/wants"], p.claims["ns/other"] = c, other
				p.gangs.Failed("ns/wants", "why")
				ssn := bare("")
				for _, job := range []*api.JobInfo{tt.gang, tt.victims} {
					if job != nil {
						ssn.Jobs[job.UID] = job
					}
				}

				p.closeClaims(ssn)

				var got *state
				if p.claims["ns/wants"] != nil {
					_, _, blocked := p.gangs.Blocked("ns/wants")
					got = &state{Promised: len(p.promised["ns/wants"]) > 0, Open: c.open, Blocked: blocked}
				} else if _, _, blocked := p.gangs.Blocked("ns/wants"); blocked || len(p.promised) > 0 {
					t.Errorf("without a claim the gang waits: %t, and the promised nominees are %v", blocked, p.promised)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("the claim (-want +got):\n%s", diff)
				}
				if tt.gang != nil && !c.seen.Equal(time.Now()) {
					t.Errorf("the gang was last seen at %v, want now", c.seen)
				}
				if p.claims["ns/other"] != nil {
					t.Error("the claim of a deleted gang still exists")
				}
			})
		})
	}
}

// TestAClaimAwaitsTheDeletionOfItsVictims: pods of PodDisruptionBudgets are evicted one after the other. The claim ends
// only when the last victim should have terminated, counted from the last session before its deletion began. It does not wait
// for a victim that was not evicted after all.
func TestAClaimAwaitsTheDeletionOfItsVictims(t *testing.T) {
	const begins, terminates = 5 * time.Minute, defaultGrace + graceSlack
	for name, tt := range map[string]struct {
		later func(victim *api.TaskInfo) // what happens to the second victim at time begins
		want  time.Duration
	}{
		"its deletion begins late": {
			later: func(victim *api.TaskInfo) { victim.Pod.DeletionTimestamp = new(metav1.Now()) }, want: begins + terminates - time.Second,
		},
		"it is refused": {
			later: func(victim *api.TaskInfo) { victim.Status = api.Running }, want: begins + terminates - time.Second,
		},
		"its deletion has begun with the eviction": {want: terminates},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, c, wants, lends := newPlugin(), newClaim(), jobOf("ns", "wants", api.Pending), jobOf("ns", "lends", api.Releasing, api.Releasing)
				for uid, task := range wants.Tasks {
					c.nominees[uid] = nomineeOf(task)
				}
				for _, victim := range lends.Tasks {
					c.addVictim(victim, time.Now())
				}
				p.claims["ns/wants"] = c
				last := lends.Tasks["lends1"]
				if tt.later != nil {
					last.Pod.DeletionTimestamp = nil
				}
				var ended time.Duration
				for start := time.Now(); ended == 0 && time.Since(start) < 20*time.Minute; time.Sleep(time.Second) {
					if tt.later != nil && time.Since(start) == begins {
						tt.later(last)
					}
					p.openClaims(bare("", wants, lends))
					if p.promised["ns/wants"] == nil {
						ended = time.Since(start)
					}
				}
				if ended != tt.want {
					t.Errorf("the gang is placed first for %s, want %s", ended, tt.want)
				}
			})
		})
	}
}

// TestWhichEvictionsAreNoted: the queue of a reclaimed pod waits, and the gang for which the pod was evicted has a claim. If
// it is not known, because upstream's action evicted the pod, gangs whose members are nominated to the victim's node have one.
func TestWhichEvictionsAreNoted(t *testing.T) {
	follows := func(job *api.JobInfo, all bool) *api.JobInfo {
		for _, task := range job.Tasks {
			task.EvictionOccurred = all
		}
		return job
	}
	tests := map[string]struct {
		action  string
		wants   *api.JobInfo
		node    string
		unknown bool
		taken   bool
		claims  map[api.JobID]map[api.TaskID]bool
		// known reports whether the eviction names gang wants.
		known bool
	}{
		"a reclaim":                           {reclaim, follows(jobOf("ns", "wants", api.Pipelined, api.Pipelined, api.Pending), true), "n", false, true, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true, "wants1": true}}, false},
		"a preemption":                        {preempt, follows(jobOf("ns", "wants", api.Pipelined), true), "n", false, false, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true}}, false},
		"members that follow no pod":          {preempt, follows(jobOf("ns", "wants", api.Pipelined), false), "n", false, false, nil, false},
		"members that are placed":             {preempt, follows(jobOf("ns", "wants", api.Running), true), "n", false, false, nil, false},
		"on another node":                     {reclaim, follows(jobOf("ns", "wants", api.Pipelined), true), "other", false, true, nil, false},
		"on a node that has gone":             {reclaim, follows(jobOf("ns", "wants", api.Pipelined), true), "gone", false, true, nil, false},
		"of a gang that has gone":             {reclaim, follows(jobOf("ns", "wants", api.Pipelined), true), "n", true, false, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true}}, false},
		"for a gang, on another node":         {reclaim, jobOf("ns", "wants", api.Pipelined, api.Pipelined, api.Pending), "other", false, true, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true, "wants1": true}}, true},
		"for a gang, on a node that has gone": {preempt, jobOf("ns", "wants", api.Pipelined), "gone", false, false, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true}}, true},
		"for a gang that waits for no pods":   {preempt, follows(jobOf("ns", "wants", api.Running), true), "n", false, false, nil, true},
		"a preemption by upstream":            {upstreamsPreempt, follows(jobOf("ns", "wants", api.Pipelined), true), "n", false, false, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true}}, false},
		"a reclaim by upstream":               {upstreamsReclaim, follows(jobOf("ns", "wants", api.Pipelined), true), "n", false, true, map[api.JobID]map[api.TaskID]bool{"ns/wants": {"wants0": true}}, false},
		"beside pods of no gang here":         {reclaim, nil, "n", false, true, nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlugin()
			p.noted, p.taken = map[api.JobID]bool{}, map[api.QueueID]bool{}
			lends := jobOf("ns", "lends", api.Releasing)
			ssn := bare(tt.action)
			if !tt.unknown {
				ssn.Jobs[lends.UID] = lends
			}
			for _, node := range []string{"n", "other"} {
				ssn.Nodes[node] = api.NewNodeInfo(schedtest.MakeNode().Name(node).Obj())
			}
			on := jobOf("ns", "stranger", api.Running)
			if tt.wants != nil {
				ssn.Jobs[tt.wants.UID], on = tt.wants, tt.wants
			}
			for _, task := range on.Tasks {
				ssn.Nodes["n"].Tasks[task.UID] = task.Clone()
			}
			victim := lends.Tasks["lends0"]
			victim.NodeName = tt.node

			eviction := framework.Eviction{Action: tt.action, Task: victim}
			if tt.known {
				eviction.For = tt.wants
			}
			p.recordEviction(ssn, eviction)

			if _, _, blocked := p.queues.Blocked("q-lends"); blocked != tt.taken {
				t.Errorf("the queue waits: %t, want %t", blocked, tt.taken)
			}
			var claims map[api.JobID]map[api.TaskID]bool
			for gang, c := range p.claims {
				if claims == nil {
					claims = map[api.JobID]map[api.TaskID]bool{}
				}
				claims[gang] = idsOf(c.nominees)
				if _, _, blocked := p.gangs.Blocked(gang); !blocked || !c.open || c.victims["lends0"] != "ns/lends" {
					t.Errorf("gang %s waits: %t, with the claim %v", gang, blocked, c)
				}
			}
			if diff := cmp.Diff(tt.claims, claims); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSearchesOfNamespaces: one of upstream's actions searches for the gangs of each namespace for a limited time per
// cycle. The next cycle continues with the remaining gangs.
func TestSearchesOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ssn, turns, gangs := bare(upstreamsPreempt), newTurns(), map[string]*api.JobInfo{}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2"} {
			gangs[name] = jobOf(name[:1], name, api.Pending)
			ssn.Jobs[gangs[name].UID] = gangs[name]
		}
		admits := func(s *searches, name string) bool {
			task := api.NewTaskInfo(schedtest.MakePod().Namespace(name[:1]).Name(name).Group(name).Obj())
			return s.admit(task) == nil
		}
		step := func(s *searches, action, name string, takes time.Duration, want bool) {
			t.Helper()
			ssn.Action = action
			if got := admits(s, name); got != want {
				t.Errorf("action %s searches for gang %s: %t, want %t", action, name, got, want)
			}
			time.Sleep(takes)
		}
		had := func(action, want string) {
			t.Helper()
			ssn.Action = action
			got := ""
			for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2"} {
				if turns.had(ssn, gangs[name]) {
					got += name + " "
				}
			}
			if got != want {
				t.Errorf("action %s has searched for %q, want %q", action, got, want)
			}
		}
		s := newSearches(ssn, turns)
		step(s, upstreamsPreempt, "a1", searchTime/2, true)
		step(s, upstreamsPreempt, "b1", searchTime, true)
		step(s, upstreamsPreempt, "a2", searchTime/2-1, true)
		step(s, upstreamsPreempt, "a3", 1, true)
		step(s, upstreamsPreempt, "a4", time.Hour, false) // this time counts for the namespace
		step(s, upstreamsPreempt, "a3", 0, true)          // the next member of the same gang
		step(s, upstreamsPreempt, "b2", 0, false)
		step(s, "allocate", "a4", 0, true)
		step(s, upstreamsPreempt, "x1", 0, true) // the session has no such gang
		time.Sleep(time.Hour)
		step(s, upstreamsReclaim, "a4", searchTime, true) // another action has its own time, which begins with it
		step(s, upstreamsReclaim, "b1", searchTime, true)
		s.end()
		had(upstreamsPreempt, "a1 a2 a3 b1 ")
		had(upstreamsReclaim, "")

		s = newSearches(ssn, turns)
		step(s, upstreamsPreempt, "a4", searchTime, true)
		step(s, upstreamsPreempt, "a1", 0, false)
		s.end()
		had(upstreamsPreempt, "a1 a2 a3 a4 ")

		for id := range ssn.Jobs {
			if ssn.Jobs[id].Namespace == "b" {
				delete(ssn.Jobs, id)
			}
		}
		s = newSearches(ssn, turns)
		for _, name := range []string{"a1", "a2", "a3"} {
			step(s, upstreamsPreempt, name, time.Hour, true) // no other namespace exists
		}
		s.end()
		had(upstreamsPreempt, "")
	})
}

// TestGangsWithVictimsInCommonShareARoom: two gangs that each share a victim with a third gang share a room with each
// other, too. The order in which claims are added does not matter.
func TestGangsWithVictimsInCommonShareARoom(t *testing.T) {
	claims := map[api.JobID][]api.TaskID{"both": {"first", "second"}, "one": {"first"}, "other": {"second"}, "alone": {"third"}}
	for _, order := range [][]api.JobID{
		{"both", "one", "other", "alone"}, {"both", "other", "one", "alone"}, {"one", "both", "other", "alone"},
		{"other", "both", "one", "alone"}, {"one", "other", "both", "alone"}, {"alone", "other", "one", "both"},
	} {
		s := sharers{}
		for _, gang := range order {
			c := newClaim()
			for _, victim := range claims[gang] {
				c.victims[victim] = "ns/lends"
			}
			s.add(gang, c)
		}
		if room := s.first("both"); s.first("one") != room || s.first("other") != room || s.first("alone") != "alone" {
			t.Errorf("in order %v the first gangs of the rooms are %s, %s, %s and %s, want equal rooms except for alone", order, room, s.first("one"), s.first("other"), s.first("alone"))
		}
	}
}
