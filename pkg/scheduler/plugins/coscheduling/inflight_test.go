// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"testing"
	"time"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// gangIn returns an admitted gang with one member in each of these statuses.
func gangIn(statuses ...api.TaskStatus) *gang {
	job := api.NewJobInfo("ns/g")
	job.PodGroup = &api.PodGroup{}
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	for i, status := range statuses {
		task := api.NewTaskInfo(schedtest.MakePod().Name("g-" + string(rune('0'+i))).Group("g").Req(cores("1")).Obj())
		task.Status = status
		job.AddTaskInfo(task)
	}
	g := &gang{JobInfo: job}
	g.Settings.WaitingTime = time.Minute
	return g
}

// TestWaitsWhole checks that waitsWhole returns false for a gang with a member that is being bound or was bound.
func TestWaitsWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		statuses []api.TaskStatus
		want     bool
	}{
		"members wait":                              {[]api.TaskStatus{api.Pending, api.Pending}, true},
		"members have nodes in the session":         {[]api.TaskStatus{api.Allocated, api.Pipelined}, true},
		"a member waits and another is being bound": {[]api.TaskStatus{api.Pending, api.Binding}, false},
		"a member waits and another runs":           {[]api.TaskStatus{api.Pending, api.Running}, false},
		"no member waits":                           {[]api.TaskStatus{api.Succeeded}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := waitsWhole(gangIn(tt.statuses...).JobInfo); got != tt.want {
				t.Errorf("all members wait: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestGangInFlightDoesNotTimeOut checks that a gang whose members are being bound has no backoff, and that it does not
// time out when its waiting time ends.
func TestGangInFlightDoesNotTimeOut(t *testing.T) {
	now := time.Now()
	for _, statuses := range [][]api.TaskStatus{{api.Binding, api.Pending}, {api.Pending, api.Pending}} {
		g := gangIn(statuses...)
		l := &admissionDeadline{id: "g", gangs: []*gang{g}}
		g.limit = &knownLimit{reason: timedOut, since: now}
		if held, want := !l.backoffEnds(now).IsZero(), statuses[0] == api.Pending; held != want {
			t.Errorf("with members %v the gang waits for the end of its backoff: %t, want %t", statuses, held, want)
		}
	}
	ssn := &framework.Session{Session: &vcframework.Session{}}
	s := &session{ssn: ssn, reservations: &reservationManager{ssn: ssn, known: &reservations{}}}
	g := gangIn(api.Binding, api.Pending)
	g.limit = &knownLimit{reason: gangAdmitted, since: now.Add(-time.Hour)}
	l := &admissionDeadline{id: "g", gangs: []*gang{g}}
	if next := s.limitWait(l, now); !next.IsZero() || l.tries > 0 || g.limit == nil || g.limit.reason != gangAdmitted || g.IsPending() {
		t.Errorf("an hour after its admission the gang has %d timeouts and phase %s, want none, and the same time limit", l.tries, g.PodGroup.Status.Phase)
	}
}

// TestOnlyRoomForTheWholeGangDoublesItsWait checks that the waiting time doubles only if all members that the minimum
// needs are pipelined. Upstream's reclaim frees resources for one member at a time.
func TestOnlyRoomForTheWholeGangDoublesItsWait(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		second api.TaskStatus
		want   time.Duration
	}{{api.Pipelined, 2 * time.Minute}, {api.Pending, time.Minute}} {
		g := gangIn(api.Pipelined, c.second)
		g.MinAvailable = 2
		g.limit = &knownLimit{reason: gangAdmitted, since: now}
		if limit, _, _ := (&admissionDeadline{id: "g", gangs: []*gang{g}}).clock(nil, now); limit != c.want {
			t.Errorf("with one pipelined member and one that is %s, the waiting time is %s, want %s", c.second, limit, c.want)
		}
	}
}

// TestTheFirstAdmissionOfAGroupCounts: the waiting time of a group begins with the earliest admission among the gangs
// that are still admitted.
func TestTheFirstAdmissionOfAGroupCounts(t *testing.T) {
	now := time.Now()
	l := &admissionDeadline{id: "g"}
	for _, ago := range []time.Duration{time.Second, time.Hour, time.Minute} {
		g := gangIn(api.Pending)
		g.limit = &knownLimit{reason: gangAdmitted, since: now.Add(-ago)}
		l.gangs = append(l.gangs, g)
	}
	if _, first, since := l.clock(nil, now); first != l.gangs[1] || now.Sub(since) != time.Hour {
		t.Errorf("the group has waited for %s, want an hour", now.Sub(since))
	}
	l.gangs[1].returnToPending()
	if _, first, since := l.clock(nil, now); first != l.gangs[2] || now.Sub(since) != time.Minute || l.gangs[1].limit != nil {
		t.Errorf("the group has waited for %s, and the pending gang has the limit %v, want a minute and none", now.Sub(since), l.gangs[1].limit)
	}
	l.gangs = l.gangs[:2]
	for i, names := range [][]api.JobID{{"ns/a", "ns/b"}, {"ns/b", "ns/a"}} {
		for n, g := range l.gangs {
			g.PodGroup.Status.Phase, g.limit = scheduling.PodGroupInqueue, &knownLimit{reason: gangAdmitted, since: now}
			g.UID = names[n]
		}
		if _, first, _ := l.clock(nil, now); first != l.gangs[i] {
			t.Errorf("of gangs admitted at the same time, %s counts, want the first by name", first.UID)
		}
	}
}

// TestNodesHaveRoomForGangsWithTheirMembers checks that a gang with too few pending members has no room anywhere.
// Otherwise its backoff would end too early.
func TestNodesHaveRoomForGangsWithTheirMembers(t *testing.T) {
	node := api.NewNodeInfo(holds("8").Name("n").Obj())
	s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{"n": node}}}}
	for want, statuses := range map[bool][]api.TaskStatus{true: {api.Pending, api.Pending}, false: {api.Pending, api.Succeeded}} {
		g, looks := gangIn(statuses...), 0
		g.MinAvailable = 2
		if _, room, known := s.hasRoom(&admissionDeadline{gangs: []*gang{g}}, &looks); room != want || !known {
			t.Errorf("a gang of two with members %v has room: %t, known: %t; want %t, and known", statuses, room, known, want)
		}
	}
}
