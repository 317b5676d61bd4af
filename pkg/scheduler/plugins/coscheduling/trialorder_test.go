// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// starved is the state of a gang that waits for resources, as mostStarved uses it.
type starved struct {
	uid             api.JobID
	queue           api.QueueID
	namespace       string
	waits           waitingGang
	tried           time.Time
	priorities      []int32
	minimum         int32
	group           types.UID
	deleted, placed bool
	groupless       bool
}

// sessionOf returns a session with the gangs and without plugins.
func sessionOf(now time.Time, gangs ...*starved) *session {
	known := reservations{waiting: map[api.JobID]*waitingGang{}, active: map[api.QueueID]*reservation{}, pauses: map[string]*pause{}, tried: map[string]time.Time{}, nextTrial: now}
	memory := &memory{reservations: known}
	s := &session{ssn: &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{}}}, memory: memory}
	s.reservations = &reservationManager{ssn: s.ssn, terms: reservationTerms{after: time.Minute}, known: &memory.reservations, gangGroup: s.GangGroup}
	for _, g := range gangs {
		known.waiting[g.uid] = &g.waits
		known.tried[g.namespace] = g.tried
		if g.deleted {
			continue
		}
		job := api.NewJobInfo(g.uid)
		job.Namespace, job.Queue, job.MinAvailable, job.PodGroup = g.namespace, g.queue, g.minimum, &api.PodGroup{}
		job.PodGroup.UID = g.group
		for i, priority := range g.priorities {
			pod := schedtest.MakePod().Name(string(g.uid) + string(rune('0'+i))).Obj()
			pod.Spec.Priority = &priority
			job.AddTaskInfo(api.NewTaskInfo(pod))
		}
		if g.placed {
			job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name(string(g.uid) + "-runs").Node("n").Phase(v1.PodRunning).Obj()))
		}
		if g.groupless {
			job.PodGroup = nil
		}
		s.ssn.Jobs[g.uid] = job
	}
	return s
}

// starvedPair returns two gangs, of which the first precedes the second by each rule.
func starvedPair(now time.Time) (first, second *starved) {
	first = &starved{uid: "a", queue: "q-a", namespace: "ns-a", group: "group-a", minimum: 2, priorities: []int32{7, 9}, tried: now.Add(-2 * time.Hour),
		waits: waitingGang{uid: "group-a", since: now.Add(-2 * time.Hour), lacksRoom: true, retry: pause{length: time.Minute, until: now}}}
	second = &starved{uid: "b", queue: "q-b", namespace: "ns-b", group: "group-b", minimum: 2, priorities: []int32{9, 6}, tried: now.Add(-time.Hour),
		waits: waitingGang{uid: "group-b", since: now.Add(-time.Hour), lacksRoom: true, retry: pause{length: 2 * time.Minute, until: now}}}
	return first, second
}

func chosen(s *session, now time.Time) api.JobID {
	if job := s.reservations.mostStarved(now); job != nil {
		return job.UID
	}
	return ""
}

// TestTheOrderOfTrials checks that each rule takes precedence over the rules after it.
func TestTheOrderOfTrials(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	rules := []struct {
		name string
		set  func(to, from *starved)
	}{
		{"the namespace's last trial", func(to, from *starved) { to.tried = from.tried }},
		{"its trials", func(to, from *starved) { to.waits.retry.length = from.waits.retry.length }},
		{"its pods' lowest priority", func(to, from *starved) { to.priorities = from.priorities }},
		{"how long it waits", func(to, from *starved) { to.waits.since = from.waits.since }},
		{"its name", func(to, from *starved) { to.uid = from.uid }},
	}
	for i, rule := range rules {
		first, second := starvedPair(now)
		one, other := *first, *second
		for _, before := range rules[:i] {
			before.set(&one, second)
		}
		for _, after := range rules[i+1:] {
			if after.name != "its name" {
				after.set(&one, second)
				after.set(&other, first)
			}
		}
		if rule.name != "its name" {
			one.uid, other.uid = "z", "b"
		}
		for range 10 { // gangs have no order
			if got := chosen(sessionOf(now, &one, &other), now); got != one.uid {
				t.Errorf("by %s, gang %s has the next trial, want %s", rule.name, got, one.uid)
			}
		}
	}
}

// TestWhichGangsHaveTrials checks each condition that excludes a gang from a trial, so that the next gang has it.
func TestWhichGangsHaveTrials(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	tests := map[string]struct {
		change func(g *starved)
		known  func(r *reservations)
		off    bool
		want   api.JobID
	}{
		"nothing":                          {want: "a"},
		"it waits for just as long":        {change: func(g *starved) { g.waits.since = now.Add(-time.Minute) }, want: "a"},
		"it has not waited for long":       {change: func(g *starved) { g.waits.since = now.Add(-time.Minute + 1) }, want: "b"},
		"its PodGroup was deleted":         {change: func(g *starved) { g.groupless = true }, want: "b"},
		"it was deleted":                   {change: func(g *starved) { g.deleted = true }, want: "b"},
		"it is another of the name":        {change: func(g *starved) { g.group = "other" }, want: "b"},
		"it waits for something else":      {change: func(g *starved) { g.waits.lacksRoom = false }, want: "b"},
		"its last trial was not long ago":  {change: func(g *starved) { g.waits.retry.until = now.Add(1) }, want: "b"},
		"a member is placed":               {change: func(g *starved) { g.placed = true }, want: "b"},
		"it lacks members":                 {change: func(g *starved) { g.minimum = 3 }, want: "b"},
		"its queue has nodes reserved":     {known: func(r *reservations) { r.active["q-a"] = &reservation{} }, want: "b"},
		"its namespace pauses":             {known: func(r *reservations) { r.pauses["namespace/ns-a"] = &pause{until: now.Add(1)} }, want: "b"},
		"another queue has nodes reserved": {known: func(r *reservations) { r.active["q-c"] = &reservation{} }, want: "a"},
		"the last trial was not long ago":  {known: func(r *reservations) { r.nextTrial = now.Add(1) }},
		"nothing is reserved":              {off: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			first, second := starvedPair(now)
			if tt.change != nil {
				tt.change(first)
			}
			s := sessionOf(now, first, second)
			if tt.known != nil {
				tt.known(s.reservations.known)
			}
			if tt.off {
				s.reservations.terms.after = 0
			}
			if got := chosen(s, now); got != tt.want {
				t.Errorf("gang %q has the next trial, want %q", got, tt.want)
			}
		})
	}
}

// TestPauses: a namespace's pause applies to all its gangs. A queue's pause applies in full to the namespaces that
// caused it, and only for the shortest pause to other namespaces.
func TestPauses(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ends := func(in, length time.Duration) *pause { return &pause{length: length, until: now.Add(in)} }
	tests := map[string]struct {
		queue, namespace *pause
		want             bool
	}{
		"none":                    {},
		"the namespace's":         {namespace: ends(1, time.Hour), want: true},
		"the namespace's is over": {namespace: ends(0, time.Hour)},
		"the queue's":             {queue: ends(1, shortestPause), want: true},
		"the queue's is over":     {queue: ends(0, shortestPause)},
		"a long one of the queue's, for its cause": {queue: ends(1, 4*time.Hour), namespace: ends(-time.Hour, time.Hour), want: true},
		"a long one of the queue's, for others":    {queue: ends(3*time.Hour, 4*time.Hour)},
		"the first hour of a long one, for others": {queue: ends(3*time.Hour+1, 4*time.Hour), want: true},
		"both are over": {queue: ends(0, 4*time.Hour), namespace: ends(0, 4*time.Hour)},
		"the namespace's is over, the queue's goes": {queue: ends(time.Hour, 2*time.Hour), namespace: ends(0, time.Hour), want: true},
	}
	for name, tt := range tests {
		r := &reservations{pauses: map[string]*pause{"queue/q": tt.queue, "namespace/ns": tt.namespace}}
		if got := r.paused("q", "ns", now); got != tt.want {
			t.Errorf("%s: the gang is paused: %t, want %t", name, got, tt.want)
		}
	}
	var lengths []time.Duration
	p := &pause{}
	for range 5 {
		if p.extend(time.Minute, 5*time.Minute, now); !p.until.Equal(now.Add(p.length)) {
			t.Errorf("a pause of length %s ends in %s", p.length, p.until.Sub(now))
		}
		lengths = append(lengths, p.length)
	}
	if diff := cmp.Diff([]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}, lengths); diff != "" {
		t.Errorf("lengths of pauses (-want +got):\n%s", diff)
	}
}
