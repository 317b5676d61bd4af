// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// quarantineState is the visible state of a Quarantine, with the reason of each gang and the beginning of its
// message.
type quarantineState struct {
	Gangs     map[api.JobID]string
	Counts    map[string]int
	Paused    []api.JobID
	Searching bool
}

func stateOf(t *testing.T, a *Quarantine) quarantineState {
	t.Helper()
	state := quarantineState{Gangs: map[api.JobID]string{}, Counts: a.Counts(), Searching: a.Searching()}
	all := a.Gangs()
	for _, gang := range []api.JobID{"ns/bad", "ns/evil", "ns/good", "ns/holds"} {
		reason, message, is := a.Why(gang)
		if why, listed := all[gang]; listed != is || why != (Verdict{reason, message}) {
			t.Errorf("gang %s: listed: %t (%v), and by itself quarantined: %t, for %s: %s", gang, listed, why, is, reason, message)
		}
		if is {
			state.Gangs[gang] = reason + " " + message[:min(len(message), 20)]
		}
		if a.IsPaused(gang) {
			state.Paused = append(state.Paused, gang)
		}
	}
	return state
}

// quarantineSnapshot has a gang with invalid amounts, and three gangs of one queue. One of these uses resources.
func quarantineSnapshot() *api.ClusterInfo {
	snapshot := evilGangs("ns/bad", "ns/evil", "ns/good", "ns/holds")
	for _, name := range []string{"q", "other"} {
		queue := &scheduling.Queue{}
		queue.Name = name
		snapshot.Queues[api.QueueID(name)] = api.NewQueueInfo(queue)
	}
	for id, job := range snapshot.Jobs {
		job.UID, job.Queue = id, "q"
	}
	snapshot.Jobs["ns/bad"].Queue = "other"
	snapshot.Jobs["ns/bad"].PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("-1")}
	snapshot.Jobs["ns/holds"].AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("p").Node("n").Phase(v1.PodRunning).Obj()))
	return snapshot
}

// TestTheQuarantineLogsItsSearch follows a gang whose turn panics: it is quarantined, tried again and readmitted. Then
// a cycle panics outside of any turn, and the search finds the same gang.
func TestTheQuarantineLogsItsSearch(t *testing.T) {
	a, now := New(), time.Unix(0, 0)
	const wrong, held = "InvalidResources spec.minResources[cp", "SchedulerPanic Quarantined for up t"
	counts := func(gangs int) map[string]int { return map[string]int{PodGroup: gangs, queueObject: 0, nodeObject: 0} }
	quiet := quarantineState{Gangs: map[api.JobID]string{"ns/bad": wrong}, Counts: counts(1)}
	holding := quarantineState{Gangs: map[api.JobID]string{"ns/bad": wrong, "ns/evil": held}, Counts: counts(2)}
	searching := func(paused ...api.JobID) quarantineState {
		return quarantineState{Gangs: quiet.Gangs, Counts: quiet.Counts, Searching: true, Paused: paused}
	}
	type outcome struct {
		Found   []string
		Another bool // after a panic: another cycle is useful; after a success: the search is busy
	}
	steps := []struct {
		name     string
		later    time.Duration
		panics   bool
		turn     api.JobID
		session  []string
		want     outcome
		is       quarantineState
		forgives bool
	}{
		{name: "quiet", session: []string{"evil", "good", "holds"}, is: quiet},
		{name: "a panic of its turn", panics: true, turn: "ns/evil", session: []string{"evil", "good", "holds"}, want: outcome{nil, true}, is: holding},
		{name: "without it", session: []string{"good", "holds"}, want: outcome{[]string{"PodGroup ns/evil"}, true}, is: holding},
		{name: "again", session: []string{"good", "holds"}, want: outcome{nil, true}, is: holding},
		{name: "it comes back", later: firstHold, panics: true, session: []string{"evil", "good", "holds"}, want: outcome{[]string{"PodGroup ns/evil"}, true}, is: holding, forgives: true},
		{name: "a panic of no turn", panics: true, session: []string{"evil", "good", "holds"}, want: outcome{nil, true}, is: searching()},
		{name: "without any", want: outcome{nil, true}, is: searching()},
		{name: "the first half", panics: true, session: []string{"evil"}, want: outcome{nil, true}, is: searching("ns/evil")},
		{name: "the only one, again", panics: true, session: []string{"evil"}, want: outcome{[]string{"PodGroup ns/evil"}, true},
			is: quarantineState{Gangs: holding.Gangs, Counts: holding.Counts, Searching: true, Paused: []api.JobID{"ns/evil"}}},
		{name: "the second half", session: []string{"good", "holds"}, want: outcome{nil, true}, is: holding},
	}
	for i, step := range steps {
		now = now.Add(step.later)
		session := quarantineSnapshot()
		news := a.RemoveFrom(session, nil, now)
		if (len(news) == 1) != (i == 0) {
			t.Errorf("%s: reports are %v, want them in the first session only", step.name, news)
		}
		var jobs []string
		for _, id := range of("ns", session.Jobs) {
			jobs = append(jobs, strings.TrimPrefix(string(id), "ns/"))
		}
		if diff := cmp.Diff(step.session, jobs); diff != "" {
			t.Errorf("%s: gangs in the session (-want +got):\n%s", step.name, diff)
		}
		var got outcome
		var found []Culprit
		if step.panics {
			found, got.Another = a.Panicked(now, step.turn, "oh no")
		} else {
			found, got.Another = a.Succeeded()
		}
		for _, held := range found {
			if !strings.HasPrefix(held.Message, "Quarantined for up to ") || !strings.HasSuffix(held.Message, ": oh no") {
				t.Errorf("%s: the message is %q", step.name, held.Message)
			}
			got.Found = append(got.Found, held.Kind+" "+held.Name)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: outcome (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.is, stateOf(t, a)); diff != "" {
			t.Errorf("%s: state (-want +got):\n%s", step.name, diff)
		}
		if step.forgives {
			if a.Readmit(); !cmp.Equal(quiet, stateOf(t, a)) {
				t.Errorf("%s: when it is forgiven the state is %v, want %v", step.name, stateOf(t, a), quiet)
			}
		}
	}
}

// TestTheQuarantineIsReadWhileSessionsRun calls the methods concurrently, as sessions and other goroutines do, so that
// the race detector checks their accesses.
func TestTheQuarantineIsReadWhileSessionsRun(t *testing.T) {
	a, now := New(), time.Unix(0, 0)
	calls := []func(){
		func() { a.RemoveFrom(quarantineSnapshot(), nil, now) },
		func() { a.CapMinResources(quarantineSnapshot()) },
		func() { a.Panicked(now, "ns/evil", "oh no") },
		func() { a.Succeeded() },
		func() { a.Readmit() },
		func() { a.Why("ns/bad") },
		func() { a.Gangs() },
		func() { a.IsPaused("ns/good") },
		func() { a.Counts() },
		func() { a.Searching() },
	}
	var all sync.WaitGroup
	for _, call := range calls {
		for range 3 {
			all.Go(call)
		}
	}
	all.Wait()
}

// TestEachSuspectIsReported checks that each suspect is reported when a session without the suspects succeeds, unless
// it was deleted in the meantime. A search that finds no culprit ends.
func TestEachSuspectIsReported(t *testing.T) {
	a, now := New(), time.Unix(0, 0)
	for _, turn := range []api.JobID{"ns/evil", "ns/good", "ns/holds"} {
		a.RemoveFrom(quarantineSnapshot(), nil, now)
		a.Panicked(now, turn, "oh no")
	}
	session := quarantineSnapshot()
	delete(session.Jobs, "ns/good")
	a.RemoveFrom(session, nil, now)
	found, busy := a.Succeeded()
	var names []string
	for _, held := range found {
		names = append(names, held.Name)
	}
	if diff := cmp.Diff([]string{"ns/evil", "ns/holds"}, names); diff != "" || !busy {
		t.Errorf("reported (-want +got), busy: %t:\n%s", busy, diff)
	}
	a.Readmit()
	var another []bool
	for range 3 {
		a.RemoveFrom(quarantineSnapshot(), nil, now)
		_, more := a.Panicked(now, "", "oh no")
		another = append(another, more)
	}
	if diff := cmp.Diff([]bool{true, true, false}, another); diff != "" {
		t.Errorf("the search goes on (-want +got):\n%s", diff)
	}
	a.RemoveFrom(quarantineSnapshot(), nil, now)
	if _, busy := a.Succeeded(); busy {
		t.Error("it is busy when nothing is quarantined")
	}
}

// TestPodsBeingDeletedAreNoGang checks the job (DeletedJob) that has the pods of an invalid gang that are being
// deleted. Like the gang, it is left out of the session. It is neither reported nor counted as a gang.
func TestPodsBeingDeletedAreNoGang(t *testing.T) {
	a, session := New(), quarantineSnapshot()
	deleted := framework.DeletedJob("ns/bad")
	session.Jobs[deleted] = quarantineSnapshot().Jobs["ns/bad"]
	session.Jobs[deleted].UID = deleted
	news := a.RemoveFrom(session, nil, time.Unix(0, 0))
	if _, is := news["ns/bad"]; !is || len(news) != 1 || a.Counts()[PodGroup] != 1 || session.Jobs[deleted] != nil {
		t.Errorf("reports are %v, %d gangs are quarantined, and the job is in the session: %t; want one gang, and the job left out",
			news, a.Counts()[PodGroup], session.Jobs[deleted] != nil)
	}
}
