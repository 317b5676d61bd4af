// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// bisectorCluster is a cluster in which a cycle panics if one of the culprits is in the session.
type bisectorCluster struct {
	rnd      *rand.Rand
	gangs    map[api.JobID]api.QueueID
	holds    map[api.JobID]bool
	queues   map[string]string // the parent of each queue
	nodes    []string
	culprits map[object]bool
	misleads bool
}

func newBisectorCluster(seed int64) *bisectorCluster {
	w := &bisectorCluster{rnd: rand.New(rand.NewSource(seed)), gangs: map[api.JobID]api.QueueID{}, holds: map[api.JobID]bool{},
		queues: map[string]string{rootQueue: "", "a": rootQueue, "a-1": "a", "a-2": "a", "b": ""}, nodes: []string{"n-0", "n-1", "n-2"}, culprits: map[object]bool{}}
	w.misleads = w.rnd.Intn(2) == 0
	var gangs []object
	for i := range 1 + w.rnd.Intn(20) {
		id := api.JobID(fmt.Sprintf("ns-%d/g-%d", w.rnd.Intn(4), i))
		w.gangs[id] = []api.QueueID{"a-1", "a-2", "b"}[w.rnd.Intn(3)]
		w.holds[id] = w.rnd.Intn(3) == 0
		gangs = append(gangs, object{PodGroup, string(id)})
	}
	others := []object{{queueObject, "a-1"}, {queueObject, "b"}, {nodeObject, "n-0"}, {nodeObject, "n-2"}}
	for range 1 + w.rnd.Intn(maxCulprits-1) {
		of := gangs
		if w.rnd.Intn(4) == 0 {
			of = others
		}
		w.culprits[of[w.rnd.Intn(len(of))]] = true
	}
	maps.DeleteFunc(w.culprits, func(it object, _ bool) bool { // A gang is left out of sessions with its queue.
		return it.kind == PodGroup && w.culprits[object{queueObject, string(w.gangs[api.JobID(it.name)])}]
	})
	return w
}

func (w *bisectorCluster) snapshot() *api.ClusterInfo {
	snapshot := gangs(0)
	for id, queue := range w.gangs {
		job := api.NewJobInfo(id)
		job.PodGroup, job.Queue = &api.PodGroup{}, queue
		if w.holds[id] {
			job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("runs").Node("n-0").Phase(v1.PodRunning).Obj()))
		}
		job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("waits").Obj()))
		snapshot.Jobs[id] = job
	}
	for name, parent := range w.queues {
		queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		queue.Spec.Parent = parent
		snapshot.Queues[api.QueueID(name)] = api.NewQueueInfo(queue)
	}
	for _, name := range w.nodes {
		snapshot.Nodes[name] = api.NewNodeInfo(schedtest.MakeNode().Name(name).Obj())
	}
	return snapshot
}

// panics reports whether a culprit is in the session, and returns the gang to which the panic is attributed. This may
// be no gang, or a gang that is not in the session. Without misleads it may be the culprit, and with misleads an
// innocent gang.
func (w *bisectorCluster) panics(session *api.ClusterInfo) (turn api.JobID, panics bool) {
	turns := []api.JobID{"", "ns-0/unknown"}
	for it := range w.culprits {
		if w.has(session, it) {
			panics = true
			if it.kind == PodGroup && !w.misleads {
				return []api.JobID{"", api.JobID(it.name)}[w.rnd.Intn(2)], true
			}
		}
	}
	for id := range session.Jobs {
		if w.misleads && !w.culprits[object{PodGroup, string(id)}] {
			turns = append(turns, id)
		}
	}
	return turns[w.rnd.Intn(len(turns))], panics
}

func (w *bisectorCluster) has(session *api.ClusterInfo, it object) bool {
	switch it.kind {
	case PodGroup:
		return session.Jobs[api.JobID(it.name)] != nil
	case queueObject:
		return session.Queues[api.QueueID(it.name)] != nil
	}
	return session.Nodes[it.name] != nil
}

// partiallyVisible returns the gangs of the session whose top queue, during a search, lacks a gang that holds
// resources.
func (w *bisectorCluster) partiallyVisible(h *bisector, session *api.ClusterInfo) map[api.JobID]bool {
	top := map[api.QueueID]string{"a-1": "a", "a-2": "a", "b": "b"}
	partiallyVisible := map[api.JobID]bool{}
	for out := range w.gangs {
		if h.searching() && session.Jobs[out] == nil && w.holds[out] {
			for id := range session.Jobs {
				if top[w.gangs[id]] == top[w.gangs[out]] {
					partiallyVisible[id] = true
				}
			}
		}
	}
	return partiallyVisible
}

func (w *bisectorCluster) cycle(t *testing.T, h *bisector, now time.Time, guilty map[object]bool) (complete bool) {
	session := w.snapshot()
	paused := h.leaveOut(session, now)
	if partiallyVisible := w.partiallyVisible(h, session); len(partiallyVisible)+len(paused) > 0 {
		if diff := cmp.Diff(partiallyVisible, paused); diff != "" {
			t.Fatalf("gangs that are paused (-want +got):\n%s", diff)
		}
	}
	if session.Queues[rootQueue] == nil {
		t.Fatal("the session has no root queue")
	}
	if turn, panics := w.panics(session); panics {
		found, _ := h.panicked(now, turn, "oh no")
		for _, it := range found {
			guilty[it] = true
		}
		if h.quarantined[object{PodGroup, "ns-0/unknown"}] != nil {
			t.Fatal("a gang is quarantined that was not in the session")
		}
		return false
	}
	found, busy := h.succeeded()
	for _, it := range found {
		guilty[it] = true
	}
	if busy != (h.searching() || len(h.quarantined) > 0) {
		t.Fatalf("busy: %t, while %d are quarantined, and a search runs: %t", busy, len(h.quarantined), h.searching())
	}
	return !h.searching()
}

// TestASearchFindsOnlyTheCulprits checks that a search finds only the culprits, whichever gangs, queues or nodes they
// are, and whichever gang is reported as the current one. The culprits leave the quarantine when they are corrected.
// During the search no gang is placed while a part of its queue's use is not visible.
func TestASearchFindsOnlyTheCulprits(t *testing.T) {
	for seed := range int64(300) {
		w, h, now := newBisectorCluster(seed), newBisector(), time.Unix(0, 0)
		cycles, guilty := 0, map[object]bool{}
		for over := 0; over < 2; now = now.Add(10 * time.Millisecond) { // After a search of nodes, gangs return in the second session.
			if over++; !w.cycle(t, h, now, guilty) {
				over = 0
			}
			if cycles++; cycles > 60 {
				t.Fatalf("seed %d: after %d cycles the search goes on; quarantined: %v", seed, cycles, h.quarantined)
			}
		}
		if diff := cmp.Diff(names(w.culprits), names(h.quarantined)); diff != "" {
			t.Fatalf("seed %d: quarantined (-want +got):\n%s", seed, diff)
		}
		if diff := cmp.Diff(names(w.culprits), names(guilty)); diff != "" {
			t.Fatalf("seed %d: reported (-want +got):\n%s", seed, diff)
		}
		w.culprits = nil
		now = now.Add(firstHold)
		for range 2 * maxCulprits {
			if !w.cycle(t, h, now, guilty) {
				t.Fatalf("seed %d: a cycle of corrected objects panicked, or begins a search", seed)
			}
			now = now.Add(lookPeriod)
		}
		session := w.snapshot()
		if h.leaveOut(session, now); len(h.quarantined) > 0 || len(session.Jobs) != len(w.gangs) || len(session.Queues) != len(w.queues) || len(session.Nodes) != len(w.nodes) {
			t.Fatalf("seed %d: corrected objects are quarantined: %v", seed, h.quarantined)
		}
	}
}

func names[V any](items map[object]V) (names []string) {
	for it := range maps.Keys(items) {
		names = append(names, it.kind+" "+it.name)
	}
	slices.Sort(names)
	return names
}
