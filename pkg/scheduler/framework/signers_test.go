// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestUpstreamsPluginsAreListedByTheirNames checks that upstream's plugins are listed by their names. A plugin that
// is not listed by its name in configurations counts as one that reads the whole pod.
func TestUpstreamsPluginsAreListedByTheirNames(t *testing.T) {
	for name := range upstreamSignatures {
		if _, known := vcframework.GetPluginBuilder(name); !known {
			t.Errorf("%s is no plugin of upstream's", name)
		}
	}
}

// signer is a plugin that implements Signer. By default, all tasks of a class share its results (PerTaskClass).
type signer struct {
	DefaultSigner
	fake
	scope func() CacheScope
}

func (s *signer) PodKeys() PodKeys { return SomePodKeys("k") }
func (s *signer) SignTask(*api.TaskInfo) CacheScope {
	if s.scope == nil {
		return PerTaskClass
	}
	return s.scope()
}

// opened opens a session with a plugin of that name, which is a Signer if signs is set, and with upstream's
// predicates.
func opened(t *testing.T, name string, signs bool, open func(ssn *Session)) *Session {
	t.Helper()
	r := NewRegistry()
	r.RegisterPlugin(PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) {
		if plain := (fake{name, open}); !signs {
			return &plain, nil
		}
		return &signer{fake: fake{name, open}}, nil
	})})
	profile, err := r.Build(ProfileInput{Tiers: []conf.Tier{tier(name, "predicates")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.OpenSession(newRecordingCache(t), profile)
}

// TestScope checks that the scope comes from the plugin's signatures, or from the list of upstream's plugins, and
// that results of other plugins are not cached.
func TestScope(t *testing.T) {
	v := newSigners()
	for name, scope := range map[string]func() CacheScope{
		"per job": func() CacheScope { return PerJob }, "skips": func() CacheScope { return Unaffected }, "panics": func() CacheScope { panic("oh no") },
		"chooses": func() CacheScope { return PerTaskClass }, "class": nil,
	} {
		v.add(name, &signer{scope: scope}, nil, true)
	}
	v.add("ported", &fake{}, nil, true)
	v.add("binpack", &fake{}, nil, true)
	v.recordAdded("chooses", added{choice: true})
	task := api.NewTaskInfo(schedtest.MakePod().Name("p").Obj())
	for plugin, want := range map[string]CacheScope{
		"per job": PerJob, "skips": Unaffected, "panics": Uncached, "chooses": Uncached, "class": PerTaskClass,
		"ported": Uncached, "binpack": Uncached, "unheard of": Uncached, "predicates": PerTaskClass, "nodegroup": PerJob,
	} {
		if got := v.Scope(plugin, task); got != want {
			t.Errorf("verdicts of plugin %s have scope %d, want %d", plugin, got, want)
		}
	}
	for plugin, want := range map[string]bool{"per job": false, "ported": true, "binpack": true, "unheard of": true, "predicates": false, "extender": true, "numa-aware": false} {
		if got := v.ReadsAnything(plugin); got != want {
			t.Errorf("plugin %s reads anything: %t, want %t", plugin, got, want)
		}
	}
}

// TestHasScore checks that HasScore returns false for a Signer that has added no score, and true for any other plugin.
func TestHasScore(t *testing.T) {
	cases := map[string]struct {
		open func(ssn *Session)
		// elsewhere reports whether the plugin is not a Signer. It may then add its score through upstream's session.
		elsewhere, want bool
	}{
		"no score":                             {open: func(ssn *Session) { ssn.AddPredicateFn("p", nil) }},
		"a score":                              {open: func(ssn *Session) { ssn.AddNodeOrderFn("p", nil) }, want: true},
		"a score of all":                       {open: func(ssn *Session) { ssn.AddBatchNodeOrderFn("p", nil) }, want: true},
		"a choice":                             {open: func(ssn *Session) { ssn.AddBestNodeFn("p", nil) }, want: true},
		"a scaled score":                       {open: func(ssn *Session) { ssn.AddNodeMapFn("p", nil) }, want: true},
		"a score through the embedded session": {open: func(ssn *Session) { ssn.Session.AddNodeOrderFn("p", nil) }, elsewhere: true, want: true},
		"no score in our session":              {open: func(*Session) {}, elsewhere: true, want: true},
		"another's score":                      {open: func(ssn *Session) { ssn.AddNodeOrderFn("q", nil) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ssn := opened(t, "p", !tc.elsewhere, tc.open)
			if got := ssn.Signers.HasScore("p"); got != tc.want {
				t.Errorf("HasScore is %v, want %v", got, tc.want)
			}
			if !ssn.Signers.HasScore("binpack") {
				t.Error("a plugin of upstream's may score")
			}
		})
	}
}

// TestHasOwnFilter checks that a Signer has a filter of its own only if it has added a predicate. A plugin of this
// framework that is not a Signer counts as having one, and upstream's plugins do not.
func TestHasOwnFilter(t *testing.T) {
	cases := map[string]struct {
		open            func(ssn *Session)
		elsewhere, want bool
	}{
		"no predicate":                         {open: func(ssn *Session) { ssn.AddNodeOrderFn("p", nil) }},
		"a predicate":                          {open: func(ssn *Session) { ssn.AddPredicateFn("p", nil) }, want: true},
		"a predicate of upstream's session":    {open: func(ssn *Session) { ssn.Session.AddPredicateFn("p", nil) }, elsewhere: true, want: true},
		"no predicate in our session":          {open: func(*Session) {}, elsewhere: true, want: true},
		"another's predicate":                  {open: func(ssn *Session) { ssn.Session.AddPredicateFn("q", nil) }},
		"a pre-predicate, which asks no nodes": {open: func(ssn *Session) { ssn.AddPrePredicateFn("p", nil) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ssn := opened(t, "p", !tc.elsewhere, tc.open)
			if got := ssn.Signers.HasOwnFilter("p"); got != tc.want {
				t.Errorf("HasOwnFilter is %v, want %v", got, tc.want)
			}
			if ssn.Signers.HasOwnFilter("predicates") {
				t.Error("a plugin of upstream's counts as a plugin of this project")
			}
		})
	}
}

// addedByUpstream returns, by plugin, the functions that the source of upstream's plugins adds to a session, such as
// "AddPredicateFn".
func addedByUpstream(t *testing.T) map[string]map[string]bool {
	t.Helper()
	plugins, err := build.Import("volcano.sh/volcano/pkg/scheduler/plugins", ".", build.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(plugins.Dir, "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	plugin, adds := map[string]string{}, map[string]map[string]bool{} // by directory
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		if adds[dir] == nil {
			adds[dir] = map[string]bool{}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.SelectorExpr:
				adds[dir][node.Sel.Name] = true
			case *ast.ValueSpec:
				if node.Names[0].Name == "PluginName" {
					plugin[dir] = strings.Trim(node.Values[0].(*ast.BasicLit).Value, `"`)
				}
			}
			return true
		})
	}
	byPlugin := map[string]map[string]bool{}
	for dir, name := range plugin {
		byPlugin[name] = adds[dir]
	}
	for name := range upstreamSignatures {
		if byPlugin[name] == nil {
			t.Errorf("no source of plugin %s found in %s", name, plugins.Dir)
		}
	}
	if !byPlugin["predicates"]["AddPredicateFn"] || !byPlugin["priority"]["AddTaskOrderFn"] || !byPlugin["priority"]["AddJobOrderFn"] {
		t.Error("plugins predicates and priority add no predicate or order, so this test looks in the wrong place")
	}
	return byPlugin
}

// TestHasFilter checks that upstream's plugins that are listed as only scoring have no predicate, and that all others
// may have one.
func TestHasFilter(t *testing.T) {
	v, added := newSigners(), addedByUpstream(t)
	for name := range upstreamSignatures {
		if added[name]["AddPredicateFn"] && !v.HasFilter(name) {
			t.Errorf("plugin %s has a predicate and is listed as only scoring", name)
		}
	}
}

// TestTaskOrderTiers checks that TaskOrderTiers keeps the upstream plugins that order tasks, except plugin priority. It
// also keeps plugins that are not listed as upstream's.
func TestTaskOrderTiers(t *testing.T) {
	added := addedByUpstream(t)
	for name := range upstreamSignatures {
		t.Run(name, func(t *testing.T) {
			ssn := open(t, NewRegistry(), newRecordingCache(t), ProfileInput{Tiers: []conf.Tier{tier(name)}})
			orders := added[name]["AddTaskOrderFn"]
			if asked := len(ssn.Signers.TaskOrderTiers(ssn.Tiers)[0].Plugins) > 0; asked != (orders && name != "priority") {
				t.Errorf("it is called for the order of tasks: %t, and it orders them: %t", asked, orders)
			}
		})
	}
	if ssn := opened(t, "p", false, func(*Session) {}); len(ssn.Signers.TaskOrderTiers(ssn.Tiers)[0].Plugins) != 1 {
		t.Errorf("called for the order of tasks: %v, want only the unknown plugin", ssn.Signers.TaskOrderTiers(ssn.Tiers))
	}
}

// TestJobOrderPlugins checks that JobOrderPlugins returns upstream's plugins that order jobs, Signers that have added
// an order, and unknown plugins.
func TestJobOrderPlugins(t *testing.T) {
	added := addedByUpstream(t)
	for name := range upstreamSignatures {
		t.Run(name, func(t *testing.T) {
			ssn := open(t, NewRegistry(), newRecordingCache(t), ProfileInput{Tiers: []conf.Tier{tier(name)}})
			orders := added[name]["AddJobOrderFn"]
			if asked := len(ssn.Signers.JobOrderPlugins(ssn.Tiers)) > 0; asked != orders {
				t.Errorf("it is called for the order of jobs: %t, and it orders them: %t", asked, orders)
			}
			if got := ssn.Signers.JobOrderPlugins(ssn.Signers.TiersWithout(ssn.Tiers, name)); len(got) > 0 {
				t.Errorf("asked without it: %v", got)
			}
		})
	}
	cases := map[string]struct {
		signs bool
		open  func(ssn *Session)
		want  bool
	}{
		"signed, without an order": {signs: true, open: func(*Session) {}},
		"signed, with an order":    {signs: true, open: func(ssn *Session) { ssn.AddJobOrderFn("p", func(_, _ any) int { return 0 }) }, want: true},
		"not signed":               {open: func(*Session) {}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ssn := opened(t, "p", tc.signs, tc.open)
			if got := len(ssn.Signers.JobOrderPlugins(ssn.Tiers)) == 1; got != tc.want {
				t.Errorf("it is called for the order of jobs: %t, want %t", got, tc.want)
			}
		})
	}
}
