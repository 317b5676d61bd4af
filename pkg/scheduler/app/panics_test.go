// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/util/assert"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMain makes the watch channels of clusters in memory large enough for a thousand changes at once. A full channel
// panics.
func TestMain(m *testing.M) {
	watch.DefaultChanSize = 2500
	os.Exit(m.Run())
}

// clusterBeside returns a cluster with an innocent gang of two pods and the given number of other PodGroups, named
// evil-0, evil-1 and so on.
func clusterBeside(others int) *schedtest.Cluster {
	objects := []runtime.Object{schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(), schedtest.MakeNode().Name("n").Obj()}
	for i := range others {
		objects = append(objects, schedtest.MakePodGroup().Name(fmt.Sprintf("evil-%d", i)).Phase(v1beta1.PodGroupPending).Obj())
	}
	cluster := schedtest.NewCluster(objects...)
	innocents(cluster)
	return cluster
}

// cyclesUntilOK runs cycles until one of them does not panic and the innocent gang has its nodes. It returns the
// number of cycles.
func cyclesUntilOK(t *testing.T, s *scheduler, most int) int {
	t.Helper()
	for n := range most {
		s.cycle()
		if s.watchdog.panics == 0 && cmp.Equal([]string{"n", "n"}, nodesOfInnocents(s)) {
			return n + 1
		}
	}
	t.Fatalf("the innocent gang is not placed after %d cycles", most)
	return 0
}

// nodesOfInnocents returns the nodes of the innocent gang's tasks in the cache.
func nodesOfInnocents(s *scheduler) []string {
	s.cache.Books().Lock()
	defer s.cache.Books().Unlock()
	var nodes []string
	for _, task := range s.cache.Books().Jobs.Get("ns/g").Tasks {
		nodes = append(nodes, task.NodeName)
	}
	return nodes
}

func TestAGangWithWhichCyclesPanicIsQuarantined(t *testing.T) {
	tests := map[string]struct {
		// evil reports whether a session with these jobs panics, and which job's turn the session records at that
		// time.
		evil func(jobs map[api.JobID]*api.JobInfo) (bool, api.JobID)
		// quarantined are the PodGroups that are quarantined in the end.
		quarantined []string
		most        int
	}{
		"during its turn": {
			evil: func(jobs map[api.JobID]*api.JobInfo) (bool, api.JobID) {
				return jobs["ns/evil-77"] != nil, "ns/evil-77"
			},
			quarantined: []string{"evil-77"}, most: 2,
		},
		"each of several during its turn": {
			evil: func(jobs map[api.JobID]*api.JobInfo) (bool, api.JobID) {
				for _, id := range []api.JobID{"ns/evil-1", "ns/evil-2"} {
					if jobs[id] != nil {
						return true, id
					}
				}
				return false, ""
			},
			quarantined: []string{"evil-1", "evil-2"}, most: 3,
		},
		"during no job's turn": {
			evil:        func(jobs map[api.JobID]*api.JobInfo) (bool, api.JobID) { return jobs["ns/evil-42"] != nil, "" },
			quarantined: []string{"evil-42"}, most: 20,
		},
		"during the turn of others": {
			evil: func(jobs map[api.JobID]*api.JobInfo) (bool, api.JobID) {
				for id := range jobs {
					if id != "ns/evil-42" {
						return jobs["ns/evil-42"] != nil, id
					}
				}
				return jobs["ns/evil-42"] != nil, ""
			},
			quarantined: []string{"evil-42"}, most: 60,
		},
		"two together": {
			evil: func(jobs map[api.JobID]*api.JobInfo) (bool, api.JobID) {
				return jobs["ns/evil-3"] != nil && jobs["ns/evil-90"] != nil, ""
			},
			quarantined: []string{"evil-90"}, most: 30, // Quarantining either of them suffices.
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := clusterBeside(100)
			s := newTestScheduler(t, cluster, builtIn(t, "trap enqueue allocate"), action{"trap", func(ssn *framework.Session) {
				if evil, turn := tt.evil(ssn.Jobs); evil {
					ssn.SetCurrentJob(turn)
					panic("runtime error: something is nil")
				}
			}})
			cyclesUntilOK(t, s, tt.most)
			for range 3 { // The bisector may still have cycles to go.
				s.cycle()
			}
			var quarantined []string
			eventually(t, func() bool {
				quarantined = nil
				for i := range 100 {
					pg := cluster.PodGroup(fmt.Sprintf("evil-%d", i))
					if strings.Contains(unschedulableMessage(pg), "scheduling panicked (action trap): runtime error: something is nil") {
						quarantined = append(quarantined, pg.Name)
					}
				}
				return len(quarantined) >= len(tt.quarantined)
			})
			if diff := cmp.Diff(tt.quarantined, quarantined); diff != "" {
				t.Errorf("quarantined (-want +got):\n%s", diff)
			}
			if got := s.cache.Quarantine().Counts()["PodGroup"]; got != len(tt.quarantined) {
				t.Errorf("%d PodGroups are quarantined, want %d", got, len(tt.quarantined))
			}
		})
	}
}

// TestANodeWithWhichCyclesPanicIsQuarantined checks that a node with which cycles panic is quarantined. Sessions
// without any gang panic as well.
func TestANodeWithWhichCyclesPanicIsQuarantined(t *testing.T) {
	cluster := clusterBeside(10)
	for i := range 10 {
		cluster.Put(schedtest.MakeNode().Name(fmt.Sprintf("node-%d", i)).Capacity(schedtest.Resources{"cpu": "100m"}).Obj())
	}
	s := newTestScheduler(t, cluster, builtIn(t, "trap enqueue allocate"), action{"trap", func(ssn *framework.Session) {
		if ssn.Nodes["node-7"] != nil {
			panic("oh no")
		}
	}})
	cyclesUntilOK(t, s, 20)
	if diff := cmp.Diff(map[string]int{"PodGroup": 0, "Queue": 0, "Node": 1}, s.cache.Quarantine().Counts()); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
	events := cluster.Events.Take()
	if !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, "Warning SchedulerPanic node-7: ") }) {
		t.Errorf("the node is not reported: %v", events)
	}
}

// TestCyclesThatPanicWithEveryObject checks that nothing is quarantined, and the search for the object ends, if every
// cycle panics.
func TestCyclesThatPanicWithEveryObject(t *testing.T) {
	s := newTestScheduler(t, clusterBeside(3), builtIn(t, "trap"), action{"trap", func(*framework.Session) { panic("oh no") }})
	for range 20 {
		s.cycle()
	}
	if diff := cmp.Diff(map[string]int{"PodGroup": 0, "Queue": 0, "Node": 0}, s.cache.Quarantine().Counts()); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
}

// keepGoingOnce applies the settings of keepGoing for the rest of the test process. They cannot be reverted, because
// goroutines that panicked may read them at any time.
var keepGoingOnce sync.Once

// TestAPanicOnAnothersGoroutineEndsNoProcess checks that a panic on another goroutine does not end the process.
// Upstream calls predicates in parallel, where a panic would end the process.
func TestAPanicOnAnothersGoroutineEndsNoProcess(t *testing.T) {
	keepGoingOnce.Do(keepGoing)
	assert.Assert(false, "this assertion ends nothing")
	cluster := clusterBeside(5)
	s := newTestScheduler(t, cluster, builtIn(t, "trap allocate"), action{"trap", func(ssn *framework.Session) {
		if ssn.Jobs["ns/evil-3"] != nil {
			ssn.SetCurrentJob("ns/evil-3")
			workqueue.ParallelizeUntil(context.Background(), 4, 8, func(int) { panic("oh no") })
		}
	}})
	s.orphanPanics.catch()
	eventually(t, func() bool {
		s.cycle()
		return cmp.Equal([]string{"n", "n"}, nodesOf(cluster, 2)) && strings.Contains(unschedulableMessage(cluster.PodGroup("evil-3")), "oh no")
	})
	if diff := cmp.Diff(map[string]int{"PodGroup": 1, "Queue": 0, "Node": 0}, s.cache.Quarantine().Counts()); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
}

// TestWhichPanicsAreOfACycle checks that a cycle counts the panics of its own parallel work, and only while it runs.
func TestWhichPanicsAreOfACycle(t *testing.T) {
	parallel := []byte("goroutine 7\nk8s.io/client-go/util/workqueue.ParallelizeUntil.func1()\n")
	tests := map[string]struct {
		before, during []byte
		want           int
	}{
		"of its own work":              {during: parallel, want: 1},
		"of an informer":               {during: []byte("goroutine 7\nk8s.io/client-go/tools/cache.(*processorListener).run()\n")},
		"of work before the cycle":     {before: parallel},
		"of work before and during it": {before: parallel, during: parallel, want: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var s *scheduler
			s = newTestScheduler(t, gangOf(1), builtIn(t, "trap"), action{"trap", func(*framework.Session) {
				s.orphanPanics.record(orphanPanic{what: "during", stack: tt.during})
			}})
			s.orphanPanics.record(orphanPanic{what: "before", stack: tt.before})
			s.cycle()
			if s.watchdog.panics != tt.want || tt.want > 0 && !strings.HasSuffix(s.watchdog.what, "during") {
				t.Errorf("the cycle has %d panics, %q, want %d", s.watchdog.panics, s.watchdog.what, tt.want)
			}
			s.cycle()
			if s.watchdog.panics > 2*tt.want {
				t.Error("a panic is reported for a second cycle")
			}
		})
	}
}

// TestASearchWaitsForLateReportsOfPanics checks that a search waits for late reports of panics. Otherwise a panic
// would be attributed to the next cycle, which runs with other objects.
func TestASearchWaitsForLateReportsOfPanics(t *testing.T) {
	for searching, want := range map[bool]bool{true: true, false: false} {
		synctest.Test(t, func(t *testing.T) {
			s := &orphanPanics{}
			time.AfterFunc(straggling/2, func() { s.record(orphanPanic{what: "late", stack: []byte("workqueue.ParallelizeUntil")}) })
			start := time.Now()
			if late := s.all(searching); (late != nil) != want {
				t.Errorf("with a search (%t) the late panic is reported as %v", searching, late)
			}
			if took := time.Since(start); !searching && took > 0 {
				t.Errorf("a cycle waits for %s although there is no search", took)
			}
		})
	}
}

// TestCyclesGoOnWhileAnythingIsQuarantined checks that each cycle requests another one while an object is quarantined.
// The object is tried again after a time, and then no other gang may be waiting.
func TestCyclesGoOnWhileAnythingIsQuarantined(t *testing.T) {
	s := newTestScheduler(t, gangOf(1), builtIn(t, "trap"), action{"trap", func(ssn *framework.Session) {
		if ssn.Jobs["ns/g"] != nil {
			ssn.SetCurrentJob("ns/g")
			panic("oh no")
		}
	}})
	s.cycle()
	for range 3 {
		if !s.cycle() {
			t.Error("no cycle is to follow although a gang is quarantined")
		}
	}
	if got := s.cache.Quarantine().Counts()["PodGroup"]; got != 1 {
		t.Errorf("%d gangs are quarantined, want 1", got)
	}
}

func TestDescribePanic(t *testing.T) {
	stack := []byte("goroutine 1\nvolcano.sh/volcano/pkg/scheduler/plugins/proportion.(*proportionPlugin).OnSessionOpen.func8()\n")
	tests := map[string]struct{ action, what, want string }{
		"with action and plugin": {"enqueue", "oh no", "scheduling panicked (action enqueue, plugin proportion): oh no"},
		"before any action":      {"", "oh no", "scheduling panicked (opening the session, plugin proportion): oh no"},
		"bounded":                {"a", strings.Repeat("x", 1000), "scheduling panicked (action a, plugin proportion): " + brief.Part(strings.Repeat("x", 1000))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, describePanic(tt.action, tt.what, stack)); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAThousandPanickingGangsOfOneTenantDelayNoOtherTenant checks that another tenant is served within 30 cycles, and
// each of the panicking gangs is reported.
func TestAThousandPanickingGangsOfOneTenantDelayNoOtherTenant(t *testing.T) {
	const poisoned = 1000
	for name, turn := range map[string]func(job *api.JobInfo) api.JobID{
		"during their turns":   func(job *api.JobInfo) api.JobID { return job.UID },
		"during no job's turn": func(*api.JobInfo) api.JobID { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterBeside(0)
			for i := range poisoned {
				cluster.Put(schedtest.MakePodGroup().Namespace("evil").Name(fmt.Sprintf("evil-%d", i)).Phase(v1beta1.PodGroupPending).Obj())
			}
			for i := range 10 {
				name := fmt.Sprintf("innocent-%d", i)
				cluster.Put(schedtest.MakePodGroup().Name(name).MinMember(1).Phase(v1beta1.PodGroupPending).Obj())
				cluster.Put(schedtest.MakePod().Name(name).Group(name).Req(schedtest.Resources{"cpu": "100m"}).Obj())
			}
			s := newTestScheduler(t, cluster, builtIn(t, "trap enqueue allocate"), action{"trap", func(ssn *framework.Session) {
				for id, job := range ssn.Jobs {
					if strings.HasPrefix(string(id), "evil/") {
						ssn.SetCurrentJob(turn(job))
						panic("runtime error: something is nil")
					}
				}
			}})
			for range 30 {
				s.cycle()
			}
			eventually(t, func() bool {
				for i := range 10 {
					if cluster.Pod(fmt.Sprintf("innocent-%d", i)).Spec.NodeName != "n" {
						return false
					}
				}
				return true
			})
			if code, answer := healthOf(s.watchdog); code != http.StatusOK || s.watchdog.panics > 0 {
				t.Errorf("health answers %d %s after %d cycles that panicked", code, answer, s.watchdog.panics)
			}
			if got := s.cache.Quarantine().Counts()["PodGroup"]; got != poisoned {
				t.Errorf("%d PodGroups are quarantined, want %d", got, poisoned)
			}
			eventually(t, func() bool {
				told := 0
				for i := range poisoned {
					if strings.Contains(unschedulableMessage(podGroupOf(t, cluster, "evil", fmt.Sprintf("evil-%d", i))), "something is nil") {
						told++
					}
				}
				return told == poisoned
			})
		})
	}
}

func podGroupOf(t *testing.T, cluster *schedtest.Cluster, namespace, name string) *v1beta1.PodGroup {
	t.Helper()
	pg, err := cluster.Volcano.SchedulingV1beta1().PodGroups(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pg
}

// TestACulpritThatIsFoundIsProgress checks that a found culprit counts as progress for the watchdog, however many
// were found before and are left.
func TestACulpritThatIsFoundIsProgress(t *testing.T) {
	s := newTestScheduler(t, clusterBeside(1), builtIn(t, "trap"), action{"trap", func(ssn *framework.Session) {
		if ssn.Jobs["ns/evil-0"] != nil {
			panic("oh no")
		}
	}})
	for range 10 {
		s.cycle()
		if s.cache.Quarantine().Counts()["PodGroup"] == 1 {
			break
		}
	}
	if s.watchdog.panics < 2 || s.watchdog.since != s.watchdog.last {
		t.Errorf("of %d cycles that panicked the first without progress was at %s, and the last, which found the culprit, at %s; want them to be the same",
			s.watchdog.panics, s.watchdog.since, s.watchdog.last)
	}
}

// TestTheCycleAfterOneThatPanickedRunsAtOnce checks that the cycle after one that panicked runs at once. A search
// takes about twenty cycles, which must not be a period apart.
func TestTheCycleAfterOneThatPanickedRunsAtOnce(t *testing.T) {
	s := newTestScheduler(t, clusterBeside(1), builtIn(t, "trap"), action{"trap", func(*framework.Session) { panic("oh no") }})
	s.loop.takeChanged()
	s.cycle()
	if !s.loop.isUrgent() {
		t.Error("no cycle was requested")
	}
}
