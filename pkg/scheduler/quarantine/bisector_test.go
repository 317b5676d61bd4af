// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// gangs returns a snapshot of n PodGroups named 0, 1 and so on.
func gangs(n int) *api.ClusterInfo {
	snapshot := &api.ClusterInfo{Jobs: map[api.JobID]*api.JobInfo{}, Queues: map[api.QueueID]*api.QueueInfo{}, Nodes: map[string]*api.NodeInfo{}}
	for i := range n {
		id := api.JobID(fmt.Sprint(i))
		job := api.NewJobInfo(id)
		job.PodGroup = &api.PodGroup{}
		snapshot.Jobs[id] = job
	}
	return snapshot
}

// TestASearchIsShort checks that the bisector finds the culprit, and all other gangs are in sessions again, after a
// number of cycles that grows with the logarithm of the number of gangs.
func TestASearchIsShort(t *testing.T) {
	for n, most := range map[int]int{1: 4, 10: 14, 1000: 30, 20000: 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h, now := newBisector(), time.Unix(0, 0)
			culprit := api.JobID(fmt.Sprint(n / 3))
			for cycle := 1; ; cycle++ {
				snapshot := gangs(n)
				h.leaveOut(snapshot, now)
				if _, there := snapshot.Jobs[culprit]; there {
					h.panicked(now, "", "oh no")
				} else {
					h.succeeded()
				}
				if len(snapshot.Jobs) == n-1 && !h.searching() {
					return
				}
				if cycle > most {
					t.Fatalf("after %d cycles %d gangs are in the session, %d are quarantined", cycle, len(snapshot.Jobs), len(h.quarantined))
				}
			}
		})
	}
}

// TestALateReportOfAPanicQuarantinesNoObject checks that a panic that is reported late, in the cycle after its own,
// quarantines no object. In a later search, the object gets a second try again.
func TestALateReportOfAPanicQuarantinesNoObject(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	for range 2 {
		for range 3 { // with all gangs, without any, and with the only gang
			h.leaveOut(gangs(1), now)
			if len(h.seen.Jobs) == 0 {
				h.succeeded()
			} else {
				h.panicked(now, "", "oh no")
			}
		}
		if len(h.quarantined) != 0 || !h.searching() {
			t.Fatalf("%d objects are quarantined after one try, and the search goes on: %t; want none, and that it does", len(h.quarantined), h.searching())
		}
		h.leaveOut(gangs(1), now)
		h.succeeded()
		if len(h.quarantined) != 0 || h.searching() {
			t.Errorf("%d objects are quarantined, and the search goes on: %t; want none, and that it is over", len(h.quarantined), h.searching())
		}
	}
}

// TestGangsOfAQuarantinedQueueAreLeftOut checks that the gangs of a quarantined queue are left out of sessions with
// their queue, because plugins look up the queue of each gang that they see.
func TestGangsOfAQuarantinedQueueAreLeftOut(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	h.what = "oh no"
	h.quarantine(object{queueObject, "evil"}, now, 0)
	snapshot := gangs(3)
	for name, of := range map[api.QueueID][]api.JobID{"evil": {"0", "2"}, "good": {"1"}} {
		snapshot.Queues[name] = &api.QueueInfo{UID: name, Name: string(name), Queue: &scheduling.Queue{}}
		for _, gang := range of {
			snapshot.Jobs[gang].Queue = name
		}
	}
	h.leaveOut(snapshot, now)
	if snapshot.Queues["evil"] != nil || snapshot.Queues["good"] == nil {
		t.Errorf("the session has the queues %v, want the good one", snapshot.Queues)
	}
	if len(snapshot.Jobs) != 1 || snapshot.Jobs["1"] == nil {
		t.Errorf("the session has %d gangs, want the one of the good queue", len(snapshot.Jobs))
	}
}

// TestAQuarantinedGangReturns checks that a quarantined gang returns after a wait that doubles, and sooner if it has
// changed.
func TestAQuarantinedGangReturns(t *testing.T) {
	tests := map[string]struct {
		change bool
		waits  []time.Duration
	}{
		"unchanged": {waits: []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}},
		"changed":   {change: true, waits: []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, now := newBisector(), time.Unix(0, 0)
			h.leaveOut(gangs(3), now)
			h.panicked(now, "1", "oh no")
			h.leaveOut(gangs(3), now)
			h.succeeded()
			var waits []time.Duration
			for range tt.waits {
				h.leaveOut(gangs(3), now) // This call records the gang's fingerprint.
				start := now
				for {
					now = now.Add(time.Second)
					snapshot := gangs(3)
					if tt.change {
						snapshot.Jobs["1"].PodGroup.Spec = scheduling.PodGroupSpec{MinMember: int32(now.Unix())}
					}
					h.leaveOut(snapshot, now)
					if snapshot.Jobs["1"] != nil {
						break
					}
				}
				waits = append(waits, now.Sub(start))
				h.panicked(now, "1", "oh no")
			}
			if diff := cmp.Diff(tt.waits, waits); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if len(h.quarantined) != 1 {
				t.Errorf("%d are quarantined, want 1", len(h.quarantined))
			}
		})
	}
}

// TestAQuarantinedGangThatIsCorrectedIsForgotten checks that a quarantined gang is forgotten after a session with it
// succeeds, or after its deletion.
func TestAQuarantinedGangThatIsCorrectedIsForgotten(t *testing.T) {
	for name, end := range map[string]func(h *bisector, now time.Time){
		"well": func(h *bisector, now time.Time) { h.leaveOut(gangs(3), now.Add(time.Minute)); h.succeeded() },
		"gone": func(h *bisector, now time.Time) { h.leaveOut(gangs(1), now) },
	} {
		t.Run(name, func(t *testing.T) {
			h, now := newBisector(), time.Unix(0, 0)
			h.leaveOut(gangs(3), now)
			h.panicked(now, "1", "oh no")
			h.leaveOut(gangs(3), now)
			if found, _ := h.succeeded(); !cmp.Equal(found, []object{{PodGroup, "1"}}, cmp.AllowUnexported(object{})) {
				t.Fatalf("found guilty: %v", found)
			}
			end(h, now)
			if len(h.quarantined) > 0 {
				t.Errorf("quarantined: %v", h.quarantined)
			}
		})
	}
}

// tenants returns a snapshot with this number of gangs in namespace culprits, and this number of innocent gangs in
// namespace innocents.
func tenants(culprits, innocents int) *api.ClusterInfo {
	snapshot := gangs(0)
	for namespace, n := range map[string]int{"culprits": culprits, "innocents": innocents} {
		for i := range n {
			job := api.NewJobInfo(api.JobID(fmt.Sprintf("%s/%d", namespace, i)))
			job.PodGroup = &api.PodGroup{}
			snapshot.Jobs[job.UID] = job
		}
	}
	return snapshot
}

func of(namespace string, jobs map[api.JobID]*api.JobInfo) (some []api.JobID) {
	for id := range jobs {
		if strings.HasPrefix(string(id), namespace+"/") {
			some = append(some, id)
		}
	}
	slices.Sort(some)
	return some
}

// poisoned runs a cycle with the snapshot. All gangs of the first tenant are culprits, except corrected ones. With
// turns, a panic is attributed to a culprit. poisoned returns the culprits and the innocent gangs in the session, and
// whether the session panicked.
func poisoned(h *bisector, snapshot *api.ClusterInfo, now time.Time, turns bool, corrected ...api.JobID) (culprits, innocents []api.JobID, panics bool) {
	culprits, innocents, _, panics = poisonedAnd(h, snapshot, now, turns, corrected...)
	return culprits, innocents, panics
}

// poisonedAnd also returns the objects that the bisector identified as culprits.
func poisonedAnd(h *bisector, snapshot *api.ClusterInfo, now time.Time, turns bool, corrected ...api.JobID) (culprits, innocents []api.JobID, found []object, panics bool) {
	h.leaveOut(snapshot, now)
	culprits, innocents = of("culprits", snapshot.Jobs), of("innocents", snapshot.Jobs)
	for _, id := range culprits {
		if !slices.Contains(corrected, id) {
			turn := api.JobID("")
			if turns {
				turn = id
			}
			found, _ = h.panicked(now, turn, "oh no")
			return culprits, innocents, found, true
		}
	}
	found, _ = h.succeeded()
	return culprits, innocents, found, false
}

// TestAThousandCulpritsOfANamespaceAreQuarantinedTogether checks that a thousand culprits of one namespace are
// quarantined together, and that no gang of another namespace is quarantined with them.
func TestAThousandCulpritsOfANamespaceAreQuarantinedTogether(t *testing.T) {
	for name, tt := range map[string]struct {
		turns   bool
		arrives bool
	}{
		"during their turns":   {turns: true},
		"during no job's turn": {},
		"during their turns, with more that come all the time":   {turns: true, arrives: true},
		"during no job's turn, with more that come all the time": {arrives: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, now, reported := newBisector(), time.Unix(0, 0), map[object]bool{}
			for cycle := range 30 {
				n := 1000
				if tt.arrives {
					n += cycle
				}
				_, innocents, found, panics := poisonedAnd(h, tenants(n, 10), now, tt.turns)
				now = now.Add(10 * time.Millisecond)
				for _, it := range found {
					reported[it] = true
				}
				if slices.ContainsFunc(h.groups, func(group []object) bool { return len(group) == 0 }) {
					t.Fatal("a group without objects is scheduled for a try")
				}
				if !panics && len(innocents) == 10 {
					together := 0
					for it, held := range h.quarantined {
						if it.retryGroup() != "PodGroup/culprits" {
							t.Errorf("%s is quarantined", it.name)
						}
						if strings.Contains(held.message, fmt.Sprintf("%d PodGroups of this namespace made the scheduler panic", maxCulprits)) {
							together++
						}
					}
					if diff := cmp.Diff(names(h.quarantined), names(reported)); diff != "" {
						t.Errorf("gangs that are quarantined (-) and reported (+):\n%s", diff)
					}
					if together == 0 {
						t.Errorf("no gang is quarantined because of %d others of its namespace", maxCulprits)
					}
					return
				}
			}
			t.Errorf("after 30 cycles no session with all innocent gangs succeeded; %d are quarantined", len(h.quarantined))
		})
	}
}

// TestCulpritsThatComeBackLeaveRoomForOthers checks that culprits that return leave room for others: most sessions
// run without them, however many there are.
func TestCulpritsThatComeBackLeaveRoomForOthers(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	for range 40 {
		poisoned(h, tenants(1000, 10), now, true)
	}
	panicked := 0
	for range 600 {
		now = now.Add(time.Second)
		if _, _, panics := poisoned(h, tenants(1000, 10), now, true); panics {
			panicked++
		}
	}
	if panicked < 5 || panicked > 20 {
		t.Errorf("%d of 600 sessions panicked, want 5 to 20", panicked)
	}
	if len(h.quarantined) != 1000 {
		t.Errorf("%d are quarantined, want 1000", len(h.quarantined))
	}
}

// TestCorrectedCulpritsReturn checks that corrected culprits return. A changed culprit returns before all unchanged
// ones, and when all succeed, more return at a time.
func TestCorrectedCulpritsReturn(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	for range 40 {
		poisoned(h, tenants(1000, 10), now, true)
	}
	for range 300 { // They have failed many times.
		now = now.Add(time.Second)
		poisoned(h, tenants(1000, 10), now, true)
	}
	mend := func(snapshot *api.ClusterInfo, ids ...api.JobID) *api.ClusterInfo {
		for _, id := range ids {
			snapshot.Jobs[id].PodGroup.Spec.MinMember = 7
		}
		return snapshot
	}
	start := now
	for {
		now = now.Add(time.Second)
		if culprits, _, panics := poisoned(h, mend(tenants(1000, 10), "culprits/777"), now, true, "culprits/777"); !panics && slices.Contains(culprits, "culprits/777") {
			break
		}
		if now.Sub(start) > lastRest+5*time.Second {
			t.Fatalf("a corrected gang is not in a session after %s", now.Sub(start))
		}
	}
	all := of("culprits", tenants(1000, 0).Jobs)
	start = now
	for len(h.quarantined) > 0 {
		now = now.Add(time.Second)
		poisoned(h, mend(tenants(1000, 10), all...), now, true, all...)
		if now.Sub(start) > lastRest+20*time.Second {
			t.Fatalf("%d corrected gangs are quarantined after %s", len(h.quarantined), now.Sub(start))
		}
	}
}

// TestSeveralThatComeBackTogetherAreTriedAloneWhenThatPanics checks that objects that return together are tried alone
// if a session with them panics, and that none is quarantined for longer because of another one.
func TestSeveralThatComeBackTogetherAreTriedAloneWhenThatPanics(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	for range 40 {
		poisoned(h, tenants(8, 1), now, false)
	}
	now = now.Add(firstHold)
	var corrected []api.JobID
	for _, id := range of("culprits", tenants(8, 0).Jobs) {
		if id != "culprits/3" {
			corrected = append(corrected, id)
		}
	}
	for range 60 {
		poisoned(h, tenants(8, 1), now, false, corrected...)
		now = now.Add(time.Second)
	}
	if len(h.quarantined) != 1 || h.quarantined[object{PodGroup, "culprits/3"}] == nil {
		t.Errorf("quarantined: %v, want the one that was not corrected", h.quarantined)
	}
}

// evilGangs returns a snapshot of these gangs.
func evilGangs(ids ...api.JobID) *api.ClusterInfo {
	snapshot := gangs(0)
	for _, id := range ids {
		job := api.NewJobInfo(id)
		job.PodGroup = &api.PodGroup{}
		snapshot.Jobs[id] = job
	}
	return snapshot
}

// holding returns a bisector that quarantined the gangs at the time now. For each gang, a cycle panicked while the gang
// was being scheduled.
func holding(now time.Time, ids ...api.JobID) *bisector {
	h := newBisector()
	for _, id := range ids {
		h.leaveOut(evilGangs(ids...), now)
		h.panicked(now, id, "oh no")
		h.leaveOut(evilGangs(ids...), now)
		h.succeeded()
	}
	return h
}

// TestFewCulpritsKeepNoOtherObjectQuarantined checks that a few culprits keep no other object quarantined, however
// often new culprits appear.
func TestFewCulpritsKeepNoOtherObjectQuarantined(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	culprits := []object{{PodGroup, "culprits/1"}, {PodGroup, "culprits/50"}}
	for _, next := range []string{"culprits/77", "culprits/99"} {
		for range 60 {
			snapshot := tenants(100, 0)
			h.leaveOut(snapshot, now)
			if slices.ContainsFunc(culprits, func(it object) bool { return snapshot.Jobs[api.JobID(it.name)] != nil }) {
				h.panicked(now, "", "oh no")
			} else {
				h.succeeded()
			}
		}
		for it := range h.quarantined {
			if !slices.Contains(culprits, it) {
				t.Errorf("%s is quarantined, which is no culprit", it.name)
			}
		}
		if len(h.quarantined) != len(culprits) {
			t.Fatalf("%d are quarantined, want %d", len(h.quarantined), len(culprits))
		}
		culprits = append(culprits, object{PodGroup, next})
	}
}

// TestQuarantinedGangsAreCheckedOnceASecond checks that quarantined gangs are checked once a second, because the
// check for changes is expensive.
func TestQuarantinedGangsAreCheckedOnceASecond(t *testing.T) {
	now := time.Unix(0, 0)
	h := holding(now, "a/0", "a/1", "a/2", "a/3")
	now = now.Add(firstHold)
	var came []int
	for range 21 {
		snapshot := evilGangs("a/0", "a/1", "a/2", "a/3")
		h.leaveOut(snapshot, now)
		came = append(came, len(snapshot.Jobs))
		h.succeeded()
		now = now.Add(lookPeriod / 10)
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4}, came); diff != "" {
		t.Errorf("gangs in sessions (-want +got):\n%s", diff)
	}
}

// TestGangsRetriedTogetherAreOfOneNamespace checks that gangs that are retried together belong to one namespace, so
// the faulty gangs of one tenant delay no other tenant.
func TestGangsRetriedTogetherAreOfOneNamespace(t *testing.T) {
	all := []api.JobID{"a/0", "a/1", "a/2", "a/3", "b/0", "b/1"}
	now := time.Unix(0, 0)
	h := holding(now, all...)
	now = now.Add(firstHold)
	var came [][]api.JobID
	for range 6 {
		snapshot := evilGangs(all...)
		h.leaveOut(snapshot, now)
		var back []api.JobID
		for it := range h.back {
			back = append(back, api.JobID(it.name))
		}
		slices.Sort(back)
		came = append(came, back)
		if len(of("b", snapshot.Jobs)) > 0 {
			h.panicked(now, "", "oh no")
		} else {
			h.succeeded()
		}
		now = now.Add(lookPeriod)
	}
	want := [][]api.JobID{{"a/0"}, {"a/1", "a/2"}, {"a/3"}, {"b/0"}, {"b/1"}, nil}
	if diff := cmp.Diff(want, came); diff != "" {
		t.Errorf("returned (-want +got):\n%s", diff)
	}
}

// TestStateOfANamespaceEndsWithItsGangs checks that the state of a namespace ends with its gangs. A new namespace
// with the same name starts without history, and no state is kept for thousands of deleted namespaces.
func TestStateOfANamespaceEndsWithItsGangs(t *testing.T) {
	now := time.Unix(0, 0)
	h := holding(now, "a/0", "b/0")
	now = now.Add(firstHold)
	for range 2 {
		h.leaveOut(evilGangs("a/0", "b/0"), now)
		h.panicked(now, "", "oh no")
		now = now.Add(lookPeriod)
	}
	h.leaveOut(evilGangs("b/0"), now)
	if len(h.retryGroups) != 1 || h.retryGroups["PodGroup/b"] == nil {
		t.Errorf("the bisector has %d namespaces, want only that of the remaining gang", len(h.retryGroups))
	}
}
