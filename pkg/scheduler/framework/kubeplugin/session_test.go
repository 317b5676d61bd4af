// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// when makes the plugin return the status at the point, for these pods and nodes. An empty name means any.
func when(point, pod, node string, status *fwk.Status) func(string, string, string) *fwk.Status {
	return func(atPoint, atPod, atNode string) *fwk.Status {
		if atPoint == point && (pod == "" || pod == atPod) && (node == "" || node == atNode) {
			return status
		}
		return nil
	}
}

// TestGangs checks that a gang is placed where the plugin has room for it, and that exactly the committed members
// have reservations.
func TestGangs(t *testing.T) {
	unschedulable, skip := fwk.NewStatus(fwk.Unschedulable, "not now"), fwk.NewStatus(fwk.Skip)
	both := map[string]int{"n1": 1, "n2": 2}
	cases := map[string]struct {
		slots *slots
		least int
		want  string
		// never is an extension point that is not called.
		never string
	}{
		"room for all":                                {slots: &slots{perNode: both}, least: 3, want: "n1 n2 n2"},
		"room for two of three":                       {slots: &slots{perNode: map[string]int{"n1": 1, "n2": 1}}, least: 3},
		"room for the least":                          {slots: &slots{perNode: map[string]int{"n1": 1, "n2": 1}}, least: 2, want: "n1 n2"},
		"nodes that PreFilter leaves out":             {slots: &slots{perNode: map[string]int{"n1": 3, "n2": 3}, only: []string{"n2"}}, least: 3, want: "n2 n2 n2"},
		"no node that PreFilter leaves":               {slots: &slots{perNode: both, only: []string{}}, least: 1, never: "filter"},
		"PreFilter refuses":                           {slots: &slots{perNode: both, says: when("prefilter", "", "", unschedulable)}, least: 1, never: "filter"},
		"PreFilter refuses one":                       {slots: &slots{perNode: both, says: when("prefilter", "g-1", "", unschedulable)}, least: 2, want: "n1 n2"},
		"PreFilter skips Filter":                      {slots: &slots{says: when("prefilter", "", "", skip)}, least: 3, want: "n1 n1 n1", never: "filter"},
		"Filter fails":                                {slots: &slots{perNode: both, says: when("filter", "", "n2", fwk.AsStatus(fmt.Errorf("broken")))}, least: 2},
		"Reserve refuses a node":                      {slots: &slots{perNode: map[string]int{"n1": 3, "n2": 3}, says: when("reserve", "", "n1", unschedulable)}, least: 3, want: "n2 n2 n2"},
		"Reserve refuses a member in the middle":      {slots: &slots{perNode: both, says: when("reserve", "g-1", "", unschedulable)}, least: 3},
		"Reserve refuses one member beyond the least": {slots: &slots{perNode: both, says: when("reserve", "g-2", "", unschedulable)}, least: 2, want: "n1 n2"},
		"Score fails":                                 {slots: &slots{perNode: both, says: when("score", "", "", fwk.AsStatus(fmt.Errorf("broken")))}, least: 3, want: "n1 n2 n2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := place(t, tc.slots, conf, gangOf(3, tc.least, 2))
			w.session.Close()
			var nodes []string
			for _, node := range w.session.Binds() {
				nodes = append(nodes, node)
			}
			slices.Sort(nodes)
			if diff := cmp.Diff(tc.want, strings.Join(nodes, " ")); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			w.expect(t, len(nodes))
			if asked := w.did(tc.never); tc.never != "" && len(asked) > 0 {
				t.Errorf("called for %v", asked)
			}
		})
	}
}

// TestPanicsAreVerdicts checks that a panic at any extension point of a session fails the task, with the plugin's
// name, and leaves nothing reserved.
func TestPanicsAreVerdicts(t *testing.T) {
	for _, point := range []string{"prefilter", "filter", "reserve", "unreserve"} {
		t.Run(point, func(t *testing.T) {
			s := &slots{perNode: map[string]int{"n1": 1}, says: func(at, _, _ string) *fwk.Status {
				if at == point {
					panic("oh no")
				}
				return nil
			}}
			w := place(t, s, conf, gangOf(2, 2, 1))
			w.session.Close()
			if n := len(w.session.Binds()); n > 0 || w.keeps() > 0 {
				t.Errorf("%d are placed and %d kept", n, w.keeps())
			}
		})
	}
}

// TestTheBestNodeByScore checks that the result of PreScore, Score and NormalizeScore, times the weight, is added to
// the other plugins' scores.
func TestTheBestNodeByScore(t *testing.T) {
	in := gangOf(1, 1, 0)
	for _, name := range []string{"a-long-name", "bb", "much-longer-name"} {
		in.Nodes = append(in.Nodes, schedtest.MakeNode().Name(name).Obj())
	}
	w := place(t, &slots{perNode: map[string]int{"a-long-name": 1, "bb": 1, "much-longer-name": 1}}, conf, in)
	defer w.session.Close()
	if got := w.session.Binds()["ns/g-0"]; got != "bb" {
		t.Errorf("placed on %q, want bb", got)
	}
}

// TestResultsAreCached checks that results are cached only with WithCaching, which lets allocate use the results for
// equal pods. Otherwise Filter and Score are called for each pod on each node. Pods that differ in a label that the
// plugin reads are not equal.
func TestResultsAreCached(t *testing.T) {
	cases := map[string]struct {
		opts  []Option
		label string
		calls int
	}{
		"without the option":            {calls: 3},
		"equal pods":                    {opts: []Option{WithCaching(framework.PerTaskClass, framework.SomePodKeys())}, calls: 1},
		"a label that it reads":         {opts: []Option{WithCaching(framework.PerTaskClass, framework.SomePodKeys("rank"))}, label: "rank", calls: 3},
		"a label that it does not read": {opts: []Option{WithCaching(framework.PerTaskClass, framework.SomePodKeys("rank"))}, label: "other", calls: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := gangOf(3, 3, 2)
			for i, pod := range in.Pods {
				pod.Labels = map[string]string{tc.label: fmt.Sprint(i)}
			}
			// All members fit on n1, which comes first, so n2 never changes.
			w := place(t, &slots{perNode: map[string]int{"n1": 3, "n2": 3}}, conf, in, tc.opts...)
			defer w.session.Close()
			if n := len(w.session.Binds()); n != 3 {
				t.Fatalf("%d pods are placed, want 3", n)
			}
			for _, point := range []string{"filter", "score"} {
				asked := slices.DeleteFunc(w.did(point), func(entry string) bool { return !strings.HasSuffix(entry, " n2") })
				if len(asked) != tc.calls {
					t.Errorf("%s was called %d times on n2, want %d: %v", point, len(asked), tc.calls, asked)
				}
			}
		})
	}
}

// TestReserveReadsWhatFilterStored checks that Reserve finds the data that Filter stores in the CycleState, even if the
// filter result was cached for an equal pod.
func TestReserveReadsWhatFilterStored(t *testing.T) {
	for name, opts := range map[string][]Option{"not cached": nil, "cached": {WithCaching(framework.PerTaskClass, framework.SomePodKeys())}} {
		t.Run(name, func(t *testing.T) {
			w := place(t, &slots{perNode: map[string]int{"n1": 2, "n2": 1}, needsFilter: true}, conf, gangOf(3, 3, 2), opts...)
			defer w.session.Close()
			if n := len(w.session.Binds()); n != 3 {
				t.Errorf("%d pods are placed, want 3: %s", n, w.session.Jobs["ns/g"].JobFitErrors)
			}
		})
	}
}

// TestSlowFiltersHaveALimit checks that calls of Filter end at their time limit, that a namespace whose calls used up
// its time in a session is not filtered further, and that the gang's reason says so.
func TestSlowFiltersHaveALimit(t *testing.T) {
	w := place(t, &slots{filters: func(ctx context.Context) { <-ctx.Done() }}, conf, gangOf(1, 1, 20))
	defer w.session.Close()
	if n := len(w.did("filter")); n == 0 || n > 3 {
		t.Errorf("Filter was called for %d nodes, want at most 3", n)
	}
	const want = `plugin slots: filter budget of namespace "ns" (1s per cycle) is exhausted; retrying in a later cycle`
	if got := w.session.Jobs["ns/g"].JobFitErrors; !strings.Contains(got, want) {
		t.Errorf("the gang's reason is %q, want %q", got, want)
	}
}

// TestTrialsLeaveNothing checks that trials leave no reservation. Forty clusters are tried, and only the last has
// room for the gang.
func TestTrialsLeaveNothing(t *testing.T) {
	const clusters = 40
	in, s := gangOf(3, 3, 0), &slots{perNode: map[string]int{}}
	in.PodGroups[0].Annotations = map[string]string{"ibcluster.volcano-prebind.io/mode": "required"}
	for i := range clusters {
		for j := range 3 {
			name := fmt.Sprintf("n%02d-%d", i, j)
			in.Nodes = append(in.Nodes, schedtest.MakeNode().Name(name).Label("cluster", fmt.Sprint(i)).Obj())
			if j < 2 || i == clusters-1 {
				s.perNode[name] = 1
			}
		}
	}
	w := place(t, s, conf+"  - name: ibcluster\n    arguments:\n      ibcluster.levels: [cluster]\n      ibcluster.defaultMode: required\n", in)
	w.session.Close()
	tried := map[string]bool{}
	for _, entry := range w.did("reserve") {
		node := strings.Fields(entry)[2]
		tried[node[:3]] = true
	}
	if len(tried) < clusters/2 {
		t.Errorf("only %d clusters were tried", len(tried))
	}
	for pod, node := range w.session.Binds() {
		if !strings.HasPrefix(node, "n39-") {
			t.Errorf("pod %s is placed on %s", pod, node)
		}
	}
	if n := len(w.session.Binds()); n != 3 {
		t.Errorf("%d are placed, want 3", n)
	}
	w.expect(t, 3)
}

// TestPlacementsWithoutCommitAreReleased checks that placements without a commit are released: placements of tasks
// that wait for resources, and placements left after a panic.
func TestPlacementsWithoutCommitAreReleased(t *testing.T) {
	for name, end := range map[string]func(w *harness){
		"closed":   func(w *harness) { w.session.Close() },
		"panicked": func(w *harness) { w.registry.UndoPlacements() },
	} {
		t.Run(name, func(t *testing.T) {
			w := place(t, &slots{perNode: map[string]int{"n1": 1}}, conf, gangOf(2, 2, 1))
			w.expect(t, 0)
			w.perNode["n1"] = 2
			statement, names := vcframework.NewStatement(w.session.Session.Session), w.session.Nodes
			place := func(task *api.TaskInfo) error { return statement.Pipeline(task, "n1", false) }
			for _, task := range w.session.Jobs["ns/g"].Tasks {
				if err := place(task); err != nil {
					t.Fatal(err)
				}
				place = func(task *api.TaskInfo) error { return statement.Allocate(task, names["n1"]) }
			}
			w.expect(t, 2)
			end(w)
			w.expect(t, 0)
		})
	}
}

// TestAPlacedTaskKeepsItsState checks that a placed task keeps its state: a filter call for it starts no new cycle,
// which would lose the state that Reserve wrote.
func TestAPlacedTaskKeepsItsState(t *testing.T) {
	w := place(t, &slots{perNode: map[string]int{"n1": 2}}, conf, gangOf(2, 2, 1))
	for _, task := range w.session.Jobs["ns/g"].Tasks {
		if err := w.session.PrePredicateFn(task); err != nil {
			t.Error(err)
		}
	}
	w.session.Close()
	if r := sessiontest.Transact(w.session, "ns/g", fateOf(2)).Wait(); len(r.Bound) != 2 {
		t.Errorf("%d are bound, want 2: %v", len(r.Bound), r.Failed)
	}
}

// TestStatuses checks that each status code of kube-scheduler refuses a node in the way that preempt and reclaim
// interpret it.
func TestStatuses(t *testing.T) {
	p := &plugin{name: slotsName}
	for code, want := range map[fwk.Code]int{
		fwk.Unschedulable: api.Unschedulable, fwk.UnschedulableAndUnresolvable: api.UnschedulableAndUnresolvable,
		fwk.Pending: api.UnschedulableAndUnresolvable, fwk.Error: api.Error, fwk.Skip: api.Error, fwk.Wait: api.Error,
	} {
		t.Run(code.String(), func(t *testing.T) {
			got := p.refusal(fwk.NewStatus(code, "because", strings.Repeat("x", 1<<20)))
			if got.Code != want || got.Plugin != slotsName || !strings.HasPrefix(got.Reason, "because") || len(got.Reason) > 1000 {
				t.Errorf("got %d of %s with %d bytes, want %d", got.Code, got.Plugin, len(got.Reason), want)
			}
			if p.failure(fwk.NewStatus(code)) == nil {
				t.Error("it is no failure")
			}
		})
	}
	if p.refusal(nil) != nil || p.failure(nil) != nil {
		t.Error("success is a refusal")
	}
}
