// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// answering implements all interfaces that a plugin, or its value for the session, may implement. Its results contain
// its name.
type answering struct {
	name  string
	trace *trace
	// silent makes optional methods return no result. panics makes each method panic.
	silent, panics bool
}

func (a answering) speak() bool {
	if a.panics {
		panic("oh no")
	}
	return !a.silent
}

func (a answering) SignTask(*api.TaskInfo) CacheScope     { a.speak(); return PerJob }
func (a answering) PodKeys() PodKeys                      { a.speak(); return SomePodKeys(a.name) }
func (a answering) SignJob(*api.JobInfo) string           { return a.name }
func (a answering) SignNode(*api.NodeInfo) (uint64, bool) { a.speak(); return uint64(a.name[0]), true }

func (a answering) SignVolume(*v1.Pod, *v1.Volume) string          { a.speak(); return a.name }
func (a answering) SignClaim(*v1.Pod, *v1.PodResourceClaim) string { a.speak(); return a.name }
func (a answering) Placement(*api.JobInfo) (Placement, error) {
	if !a.speak() {
		return Placement{}, nil
	}
	return Placement{NodeGroups: &NodeGroups{Refused: map[string]string{"by": a.name}}, Planner: &TopologyPlanner{}, Avoid: []string{a.name, "n"}}, nil
}

func (a answering) ScoreNodeGroup(*api.JobInfo, *NodeGroupTrial) (float64, error) {
	a.speak()
	return float64(a.name[0]), nil
}
func (a answering) BeforeTrial() bool { return a.speak() }

func (a answering) GangGroup(*api.JobInfo) *binding.GangGroup {
	if a.silent {
		return nil
	}
	return &binding.GangGroup{ID: a.name}
}

func (a answering) Reach(*api.TaskInfo) *Reach {
	if !a.speak() {
		return nil
	}
	return &Reach{Nodes: []string{a.name}}
}

func (a answering) PlaceFirst(*api.JobInfo) (map[api.TaskID]bool, bool) {
	return map[api.TaskID]bool{api.TaskID(a.name): true}, a.speak()
}

func (a answering) Nominees(*api.JobInfo) map[api.TaskID]bool {
	if !a.speak() {
		return nil
	}
	return map[api.TaskID]bool{api.TaskID("for " + a.name): true}
}

func (a answering) Unresolvable() bool { return a.speak() }

func (a answering) RefuseAdmission(*api.JobInfo) *PendingReason {
	if !a.speak() {
		return nil
	}
	return &PendingReason{NotEnqueued, "refused by " + a.name}
}

func (a answering) Infeasible(*api.JobInfo) bool { return a.speak() }

func (a answering) Leaving(task *api.TaskInfo) []*api.TaskInfo {
	if !a.speak() {
		return nil
	}
	return []*api.TaskInfo{{Name: a.name + " for " + task.Name}}
}

func (a answering) Evicted(e Eviction) { a.speak(); a.trace.add("%s: %s evicted", a.name, e.Task.Name) }

func (a answering) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	a.trace.add("%s: %s on %s", a.name, task.Name, node.Name)
	return nil
}

func (a answering) Unreserve(task *api.TaskInfo) { a.trace.add("%s: not %s", a.name, task.Name) }

var (
	_ Signer             = answering{}
	_ PlacementGenerator = answering{}
	_ PlacementScorer    = answering{}
	_ GangGrouper        = answering{}
	_ Prioritizer        = answering{}
	_ EvictionTracker    = answering{}
	_ AdmissionVoter     = answering{}
	_ Reserver           = answering{}
)

// whole is a plugin that itself implements the interfaces. For a plugin of type scoped, its value for the session
// implements them. For a plugin of type both, the plugin and its value implement them.
type (
	whole struct {
		*fake
		answering
		preBinder
	}
	scoped struct {
		*fake
		preBinder
		part any
	}
	both struct {
		whole
		part any
	}
)

func (w whole) Name() string    { return w.fake.name }
func (s scoped) InSession() any { return s.part }
func (b both) InSession() any   { return b.part }

// openOf opens a session of the plugins, sorted by name, without the predicates of the plugins in unpredicated.
func openOf(t *testing.T, plugins map[string]Plugin, unpredicated ...string) (*Registry, *recordingCache, *Session) {
	t.Helper()
	r, k := NewRegistry(), newRecordingCache(t)
	k.AddPod(schedtest.MakePod().Name("victim").Group("g").Node("n").Phase(v1.PodRunning).Obj())
	order := slices.Sorted(maps.Keys(plugins))
	for name, plugin := range plugins {
		r.RegisterPlugin(PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) { return plugin, nil })})
	}
	in := tier(order...)
	for i := range in.Plugins {
		if slices.Contains(unpredicated, in.Plugins[i].Name) {
			no := false
			in.Plugins[i].EnabledPredicate = &no
		}
	}
	return r, k, open(t, r, k, ProfileInput{Tiers: []conf.Tier{in}})
}

// answersOf calls every function of the contract and returns the results.
func answersOf(t *testing.T, ssn *Session, tr *trace) map[string]string {
	t.Helper()
	job, task, node := ssn.Jobs["ns/g"], taskNamed(ssn, "p0"), ssn.Nodes["n"]
	got := map[string]string{}
	note := func(what string, format string, args ...any) { got[what] = fmt.Sprintf(format, args...) }
	placement, err := ssn.Placements.Of(job)
	if err != nil {
		note("placement", "%v", err)
	}
	if groups := placement.NodeGroups; groups != nil {
		note("groups", "%s by %s", groups.Refused["by"], groups.Plugin)
	}
	if planner := placement.Planner; planner != nil {
		note("planner", "by %s", planner.Plugin)
	}
	note("avoided", "%v", placement.Avoid)
	score, err := ssn.Placements.NodeGroupScore(job, &NodeGroupTrial{Group: &topology.Group{}, Placement: map[api.TaskID]string{}})
	note("score", "%v %v", score, err)
	score, err = ssn.Placements.NodeGroupScore(job, &NodeGroupTrial{Group: &topology.Group{}})
	note("score before the trial", "%v %v, all %t", score, err, ssn.Placements.ScoredBeforeTrial())
	if gangGroup := ssn.Placements.GangGroup(job); gangGroup != nil {
		note("gang group", "%s", gangGroup.ID)
	}
	if reach := ssn.Signers.Reach(task); reach != nil {
		note("reach", "%v", reach.Nodes)
	}
	if precedence, placeFirst := ssn.Placements.Precedence(job); placeFirst {
		note("precedence", "%v of rank %d", slices.Collect(maps.Keys(precedence.Only)), precedence.Rank)
	}
	note("nominees", "%v", slices.Sorted(maps.Keys(ssn.Placements.Nominees([]*api.JobInfo{job}))))
	_, gone := ssn.QueueUse.Asked(task)
	var leaving []string
	for _, of := range gone {
		leaving = append(leaving, of.Name)
	}
	note("leaving", "%q", leaving)
	note("volume", "%s", keyOf(ssn.Signers.VolumeKey(&v1.Pod{}, &v1.Volume{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})))
	note("claim", "%s", keyOf(ssn.Signers.ClaimKey(&v1.Pod{}, &v1.PodResourceClaim{})))
	note("never fits", "%t", ssn.Infeasible(job))
	admitted := ssn.JobEnqueueable(job)
	reason, _ := ssn.PendingReason(job.UID)
	note("admitted", "%t %s", admitted, reason.Message)
	for _, name := range []string{"a", "b"} {
		if _, there := ssn.PluginOption(name); !there {
			continue
		}
		key, ok := ssn.Signers.NodeKey(name, node)
		note("verdicts of "+name, "scope %d, keys %v, job %s, node %c %t", ssn.Signers.Scope(name, task), ssn.Signers.PodKeys(name).keys,
			ssn.Signers.JobKey(name, job), rune(key), ok)
	}
	tr.list = nil
	statement := vcframework.NewStatement(ssn.Session)
	if err := statement.Allocate(task, node); err != nil {
		t.Error(err)
	}
	statement.Discard()
	if err := ssn.Evict(taskNamed(ssn, "victim"), "for a test"); err != nil {
		t.Error(err)
	}
	note("calls", "%s", strings.Join(tr.list, ", "))
	return got
}

func keyOf(key string, ok bool) string { return fmt.Sprintf("%q %t", key, ok) }

// TestAnswersOfPlugins checks that interfaces are found on a plugin's value for the session, or else on the plugin.
// If plugins contradict each other, the first plugin in the configuration with a result decides.
func TestAnswersOfPlugins(t *testing.T) {
	tr := &trace{}
	called := func(name string) *fake { return &fake{name, func(*Session) {}} }
	says := func(name string) answering { return answering{name: name, trace: tr} }
	ofA := map[string]string{
		"groups": "a by a", "planner": "by a", "score": "97 <nil>", "score before the trial": "97 <nil>, all true", "gang group": "a", "avoided": "[a n]",
		"reach": "[a]", "precedence": "[a] of rank 0", "nominees": "[for a]", "leaving": `["a for p0"]`, "volume": `"a" true`, "claim": `"a" true`, "never fits": "true", "admitted": "false refused by a",
		"verdicts of a": "scope 1, keys [a], job a, node a true", "calls": "a: p0 on n, a: not p0, a: victim evicted",
	}
	ofNone := map[string]string{
		"score": "0 <nil>", "score before the trial": "0 <nil>, all true", "avoided": "[]", "nominees": "[]", "leaving": "[]", "volume": `"" false`, "claim": `"" false`, "never fits": "false", "admitted": "true ",
		"verdicts of a": "scope 0, keys [], job ns/g, node \x00 false", "calls": "",
	}
	but := func(of map[string]string, with ...string) map[string]string {
		of = maps.Clone(of)
		for i := 0; i < len(with); i += 2 {
			if of[with[i]] = with[i+1]; with[i+1] == "" {
				delete(of, with[i])
			}
		}
		return of
	}
	late := &scoped{preBinder: preBinder{tr}}
	late.fake = &fake{"a", func(*Session) { late.part = says("a") }}
	cases := map[string]struct {
		plugins      map[string]Plugin
		unpredicated []string
		want         map[string]string
	}{
		"a plugin without interfaces": {plugins: map[string]Plugin{"a": &fake{"a", func(*Session) {}}}, want: ofNone},
		"the plugin answers":          {plugins: map[string]Plugin{"a": whole{called("a"), says("a"), preBinder{tr}}}, want: ofA},
		"its value for the session answers": {
			plugins: map[string]Plugin{"a": scoped{called("a"), preBinder{tr}, says("a")}}, want: ofA,
		},
		"its value is made when the session opens": {
			plugins: map[string]Plugin{"a": late}, want: ofA,
		},
		"a plugin without value for this session": {
			plugins: map[string]Plugin{"a": scoped{called("a"), preBinder{tr}, nil}}, want: ofNone,
		},
		"its value for the session answers instead of the plugin": {
			plugins: map[string]Plugin{"a": both{whole{called("a"), says("other"), preBinder{tr}}, says("a")}}, want: ofA,
		},
		"the plugin answers what its value does not": {
			plugins: map[string]Plugin{"a": both{whole{called("a"), says("a"), preBinder{tr}}, struct{}{}}}, want: ofA,
		},
		"the first of two decides, and all are asked where all count": {
			plugins: map[string]Plugin{"a": whole{called("a"), says("a"), preBinder{tr}}, "b": whole{called("b"), says("b"), preBinder{tr}}},
			want: but(ofA, "score", "195 <nil>", "score before the trial", "195 <nil>, all true", "avoided", "[a b n]", "nominees", "[for a for b]", "leaving", `["a for p0" "b for p0"]`, "admitted", "false refused by b",
				"verdicts of b", "scope 1, keys [b], job b, node b true",
				"calls", "a: p0 on n, b: p0 on n, b: not p0, a: not p0, a: victim evicted, b: victim evicted"),
		},
		"the second decides where the first has no answer": {
			plugins: map[string]Plugin{
				"a": whole{called("a"), answering{name: "a", trace: tr, silent: true}, preBinder{tr}}, "b": whole{called("b"), says("b"), preBinder{tr}},
			},
			want: but(ofA, "groups", "b by b", "planner", "by b", "gang group", "b", "precedence", "[b] of rank 1", "reach", "[b]",
				"score", "195 <nil>", "score before the trial", "98 <nil>, all false", "avoided", "[b n]", "nominees", "[for b]", "leaving", `["b for p0"]`, "admitted", "false refused by b",
				"verdicts of b", "scope 1, keys [b], job b, node b true",
				"calls", "a: p0 on n, b: p0 on n, b: not p0, a: not p0, a: victim evicted, b: victim evicted"),
		},
		"a plugin whose predicate is switched off bounds no nodes": {
			plugins:      map[string]Plugin{"a": whole{called("a"), says("a"), preBinder{tr}}, "b": whole{called("b"), says("b"), preBinder{tr}}},
			unpredicated: []string{"a"},
			want: but(ofA, "score", "195 <nil>", "score before the trial", "195 <nil>, all true", "avoided", "[a b n]", "nominees", "[for a for b]", "leaving", `["a for p0" "b for p0"]`, "admitted", "false refused by b", "reach", "[b]",
				"verdicts of b", "scope 1, keys [b], job b, node b true",
				"calls", "a: p0 on n, b: p0 on n, b: not p0, a: not p0, a: victim evicted, b: victim evicted"),
		},
		"a plugin that panics has no answer, or an error with its name": {
			plugins: map[string]Plugin{"a": whole{called("a"), answering{name: "a", trace: tr, panics: true}, preBinder{tr}}},
			want: but(ofNone, "placement", "plugin a: plugin a panicked: oh no", "gang group", "a",
				"score", "0 plugin a: plugin a panicked: oh no", "score before the trial", "0 <nil>, all false",
				"verdicts of a", "scope 0, keys [], job a, node \x00 false", "calls", "a: p0 on n, a: not p0"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, _, ssn := openOf(t, tc.plugins, tc.unpredicated...)
			if diff := cmp.Diff(tc.want, answersOf(t, ssn, tr)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			r.CloseSession(ssn)
		})
	}
}

// TestExplainedShortages checks that the plugins that the configuration names explain shortages, and that no others
// do.
func TestExplainedShortages(t *testing.T) {
	r := NewRegistry()
	for _, name := range []string{"a", "b"} {
		r.RegisterPlugin(PluginSpec{
			Name: name, ExplainsShortages: []v1.ResourceName{v1.ResourceName("of-" + name)},
			Load: WithoutArguments(func(Handle) (Plugin, error) { return &fake{name, func(*Session) {}}, nil }),
		})
	}
	ssn := open(t, r, newRecordingCache(t), ProfileInput{Tiers: []conf.Tier{tier("a")}})
	defer r.CloseSession(ssn)
	for resource, want := range map[string]bool{"of-a": true, "of-b": false, "cpu": false} {
		if got := ssn.Signers.IsShortageExplained(resource); got != want {
			t.Errorf("a shortage of %s is explained: %t, want %t", resource, got, want)
		}
	}
}

// stepping is a PreBinder with options.
type stepping struct {
	timed
	trace *trace
}

func (s stepping) PreBindOptions() []PreBindOption {
	return append(s.timed.PreBindOptions(),
		WithPreCommitCheck(func(*api.TaskInfo, string) error { return errors.New("changed") }),
		WithBound(func(context.Context, *api.TaskInfo, string) { s.trace.add("bound") }))
}

var _ PreBindOptioner = stepping{}

// TestAStepHasTheOptionsOfItsPlugin checks that a step has the options of its plugin, and that the step of a plugin
// without options has the defaults.
func TestAStepHasTheOptionsOfItsPlugin(t *testing.T) {
	tr := &trace{}
	ssn := newSession([]string{"p", "plain"})
	ssn.chain.addPreBinder("plain", preBinder{tr}, false)
	ssn.chain.addPreBinder("p", stepping{timed{preBinder{tr}}, tr}, false)
	steps := ssn.chain.of(nil)
	if plain := steps[1]; plain.PreCommitCheck != nil || plain.Bound != nil || plain.Timeout != DefaultStepTimeout {
		t.Errorf("a step has options that its plugin does not have: %+v", plain)
	}
	step := steps[0]
	if step.Timeout != time.Hour {
		t.Errorf("the timeout is %s, want the plugin's", step.Timeout)
	}
	if err := step.PreCommitCheck(nil, ""); err == nil || err.Error() != "changed" {
		t.Errorf("the last look returns %v, want the plugin's error", err)
	}
	step.Bound(t.Context(), nil, "")
	if err := errors.Join(step.PreBind(t.Context(), nil, ""), step.Rollback(t.Context(), nil, "")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"bound", "do", "undo"}, tr.list); diff != "" {
		t.Errorf("called (-want +got):\n%s", diff)
	}
}

// TestOptionsOfAFunction checks that a step that is a function has only its given options.
func TestOptionsOfAFunction(t *testing.T) {
	tr := &trace{}
	does := func(what string) PreBindFn {
		return func(*api.TaskInfo, string) error { tr.add("%s", what); return nil }
	}
	ssn := newSession([]string{"p"})
	ssn.AddPreBindFn("p", does("plain"))
	ssn.AddPreBindFn("p", does("do"), WithPreCommitCheck(does("look")), WithBound(func(context.Context, *api.TaskInfo, string) { tr.add("bound") }), WithRollbackIfNotRun(),
		WithRollback(func(context.Context, *api.TaskInfo, string) error { tr.add("undo"); return nil }))
	steps := ssn.chain.of(nil)
	if plain := steps[0]; plain.PreCommitCheck != nil || plain.Bound != nil || plain.Rollback != nil || plain.RollbackIfNotRun {
		t.Errorf("a function without options has more: %+v", plain)
	}
	step := steps[1]
	if err := errors.Join(step.PreBind(t.Context(), nil, ""), step.PreCommitCheck(nil, ""), step.Rollback(t.Context(), nil, "")); err != nil {
		t.Error(err)
	}
	step.Bound(t.Context(), nil, "")
	if diff := cmp.Diff([]string{"do", "look", "undo", "bound"}, tr.list); diff != "" || !step.RollbackIfNotRun {
		t.Errorf("rolled back although it did not begin: %t; called (-want +got):\n%s", step.RollbackIfNotRun, diff)
	}
}

// starting is a plugin that starts with its session.
type starting struct {
	*fake
	trace *trace
}

func (s starting) OnSessionStart(ssn *Session) {
	s.trace.add("%s starts in action %q", s.name, ssn.Action)
}

// TestStarters checks that all plugins have opened before the first of them starts.
func TestStarters(t *testing.T) {
	tr := &trace{}
	r := NewRegistry()
	opens := func(name string) *fake { return &fake{name, func(*Session) { tr.add("%s opens", name) }} }
	for _, name := range []string{"a", "b"} {
		r.RegisterPlugin(PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) { return starting{opens(name), tr}, nil })})
	}
	r.RegisterPlugin(PluginSpec{Name: "plain", Load: WithoutArguments(func(Handle) (Plugin, error) { return opens("plain"), nil })})
	ssn := open(t, r, newRecordingCache(t), ProfileInput{Tiers: []conf.Tier{tier("b", "a"), tier("plain")}})
	r.CloseSession(ssn)
	want := []string{
		"b opens", "a opens", "plain opens",
		`b starts in action ""`, `a starts in action ""`,
	}
	if diff := cmp.Diff(want, tr.list); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// pauser is an action that pauses the named job, or panics.
type pauser struct{ name, job string }

var _ Pauser = pauser{}

func (p pauser) Name() string     { return p.name }
func (p pauser) Execute(*Session) {}

func (p pauser) Paused(ssn *Session, job *api.JobInfo) bool {
	if p.job == "" || ssn.Jobs[job.UID] != job {
		panic("oh no")
	}
	return job.Name == p.job
}

// TestPausers checks that a job is paused if any action pauses it. An action that panics pauses no job.
func TestPausers(t *testing.T) {
	tests := map[string]struct {
		actions []Action
		want    bool
	}{
		"no action":                      {},
		"an action that pauses others":   {actions: []Action{pauser{"a", "other"}}},
		"an action that pauses the job":  {actions: []Action{pauser{"a", "g"}}, want: true},
		"the second of two":              {actions: []Action{pauser{"a", "other"}, pauser{"b", "g"}}, want: true},
		"an action that panics":          {actions: []Action{pauser{"a", ""}}},
		"another one beside a panic":     {actions: []Action{pauser{"a", ""}, pauser{"b", "g"}}, want: true},
		"an action that pauses no gangs": {actions: []Action{namedAction("a")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := NewRegistry()
			for _, action := range tt.actions {
				r.RegisterAction(action)
			}
			ssn := open(t, r, newRecordingCache(t), ProfileInput{})
			defer r.CloseSession(ssn)
			if got := ssn.Paused(ssn.Jobs["ns/g"]); got != tt.want {
				t.Errorf("paused: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestAPluginOfUpstreamsStyle checks that the session calls functions that a plugin of upstream's style has registered
// with the embedded session, and that the plugin's results are not cached.
func TestAPluginOfUpstreamsStyle(t *testing.T) {
	var ofUpstream vcframework.Plugin = upstreamStyle{}
	plugin := &fake{"ported", func(ssn *Session) { ofUpstream.OnSessionOpen(ssn.Session) }}
	r, _, ssn := openOf(t, map[string]Plugin{"ported": plugin})
	defer r.CloseSession(ssn)
	task, node := taskNamed(ssn, "p0"), ssn.Nodes["n"]
	if err := ssn.PredicateFn(task, node); err == nil || err.Error() != "not here" {
		t.Errorf("the predicate's error is %v", err)
	}
	if score, err := ssn.NodeOrderFn(task, node); score != 7 || err != nil {
		t.Errorf("the score is %v, %v, want 7", score, err)
	}
	if v := &ssn.Signers; v.Scope("ported", task) != Uncached || !v.ReadsAnything("ported") || !v.HasOwnFilter("ported") || !v.HasScore("ported") || !v.HasFilter("ported") {
		t.Error("verdicts of a plugin that signs none may be cached")
	}
}

type upstreamStyle struct{}

func (upstreamStyle) Name() string { return "ported" }
func (upstreamStyle) OnSessionOpen(ssn *vcframework.Session) {
	ssn.AddPredicateFn("ported", func(*api.TaskInfo, *api.NodeInfo) error { return errors.New("not here") })
	ssn.AddNodeOrderFn("ported", func(*api.TaskInfo, *api.NodeInfo) (float64, error) { return 7, nil })
}
func (upstreamStyle) OnSessionClose(*vcframework.Session) {}

// TestTouched checks that a session has touched only the nodes on which it has placed or evicted tasks, and the jobs of
// these tasks, including a placement that is undone.
func TestTouched(t *testing.T) {
	cases := map[string]struct {
		act  func(t *testing.T, ssn *Session, s *vcframework.Statement) error
		want bool
	}{
		"nothing happens": {act: func(*testing.T, *Session, *vcframework.Statement) error { return nil }},
		"a placement that is undone": {want: true, act: func(_ *testing.T, ssn *Session, s *vcframework.Statement) error {
			defer s.Discard()
			return s.Allocate(taskNamed(ssn, "p0"), ssn.Nodes["n"])
		}},
		"an eviction": {want: true, act: func(_ *testing.T, ssn *Session, s *vcframework.Statement) error {
			return s.Evict(taskNamed(ssn, "victim"), "for a test")
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, ssn := openOf(t, nil)
			if err := tc.act(t, ssn, vcframework.NewStatement(ssn.Session)); err != nil {
				t.Fatal(err)
			}
			if ssn.Touched("n") != tc.want || ssn.Touched("other") {
				t.Errorf("touched n: %t, want %t; another node: %t", ssn.Touched("n"), tc.want, ssn.Touched("other"))
			}
			if jobs := ssn.touched.Jobs; len(jobs) > 0 != tc.want || len(jobs) > 1 {
				t.Errorf("touched jobs: %v, want one: %t", jobs, tc.want)
			}
		})
	}
}

// deciding is a PendingReporter with a fixed decision.
type deciding struct {
	reasons map[api.JobID]PendingReason
	shown   map[api.JobID]PendingReason
}

func (d deciding) Decide(*Session) map[api.JobID]PendingReason { return d.reasons }
func (d deciding) Show(ssn *Session, job *api.JobInfo) {
	d.shown[job.UID], _ = ssn.PendingReason(job.UID)
}
func (deciding) TimedOut(api.JobID) {}

// TestTheReporterDecides checks that the reasons of the registry's PendingReporter replace the reasons that actions have
// recorded, before statuses are written.
func TestTheReporterDecides(t *testing.T) {
	r, want := NewRegistry(), PendingReason{NotEnoughPods, "1 pod"}
	reporter := deciding{map[api.JobID]PendingReason{"ns/g": want}, map[api.JobID]PendingReason{}}
	r.Reporter = reporter
	r.RegisterPlugin(spec("ours", func(*Session) {}))
	ssn := open(t, r, newRecordingCache(t), ProfileInput{Tiers: []conf.Tier{tier("ours", "gang")}})
	ssn.SetPendingReason("ns/g", PendingReason{NotEnoughResources, "no room"})
	r.CloseSession(ssn)
	if diff := cmp.Diff(map[api.JobID]PendingReason{"ns/g": want}, reporter.shown); diff != "" {
		t.Errorf("shown reasons (-want +got):\n%s", diff)
	}
}

// reusing is a cache whose session snapshots must not be used.
type reusing struct {
	*recordingCache
	t *testing.T
}

var _ Snapshotter = reusing{}

func (c reusing) SessionSnapshot() (*api.ClusterInfo, snapshot.NodeForms, map[api.TaskID]map[string]string) {
	c.t.Error("the session reuses parts of a snapshot")
	return c.Snapshot(), snapshot.NodeForms{}, nil
}

func (reusing) TrustSession(snapshot.Touched) {}

// TestAPluginOfUpstreamsThatOpensFirstSeesAWholeSnapshot checks that a plugin of upstream that opens first sees a
// whole snapshot. Only a plugin of this project restores the parts that are hidden while upstream opens a session.
func TestAPluginOfUpstreamsThatOpensFirstSeesAWholeSnapshot(t *testing.T) {
	r := NewRegistry()
	r.RegisterPlugin(spec("ours", func(*Session) {}))
	profile, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier("binpack", "ours")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.CloseSession(r.OpenSession(reusing{newRecordingCache(t), t}, profile))
}
