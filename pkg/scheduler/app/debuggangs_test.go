// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const gangConf = `
actions: enqueue, allocate
tiers:
- plugins:
  - name: gang
  - name: coscheduling
    arguments: {defaultTimeout: 7m}
- plugins:
  - name: predicates
  - name: proportion
`

// mixed returns a cluster with gangs of several kinds in different states.
func mixed() *schedtest.Cluster {
	cluster := gangOf(2)
	cluster.Put(schedtest.MakePodGroup().Name("theirs").MinMember(3).Phase(v1beta1.PodGroupPending).
		Annotation(gangs.SourceAnnotation, "scheduling.sigs.k8s.io").Annotation(gangs.ModeAnnotation, "Strict").
		Annotation(gangs.GroupsAnnotation, `["ns"]`).Annotation(gangs.MatchPolicyAnnotation, "only-waiting").Obj())
	gated := schedtest.MakePod().Name("t1").Group("theirs").Obj()
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}}
	cluster.Put(schedtest.MakePod().Name("t0").Group("theirs").Obj())
	cluster.Put(gated)
	of := schedtest.MakePodGroup().Name("of-roles").MinMember(2).Phase(v1beta1.PodGroupInqueue).Obj()
	of.Spec.MinTaskMember = map[string]int32{"chief": 1}
	yes := true
	of.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "train", UID: "u", Controller: &yes}}
	cluster.Put(of)
	return cluster
}

// gangScheduler returns a scheduler of these gangs, the handler of its debug endpoints, and the gangs' view.
func gangScheduler(t *testing.T, cluster *schedtest.Cluster) (*scheduler, http.Handler, *debug.View) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.conf")
	if err := os.WriteFile(path, []byte(gangConf), 0o600); err != nil {
		t.Fatal(err)
	}
	loader := config.NewLoader(path, config.NewCatalogue(PluginSpecs()...), false)
	cfg, err := loader.Load()
	if err != nil {
		t.Fatal(err)
	}
	s := newTestScheduler(t, cluster, cfg)
	p := &process{registry: s.registry, loader: loader, metrics: s.metrics}
	p.shown.pending = s.pending
	p.show(s)
	return s, debugHandler(true, false, &p.shown), p.shown.gangs.Load()
}

func askGangs(t *testing.T, handler http.Handler, query string) (page debug.Page) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/gangs"+query, nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("%q answers %d: %s", query, answer.Code, answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	return page
}

// TestGangsAreShown checks that the debug endpoint shows each gang's settings, its source, the state of its members,
// and the reason why it waits.
func TestGangsAreShown(t *testing.T) {
	cluster := mixed()
	s, handler, view := gangScheduler(t, cluster)
	s.cycle()
	eventually(t, func() bool { states := view.Count().ByState; return states["bound"] == 1 && states["admitted"] == 2 })
	s.tried(preempt.Try{Gangs: []api.JobID{schedtest.Namespace + "/g"}, Action: preempt.Name, Result: preempt.NotNeeded})
	got := askGangs(t, handler, "")
	if tried := got.Gangs[0].Evictions; tried == nil || tried.Result != preempt.NotNeeded || tried.At.IsZero() {
		t.Errorf("the last try to evict pods for the gang is shown as %+v", tried)
	}
	want := debug.Page{Gangs: []debug.Gang{
		{
			Namespace: schedtest.Namespace, Name: "g", Source: "scheduling.volcano.sh", Queue: schedtest.Queue, State: debug.Bound,
			Minimum: debug.Minimum{Members: 2}, Members: map[string]int{"bound": 2},
		},
		{
			Namespace: schedtest.Namespace, Name: "of-roles", Source: "scheduling.volcano.sh", Owner: "Job.batch.volcano.sh train", Queue: schedtest.Queue,
			State: debug.Admitted, Minimum: debug.Minimum{Members: 2, Roles: map[string]int32{"chief": 1}}, Members: map[string]int{},
			Waits: &debug.Verdict{Reason: "NotEnoughTasks", Message: `minMember is 2 and there is no pod; minTaskMember of "chief" is 1 and there is no such pod`},
		},
		{
			Namespace: schedtest.Namespace, Name: "theirs", Source: "scheduling.sigs.k8s.io", Queue: schedtest.Queue, State: debug.Admitted,
			Minimum: debug.Minimum{Members: 3}, Members: map[string]int{"pending": 1, "gated": 1},
			Settings: &debug.Settings{Mode: gangs.Strict, MatchPolicy: gangs.OnlyWaiting, WaitingTime: "7m0s", InvalidSettings: []string{"groups"}},
			Waits: &debug.Verdict{
				Reason:  "InvalidGangGroup",
				Message: `gang.scheduling.koordinator.sh/groups: invalid value "[\"ns\"]", must be a list that contains the gang itself, ns/theirs; the gang is not scheduled until this is corrected`,
			},
		},
	}}
	for i := range got.Gangs {
		g := &got.Gangs[i]
		if s := g.Settings; s != nil && len(s.InvalidSettings) == 1 && strings.Contains(s.InvalidSettings[0], gangs.GroupsAnnotation) {
			s.InvalidSettings[0] = "groups"
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(debug.Gang{}, "Created", "Priority", "Phase", "Conditions", "Evictions")); diff != "" {
		t.Errorf("gangs are shown as (-want +got):\n%s", diff)
	}
	for query, want := range map[string]string{
		"?podgroup=theirs":   "[theirs] 0",
		"?namespace=another": "[] 0",
		"?limit=2":           "[g of-roles] 1",
		"?limit=2&after=" + got.Gangs[0].Namespace + "/of-roles": "[theirs] 0",
	} {
		page := askGangs(t, handler, query)
		names := []string{}
		for _, g := range page.Gangs {
			names = append(names, g.Name)
		}
		if is := fmt.Sprint(names, " ", page.LeftOut); is != want {
			t.Errorf("%q answers %s, want %s", query, is, want)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=5001", "?limit=all"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/gangs"+query, nil))
		if answer.Code != http.StatusBadRequest {
			t.Errorf("%q answers %d, want that it is rejected", query, answer.Code)
		}
	}
	// The conditions are on the PodGroup, and reach the scheduler through the API server.
	eventually(t, func() bool {
		group := cluster.PodGroup("theirs")
		cluster.Put(group)
		c := askGangs(t, handler, "?podgroup=theirs").Gangs[0].Conditions
		return c["GangTimeLimit"].Reason == "GangAdmitted" && c["InvalidGangSettings"].Message != "" && !c["GangTimeLimit"].Since.IsZero()
	})
}

// TestGangsOfAProcessThatDoesNotLead checks that a process that does not lead answers with an error, not with an
// empty list of gangs.
func TestGangsOfAProcessThatDoesNotLead(t *testing.T) {
	answer := httptest.NewRecorder()
	debugHandler(false, false, &debugged{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/gangs", nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("the status is %d, want an error", answer.Code)
	}
}

// TestGangsAreCounted checks that gangs are counted by state, and that deleted gangs are not counted.
func TestGangsAreCounted(t *testing.T) {
	cluster := mixed()
	s, _, view := gangScheduler(t, cluster)
	count := func(want string) {
		t.Helper()
		is := ""
		defer func() {
			if is != want {
				t.Errorf("there are gangs %s, want %s", is, want)
			}
		}()
		eventually(t, func() bool {
			var parts []string
			for _, state := range debug.States {
				if n := view.Count().ByState[string(state)]; n > 0 {
					parts = append(parts, fmt.Sprintf("%s %d", state, n))
				}
			}
			is = strings.Join(parts, ", ")
			return is == want
		})
	}
	count("waiting 1, admitted 2")
	s.cycle()
	count("admitted 2, bound 1")
	for _, name := range []string{"p0", "p1"} {
		pod := cluster.Pod(name)
		pod.Status.Phase = v1.PodRunning
		s.cache.Books().Pods.Show(pod)
	}
	count("admitted 2, running 1")
	for _, name := range []string{"p0", "p1"} {
		s.cache.Books().Pods.Hide(cluster.Pod(name))
	}
	s.cache.Books().Jobs.HideGroup("ns/g")
	count("admitted 2")
}

// TestGangsAreShownWhileTheyChange checks that the shown gangs share no data with sessions and informers, which
// change the gangs concurrently.
func TestGangsAreShownWhileTheyChange(t *testing.T) {
	cluster := mixed()
	s, handler, view := gangScheduler(t, cluster)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					askGangs(t, handler, "")
					view.Count()
				}
			}
		})
	}
	for i := range 20 {
		pod := schedtest.MakePod().Name(fmt.Sprintf("more-%d", i)).Group("theirs").Obj()
		s.cache.Books().Pods.Show(pod)
		s.cycle()
		s.cache.Books().Pods.Hide(pod)
	}
	close(done)
	wg.Wait()
}

// TestManyGangsAreShownInTurns checks that no caller waits long for the cache's lock while 5,000 gangs are counted
// and shown in batches.
func TestManyGangsAreShownInTurns(t *testing.T) {
	cluster := gangOf(1)
	s, _, view := gangScheduler(t, cluster)
	for i := range 5000 {
		name := fmt.Sprintf("many-%d", i)
		showGroup(t, s.cache.Books(), schedtest.MakePodGroup().Name(name).Annotation(gangs.ModeAnnotation, "Strict").Obj())
		s.cache.Books().Pods.Show(schedtest.MakePod().Name(name).Group(name).Obj())
	}
	began := time.Now()
	page := view.List(debug.Query{Limit: 5000})
	if len(page.Gangs) != 5000 || page.LeftOut != 1 || page.Gangs[0].Settings != nil && page.Gangs[0].Settings.Mode != gangs.Strict {
		t.Errorf("%d gangs are shown, and %d are left out", len(page.Gangs), page.LeftOut)
	}
	t.Logf("5000 gangs were shown in %v", time.Since(began))
}

func showGroup(t *testing.T, books *books.Books, group *v1beta1.PodGroup) {
	t.Helper()
	if err := books.Jobs.ShowGroup(group); err != nil {
		t.Fatal(err)
	}
}
