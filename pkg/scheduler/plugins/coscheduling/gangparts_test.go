// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAnotherRun checks when pending pods belong to a new run of the workload: all remaining pods of the former run
// have succeeded.
func TestAnotherRun(t *testing.T) {
	yes := true
	member := func(index int, status api.TaskStatus, owner types.UID) *api.TaskInfo {
		pod := schedtest.MakePod().Name(fmt.Sprint("p-", index)).Obj()
		if owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: &yes}}
		}
		task := api.NewTaskInfo(pod)
		task.Status = status
		return task
	}
	for name, tt := range map[string]struct {
		members []*api.TaskInfo
		minimum int32
		want    bool
	}{
		"of another controller":              {[]*api.TaskInfo{member(0, api.Succeeded, "a"), member(1, api.Pending, "b")}, 9, true},
		"of the same":                        {[]*api.TaskInfo{member(0, api.Succeeded, "a"), member(1, api.Pending, "a")}, 1, false},
		"one of the same":                    {[]*api.TaskInfo{member(0, api.Succeeded, "a"), member(1, api.Pending, "b"), member(2, api.Pending, "a")}, 1, false},
		"one without controller":             {[]*api.TaskInfo{member(0, api.Succeeded, "a"), member(1, api.Pending, ""), member(2, api.Pending, "b")}, 3, false},
		"one without, and enough":            {[]*api.TaskInfo{member(0, api.Succeeded, "a"), member(1, api.Pending, ""), member(2, api.Pending, "b")}, 2, true},
		"none of the first was owned":        {[]*api.TaskInfo{member(0, api.Succeeded, ""), member(1, api.Pending, "b")}, 9, true},
		"beside one that runs":               {[]*api.TaskInfo{member(0, api.Succeeded, "a"), member(1, api.Pending, "b"), member(2, api.Running, "b")}, 1, false},
		"nothing succeeded":                  {[]*api.TaskInfo{member(1, api.Pending, "b")}, 1, false},
		"nothing waits":                      {[]*api.TaskInfo{member(0, api.Succeeded, "a")}, 1, false},
		"nothing waits, and nothing need be": {[]*api.TaskInfo{member(0, api.Succeeded, "a")}, 0, true},
	} {
		for range 5 { // members have no order
			g := &gang{JobInfo: ofSizes(tt.minimum), minimum: tt.minimum}
			for _, task := range tt.members {
				g.AddTaskInfo(task)
			}
			if got := g.isNewRun(); got != tt.want {
				t.Errorf("%s: the pending pods are a new run: %t, want %t", name, got, tt.want)
			}
		}
	}
}

// TestRolesOfMembersThatDoNotCount checks that members which hold or held nodes are added to the minima of their roles.
func TestRolesOfMembersThatDoNotCount(t *testing.T) {
	g := &gang{JobInfo: ofSizes(1)}
	g.TaskMinAvailable = map[string]int32{"a": 1, "b": 2}
	for i, status := range []api.TaskStatus{api.Running, api.Bound, api.Binding, api.Allocated, api.Succeeded, api.Pending, api.Failed, api.Releasing} {
		for _, role := range []string{"a", "c"} {
			task := api.NewTaskInfo(schedtest.MakePod().Name(fmt.Sprint(role, i)).Obj())
			task.Status, task.TaskRole = status, role
			g.AddTaskInfo(task)
		}
	}
	g.addRoles()
	if diff := cmp.Diff(map[string]int32{"a": 6, "b": 2}, g.TaskMinAvailable); diff != "" {
		t.Errorf("minima of roles (-want +got):\n%s", diff)
	}
}

// TestGangsWithAWaitingTime checks that the gangs of a group share one waiting time, and that a satisfied gang has
// none.
func TestGangsWithAWaitingTime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	of := func(uid api.JobID, id string, change ...func(g *gang)) *gang {
		g := gangIn(api.Pending)
		g.UID, g.id, g.PodGroup.UID = uid, id, types.UID("group-"+uid)
		g.PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: TimeLimit, Reason: "forged"}}
		for _, c := range change {
			c(g)
		}
		return g
	}
	a, b, again := of("ns/a", "group"), of("ns/b", "group"), of("ns/again", "again")
	done := of("ns/done", "group", func(g *gang) { g.satisfied = true })
	s := sessionOf(now)
	s.limits = map[string]*admissionDeadline{}
	s.memory.limits = map[api.JobID]knownLimit{
		"ns/a":     {uid: "group-ns/a", reason: timedOut, since: now, tries: 2, message: "m"},
		"ns/again": {uid: "former", reason: timedOut, since: now, tries: 5, message: "m"},
		"ns/done":  {uid: "group-ns/done", reason: timedOut, since: now, tries: 7, message: "m"},
	}
	for _, g := range []*gang{a, b, again, done} {
		s.limitOf(g)
	}
	type state struct {
		Gangs int
		Tries int
	}
	got := map[string]state{}
	for id, l := range s.limits {
		got[id] = state{len(l.gangs), l.tries}
	}
	if diff := cmp.Diff(map[string]state{"group": {2, 2}, "again": {1, 0}}, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	for g, want := range map[*gang]string{a: timedOut, b: "", again: "", done: ""} {
		reason := ""
		if c := conditions.Find(&g.PodGroup.Status, TimeLimit); c != nil {
			reason = c.Reason
		}
		if reason != want || (g.limit != nil) != (want != "") {
			t.Errorf("gang %s has the condition %q and the limit %v, want %q", g.UID, reason, g.limit, want)
		}
	}

	l := s.limits["group"]
	a.limit, b.limit = &knownLimit{reason: gangAdmitted}, &knownLimit{reason: gangAdmitted}
	conditions.Set(&b.PodGroup.Status, s.ssn.UID, TimeLimit, gangAdmitted, "m")
	runs := api.NewTaskInfo(schedtest.MakePod().Name("runs").Node("n").Phase(v1.PodRunning).Obj())
	b.AddTaskInfo(runs)
	if next := s.limitWait(l, now); !next.IsZero() || a.limit != nil || b.limit != nil || conditions.Find(&a.PodGroup.Status, TimeLimit) != nil || conditions.Find(&b.PodGroup.Status, TimeLimit) != nil {
		t.Errorf("after a member of the group runs, the waiting time ends at %s and the limits are %v and %v, want none", next, a.limit, b.limit)
	}

	back := &admissionDeadline{id: "back", until: now.Add(time.Minute), gangs: []*gang{gangIn(api.Pending), gangIn(api.Pending)}}
	if next := s.limitWait(back, now); !next.Equal(back.until) || !back.gangs[0].IsPending() || !back.gangs[1].IsPending() {
		t.Errorf("a group that timed out waits until %s, and its gangs are %s and %s", next, back.gangs[0].PodGroup.Status.Phase, back.gangs[1].PodGroup.Status.Phase)
	}
	g := gangIn(api.Pending)
	g.PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: TimeLimit, Reason: gangAdmitted, Message: "m"}}
	if s.setLimit(g, gangAdmitted, "m", now); conditions.Find(&g.PodGroup.Status, TimeLimit).LastTransitionTime.IsZero() {
		t.Error("the new waiting time has the condition of the former one")
	}
}

// TestObjectsWithoutGangSettingsGetNoVerdict checks that the plugin gives no verdict on an object that is no gang, or
// on a gang without settings.
func TestObjectsWithoutGangSettingsGetNoVerdict(t *testing.T) {
	s := sessionOf(time.Now())
	s.gangs = map[api.JobID]*gang{}
	for name, waits := range map[api.JobID]*api.ValidateResult{"ns/free": nil, "ns/back": {Reason: timedOut}, "ns/group": {Reason: gangs.WaitingForGroup}} {
		s.gangs[name] = &gang{JobInfo: api.NewJobInfo(name), waits: waits}
	}
	for _, tt := range []struct {
		obj            any
		waits, refused bool
	}{
		{"no gang", false, false},
		{api.NewJobInfo("ns/other"), false, false},
		{api.NewJobInfo("ns/free"), false, false},
		{api.NewJobInfo("ns/back"), true, true},
		{api.NewJobInfo("ns/group"), true, false},
	} {
		if verdict := s.valid(tt.obj); (verdict != nil) != tt.waits {
			t.Errorf("%v: the verdict is %v, want one: %t", tt.obj, verdict, tt.waits)
		}
		job, is := tt.obj.(*api.JobInfo)
		if !is {
			continue
		}
		if reason := s.RefuseAdmission(job); (reason != nil) != tt.refused {
			t.Errorf("%s: the vote on admission is %v, want a refusal: %t", job.UID, reason, tt.refused)
		}
		if s.GangGroup(job) != nil {
			t.Errorf("%s has a gang group", job.UID)
		}
	}
	if waitsForNodes(nil) || !waitsForNodes(gangIn(api.Pending).JobInfo) || waitsForNodes(gangIn(api.Pending, api.Allocated).JobInfo) || waitsForNodes(gangIn(api.Pipelined).JobInfo) {
		t.Error("waitsForNodes must return true only for a gang without placed members")
	}
	s.reservations.known.active["q"] = &reservation{gang: "ns/a", queue: "q"}
	if s.reservations.terms.after = 0; s.reservations.keepReserved() != nil {
		t.Error("a filter for reservations exists although reservations are disabled")
	}
}

// TestConditionSatisfiedStays checks that the condition Satisfied keeps its message if the number of members changes
// later.
func TestConditionSatisfiedStays(t *testing.T) {
	s := sessionOf(time.Now())
	g := gangIn(api.Running)
	g.MatchPolicy, g.MinAvailable, g.PodGroup.Spec.MinMember = gangs.OnceSatisfied, 1, 1
	g.PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: Satisfied, Reason: "GangSatisfied", Message: "2 members were bound together"}}
	g.PodGroup.Status.Phase = scheduling.PodGroupRunning
	s.gangs = map[api.JobID]*gang{g.UID: g}
	s.noteSatisfied()
	if c := conditions.Find(&g.PodGroup.Status, Satisfied); !g.satisfied || c == nil || c.Message != "2 members were bound together" || g.PodGroup.Status.Phase != scheduling.PodGroupRunning {
		t.Errorf("the gang is satisfied: %t; its phase is %s and its condition %v", g.satisfied, g.PodGroup.Status.Phase, c)
	}
}
