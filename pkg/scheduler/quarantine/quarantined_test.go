// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAQuarantinedGangDoesNotPauseItsQueue checks that a quarantined gang does not pause its queue. The other gangs
// of its queue are paused only during a search.
func TestAQuarantinedGangDoesNotPauseItsQueue(t *testing.T) {
	queue := func() *api.ClusterInfo {
		snapshot := evilGangs("a/0", "b/0")
		snapshot.Queues["q"] = &api.QueueInfo{UID: "q", Name: "q", Queue: &scheduling.Queue{}}
		for _, job := range snapshot.Jobs {
			job.Queue = "q"
			job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("p").Node("n").Phase(v1.PodRunning).Obj()))
		}
		return snapshot
	}
	now := time.Unix(0, 0)
	h := holding(now, "a/0")
	snapshot := queue()
	if paused := h.leaveOut(snapshot, now); len(paused) > 0 || len(snapshot.Jobs) != 1 {
		t.Errorf("beside a quarantined gang that uses resources %v are paused, and the session has %d gangs, want none and 1", paused, len(snapshot.Jobs))
	}
}

// TestSuspectsWithoutWhichCyclesPanicAreReleased checks that suspects are released if cycles panic without them. Here
// the turns of gangs a/0 and b/0 panic because of gang d/0.
func TestSuspectsWithoutWhichCyclesPanicAreReleased(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	all := []api.JobID{"a/0", "b/0", "c/0", "d/0"}
	turns := []api.JobID{"a/0", "b/0"}
	tried := false
	for range 30 {
		snapshot := evilGangs(all...)
		h.leaveOut(snapshot, now)
		tried = tried || len(turns) == 0 && h.searching() && snapshot.Jobs["a/0"] != nil
		if snapshot.Jobs["d/0"] == nil {
			h.succeeded()
			continue
		}
		turn := api.JobID("")
		if len(turns) > 0 {
			turn, turns = turns[0], turns[1:]
		}
		h.panicked(now, turn, "oh no")
	}
	if len(h.quarantined) != 1 || h.quarantined[object{PodGroup, "d/0"}] == nil || h.searching() {
		t.Errorf("%d are quarantined, and the search goes on: %t, want only the culprit, and an end", len(h.quarantined), h.searching())
	}
	if !tried {
		t.Error("a suspect that was released is in no session of the search")
	}
	h.leaveOut(evilGangs(all...), now)
	if h.panicked(now, "a/0", "oh no"); h.quarantined[object{PodGroup, "a/0"}] == nil || h.searching() {
		t.Error("when the search is over turns do not count again")
	}
}

// TestFewTurnsInARowAreSuspected checks that at most maxSuspects turns that panic in a row make their gangs suspects.
// If the next cycle panics, too, a search starts, because the cause is another object.
func TestFewTurnsInARowAreSuspected(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	all := []api.JobID{"a/0", "b/0", "c/0", "d/0", "e/0"}
	for i, turn := range all[:maxSuspects+1] {
		h.leaveOut(evilGangs(all...), now)
		h.panicked(now, turn, "oh no")
		if want := i == maxSuspects; h.searching() != want {
			t.Errorf("after %d panics a search is on: %t, want %t", i+1, h.searching(), want)
		}
	}
}

// TestASuspectIsInNoGroupOfTheSearch checks that a suspect is in no group of the search. It is quarantined, so trying
// it again proves nothing.
func TestASuspectIsInNoGroupOfTheSearch(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	all := []api.JobID{"a/0", "b/0", "c/0", "d/0"}
	for range 2 { // with all gangs, and without any
		snapshot := evilGangs(all...)
		if h.leaveOut(snapshot, now); len(snapshot.Jobs) > 0 {
			h.panicked(now, "", "oh no")
		} else {
			h.succeeded()
		}
	}
	h.leaveOut(evilGangs(all...), now)
	h.panicked(now, "a/0", "oh no")
	if suspect := (object{PodGroup, "a/0"}); !h.searching() || h.quarantined[suspect] == nil || slices.Contains(slices.Concat(h.groups...), suspect) {
		t.Errorf("the suspect is quarantined: %t; groups of the search: %v, want it in none of them", h.quarantined[suspect] != nil, h.groups)
	}
}

// TestOnlyGangsAreListedAsGangs checks that only gangs are listed as gangs, since queues and nodes may be quarantined
// too.
func TestOnlyGangsAreListedAsGangs(t *testing.T) {
	a := New()
	for _, it := range []object{{PodGroup, "ns/g"}, {queueObject, "q"}, {nodeObject, "n"}} {
		a.bisector.quarantine(it, time.Unix(0, 0), 0)
	}
	gangs := a.Gangs()
	if why, is := gangs["ns/g"]; len(gangs) != 1 || !is || why.Reason != SchedulerPanic {
		t.Errorf("the gangs that are quarantined are %v, want ns/g", gangs)
	}
}

// TestAQuarantinedNodeIsInNoListOfNodes checks that a quarantined node is in no list of nodes, and that the root
// queue is never left out. Without the root queue, or with the node in any list, cycles panic.
func TestAQuarantinedNodeIsInNoListOfNodes(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	var last *api.ClusterInfo
	for range 30 {
		last = evilGangs("a/0")
		for _, name := range []string{rootQueue, "q"} {
			last.Queues[api.QueueID(name)] = api.NewQueueInfo(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		last.RevocableNodes = map[string]*api.NodeInfo{}
		for _, name := range []string{"evil", "good"} {
			last.Nodes[name] = api.NewNodeInfo(schedtest.MakeNode().Name(name).Obj())
			last.RevocableNodes[name] = last.Nodes[name]
		}
		if h.leaveOut(last, now); last.Queues[rootQueue] == nil || last.Nodes["evil"] != nil || last.RevocableNodes["evil"] != nil {
			h.panicked(now, "", "oh no")
		} else {
			h.succeeded()
		}
	}
	if h.searching() || len(h.quarantined) != 1 || len(last.Nodes) != 1 || len(last.RevocableNodes) != 1 || len(last.Queues) != 2 {
		t.Errorf("searching: %t; quarantined: %v; the session has %d nodes, %d revocable ones and %d queues, want one node, one such and two queues",
			h.searching(), h.quarantined, len(last.Nodes), len(last.RevocableNodes), len(last.Queues))
	}
}

// TestAGangThatChangedOnceWaitsLikeOthersThen checks that a change of a quarantined gang shortens only the next wait.
// The gang's new fingerprint is recorded when the gang is quarantined again.
func TestAGangThatChangedOnceWaitsLikeOthersThen(t *testing.T) {
	now := time.Unix(0, 0)
	h := holding(now, "a/0")
	h.leaveOut(evilGangs("a/0"), now)
	for i, want := range []time.Duration{firstChangedHold, 2 * firstHold} {
		start := now
		for h.back = nil; len(h.back) == 0; {
			now = now.Add(time.Second)
			snapshot := evilGangs("a/0")
			snapshot.Jobs["a/0"].PodGroup.Spec.MinMember = 7
			h.leaveOut(snapshot, now)
		}
		if got := now.Sub(start); got != want {
			t.Errorf("return %d is after %s, want %s", i+1, got, want)
		}
		h.panicked(now, "", "oh no")
	}
}

// TestPanicsInOtherGangsTurnsCountAfterAFew checks that panics in another gang's turns count as a failure of a retried
// gang only after maxSuspects of them. Until then, the other gang may be the cause.
func TestPanicsInOtherGangsTurnsCountAfterAFew(t *testing.T) {
	now := time.Unix(0, 0)
	h := holding(now, "a/0")
	now = now.Add(firstHold)
	var found [][]object
	for range maxSuspects + 1 {
		for h.back = nil; len(h.back) == 0; now = now.Add(time.Second) {
			h.leaveOut(evilGangs("a/0", "b/0"), now)
		}
		objects, progress := h.panicked(now, "b/0", "oh no")
		if !progress || h.quarantined[object{PodGroup, "b/0"}] != nil {
			t.Errorf("progress: %t, quarantined: %v; want the next cycle to leave out only the gang that was tried again", progress, h.quarantined)
		}
		found = append(found, objects)
	}
	if diff := cmp.Diff([][]object{nil, nil, nil, {{PodGroup, "a/0"}}}, found, cmp.AllowUnexported(object{})); diff != "" {
		t.Errorf("quarantined for a longer time, by panic (-want +got):\n%s", diff)
	}
}

// TestARetryGroupThatSucceedsRestsBrieflyAgain checks that the pause of a retry group doubles after each retry that
// panics, and starts over after a successful retry.
func TestARetryGroupThatSucceedsRestsBrieflyAgain(t *testing.T) {
	now := time.Unix(0, 0)
	h := holding(now, "a/0", "a/1")
	now = now.Add(firstHold)
	var rests []time.Duration
	for _, panics := range []bool{true, true, false, true} {
		for h.back = nil; len(h.back) == 0; now = now.Add(time.Second) {
			h.leaveOut(evilGangs("a/0", "a/1"), now)
		}
		if panics {
			h.panicked(now, "", "oh no")
			rests = append(rests, h.retryGroups["PodGroup/a"].resumes.Sub(now))
		} else {
			h.succeeded()
		}
	}
	if diff := cmp.Diff([]time.Duration{firstRest, 2 * firstRest, firstRest}, rests); diff != "" {
		t.Errorf("rests after guilty returns (-want +got):\n%s", diff)
	}
}

// TestASearchWithoutACulpritPauses checks that no new search starts for searchPause after a search without a culprit.
// Otherwise panics that no object causes would make extra cycles.
func TestASearchWithoutACulpritPauses(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	world := func() *api.ClusterInfo {
		snapshot := evilGangs("a/0")
		snapshot.Queues["q"] = api.NewQueueInfo(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}})
		snapshot.Nodes["n"] = api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj())
		return snapshot
	}
	searches := func() bool {
		h.leaveOut(world(), now)
		_, another := h.panicked(now, "", "oh no")
		return another
	}
	var search []bool
	for range 3 { // with everything, without gangs, and without queues and nodes
		search = append(search, searches())
	}
	if diff := cmp.Diff([]bool{true, true, false}, search); diff != "" {
		t.Errorf("the search goes on (-want +got):\n%s", diff)
	}
	session := world()
	if h.leaveOut(session, now); len(session.Jobs) != 1 || len(session.Queues) != 1 || len(session.Nodes) != 1 {
		t.Errorf("after the search the session has %d gangs, %d queues and %d nodes, want one of each", len(session.Jobs), len(session.Queues), len(session.Nodes))
	}
	h.quarantine(object{PodGroup, "a/0"}, now, 0)
	session = world()
	if h.leaveOut(session, now); len(session.Jobs) != 0 || len(session.Queues) != 1 || len(session.Nodes) != 1 {
		t.Errorf("with a quarantined gang the session has %d gangs, %d queues and %d nodes, want only the gang left out", len(session.Jobs), len(session.Queues), len(session.Nodes))
	}
	delete(h.quarantined, object{PodGroup, "a/0"})
	for after, want := range map[time.Duration]bool{time.Second: false, searchPause: true} {
		now = time.Unix(0, 0).Add(after)
		if got := searches(); got != want {
			t.Errorf("%s after the search it goes on: %t, want %t", after, got, want)
		}
		h.groups, h.control, h.others = nil, false, false
	}
}

// TestASearchInAnEmptyCluster checks that a search in an empty cluster has nothing to try, so it ends with the first
// cycle that succeeds.
func TestASearchInAnEmptyCluster(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	for _, panics := range []bool{true, false, true, true, true} {
		h.leaveOut(gangs(0), now)
		if panics {
			h.panicked(now, "", "oh no")
		} else {
			h.succeeded()
		}
		if h.searching() || len(h.quarantined) > 0 {
			t.Errorf("searching: %t, quarantined: %v", h.searching(), h.quarantined)
		}
	}
}

func TestTopQueue(t *testing.T) {
	snapshot := gangs(0)
	for name, parent := range map[string]string{"alone": "", "child": "alone", "top": rootQueue} {
		queue := &scheduling.Queue{}
		queue.Spec.Parent = parent
		snapshot.Queues[api.QueueID(name)] = &api.QueueInfo{UID: api.QueueID(name), Name: name, Queue: queue}
	}
	for name, want := range map[api.QueueID]string{"alone": "alone", "child": "alone", "top": "top"} {
		if got := topQueue(snapshot, name); got != want {
			t.Errorf("the top queue of %s is %q, want %q", name, got, want)
		}
	}
}

// TestAnErrorIsReportedOnce checks that a gang's error is reported in one session only, and again when the error
// changes.
func TestAnErrorIsReportedOnce(t *testing.T) {
	a := New()
	for i, cpu := range []string{"-5", "-5", "-6"} {
		want := []int{1, 0, 1}[i]
		snapshot := kindsSnapshot(1)
		(*snapshot.Jobs["old"].PodGroup.Spec.MinResources)[v1.ResourceCPU] = resource.MustParse(cpu)
		if news := a.RemoveFrom(snapshot, nil, time.Unix(0, 0)); len(news) != want {
			t.Errorf("in session %d there are %d news, want %d", i, len(news), want)
		}
	}
}

// TestQuarantinedObjectsReturn checks that quarantined objects of each kind return, sooner if they have changed, and
// that no deleted object is remembered.
func TestQuarantinedObjectsReturn(t *testing.T) {
	items := []object{{PodGroup, "ns/g"}, {queueObject, "q"}, {nodeObject, "n"}}
	snapshot := func(without object, changed bool) *api.ClusterInfo {
		snapshot := evilGangs("ns/g")
		snapshot.Queues["q"] = api.NewQueueInfo(&scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: "q"}})
		node := schedtest.MakeNode().Name("n").Obj()
		if changed {
			snapshot.Jobs["ns/g"].PodGroup.Spec.MinMember, snapshot.Queues["q"].Queue.Spec.Weight, node.Spec.Unschedulable = 7, 7, true
		}
		snapshot.Nodes["n"] = api.NewNodeInfo(node)
		delete(snapshot.Jobs, api.JobID(without.name))
		delete(snapshot.Queues, api.QueueID(without.name))
		delete(snapshot.Nodes, without.name)
		return snapshot
	}
	for _, it := range items {
		for changed, want := range map[bool]time.Duration{true: firstChangedHold, false: firstHold} {
			h, now := newBisector(), time.Unix(0, 0)
			h.quarantine(it, now, 0)
			h.leaveOut(snapshot(object{}, false), now)
			for h.back == nil {
				now = now.Add(time.Second)
				h.leaveOut(snapshot(object{}, changed), now)
			}
			if got := now.Sub(time.Unix(0, 0)); got != want || !h.back[it] {
				t.Errorf("%v, changed: %t: after %s %v return, want it after %s", it, changed, got, h.back, want)
			}
		}
		h, now := newBisector(), time.Unix(0, 0)
		h.quarantine(it, now, 0)
		h.retryGroup(it.retryGroup())
		if h.leaveOut(snapshot(it, false), now); len(h.quarantined) > 0 || len(h.retryGroups) > 0 {
			t.Errorf("%v was deleted, and is quarantined: %v", it, h.quarantined)
		}
	}
}

// TestOrderOfRetries: Among the objects of a namespace, or all queues, or all nodes, changed objects are retried
// first, then the objects with the longest wait. None is retried during a search.
func TestOrderOfRetries(t *testing.T) {
	for range 10 { // The order of quarantined objects is random.
		comesBackFirst(t)
	}
	families := map[object]string{{PodGroup, "a/z"}: "PodGroup/a", {queueObject, "q"}: "Queue/", {nodeObject, "n"}: "Node/"}
	for it, want := range families {
		if got := it.retryGroup(); got != want {
			t.Errorf("%v is of family %q, want %q", it, got, want)
		}
	}
	if got := doubled(time.Minute, time.Hour, 1000); got != time.Hour {
		t.Errorf("after 1000 times it is %s, want an hour", got)
	}
}

// TestManyCulpritNodesQuarantineNoOther checks that many culprit nodes quarantine no other node, although nodes
// belong to no tenant.
func TestManyCulpritNodesQuarantineNoOther(t *testing.T) {
	h, now := newBisector(), time.Unix(0, 0)
	for range 60 {
		snapshot := evilGangs("a/0")
		for _, name := range []string{"evil-0", "evil-1", "evil-2", "evil-3", "good-0", "good-1", "good-2", "good-3"} {
			snapshot.Nodes[name] = api.NewNodeInfo(schedtest.MakeNode().Name(name).Obj())
		}
		h.leaveOut(snapshot, now)
		if slices.ContainsFunc([]string{"evil-0", "evil-1", "evil-2", "evil-3"}, func(name string) bool { return snapshot.Nodes[name] != nil }) {
			h.panicked(now, "", "oh no")
		} else {
			h.succeeded()
		}
	}
	if diff := cmp.Diff([]string{"Node evil-0", "Node evil-1", "Node evil-2", "Node evil-3"}, names(h.quarantined)); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
}

// TestPanicBeforeASessionIsNotCountedForRetriedGangs checks that a panic before the next session opens does not count
// as a failure of the gangs that the last session retried.
func TestPanicBeforeASessionIsNotCountedForRetriedGangs(t *testing.T) {
	for name, panics := range map[string]bool{"after a panic": true, "after a success": false} {
		now := time.Unix(0, 0)
		h := holding(now, "a/0", "a/1")
		now = now.Add(firstHold)
		for range 3 { // one of them, then both
			h.leaveOut(evilGangs("a/0", "a/1"), now)
			if now = now.Add(lookPeriod); len(h.back) > 0 {
				break
			}
		}
		if panics {
			h.panicked(now, "", "oh no")
		} else {
			h.succeeded()
		}
		failures := 0
		for _, held := range h.quarantined {
			failures += held.failures
		}
		h.panicked(now, "", "oh no")
		after := 0
		for _, held := range h.quarantined {
			after += held.failures
		}
		if after != failures || !h.searching() {
			t.Errorf("%s, a panic is counted %d times for quarantined gangs, and a search runs: %t; want none, and that it is", name, after-failures, h.searching())
		}
	}
}

func comesBackFirst(t *testing.T) {
	t.Helper()
	now := time.Unix(0, 0)
	h := holding(now, "a/z")
	for i, id := range []api.JobID{"a/y", "a/x", "a/w"} {
		h.quarantine(object{PodGroup, string(id)}, now.Add(time.Duration(1+i)*time.Second), 0)
	}
	all := func() *api.ClusterInfo { return evilGangs("a/z", "a/y", "a/x", "a/w", "b/0", "b/1") }
	h.leaveOut(all(), now)
	now = now.Add(2 * firstHold)
	var came []string
	for range 4 {
		snapshot := all()
		if snapshot.Jobs["a/x"].PodGroup.Spec.MinMember = 7; len(came) == 3 {
			h.searchGangs(nil)
			if h.leaveOut(all(), now); len(h.back) > 0 {
				t.Errorf("%v return during a search", h.back)
			}
			h.groups, h.control = nil, false
		}
		h.leaveOut(snapshot, now)
		for it := range h.back {
			came = append(came, it.name)
		}
		h.backSucceeded()
		h.retryGroup("PodGroup/a").size = 1 // one at a time again
		now = now.Add(lookPeriod)
	}
	if diff := cmp.Diff([]string{"a/x", "a/z", "a/y", "a/w"}, came); diff != "" {
		t.Errorf("returned (-want +got):\n%s", diff)
	}
}
