// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"reflect"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
)

// TestUpstreamsPluginsAreListedByTheirNames: a plugin that is not listed by the name that confs use is taken for one that reads everything of a pod.
func TestUpstreamsPluginsAreListedByTheirNames(t *testing.T) {
	for name := range upstreamInputs {
		if _, known := vcframework.GetPluginBuilder(name); !known {
			t.Errorf("%s is no plugin of upstream's", name)
		}
	}
}

// TestMayScore: a plugin that has added no score has no say in which node is best. That is known of plugins only that register in no other session.
func TestMayScore(t *testing.T) {
	cases := map[string]struct {
		open func(ssn *Session)
		// elsewhere is true of a plugin that may register in upstream's session.
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
			r := NewRegistry()
			p := spec("p", tc.open)
			p.RegistersHere = !tc.elsewhere
			r.RegisterPlugin(p)
			ssn := open(t, r, newKeeper(t), ProfileInput{Tiers: []conf.Tier{tier("p")}})
			if got := ssn.MayScore("p"); got != tc.want {
				t.Errorf("MayScore is %v, want %v", got, tc.want)
			}
			if !ssn.MayScore("binpack") {
				t.Error("a plugin of upstream's may score")
			}
		})
	}
}

// TestJudgesNodes: a plugin that was ported from upstream may add its predicate through the embedded session, and what it refuses is not
// remembered from one session to the next either.
func TestJudgesNodes(t *testing.T) {
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
			r := NewRegistry()
			p := spec("p", tc.open)
			p.RegistersHere = !tc.elsewhere
			r.RegisterPlugin(p)
			ssn := open(t, r, newKeeper(t), ProfileInput{Tiers: []conf.Tier{tier("p", "predicates")}})
			if got := ssn.JudgesNodes("p"); got != tc.want {
				t.Errorf("JudgesNodes is %v, want %v", got, tc.want)
			}
			if ssn.JudgesNodes("predicates") {
				t.Error("a plugin of upstream's is taken for one of this project")
			}
		})
	}
}

// TestMayRefuse: what is listed of upstream's plugins as only scoring has no predicate in upstream's session, and all others may have one.
func TestMayRefuse(t *testing.T) {
	for name := range upstreamInputs {
		t.Run(name, func(t *testing.T) {
			ssn := open(t, NewRegistry(), newKeeper(t), ProfileInput{Tiers: []conf.Tier{tier(name)}})
			has := reflect.ValueOf(ssn.Session).Elem().FieldByName("predicateFns").MapIndex(reflect.ValueOf(name)).IsValid()
			if has && !ssn.MayRefuse(name) {
				t.Error("it has a predicate and is listed as only scoring")
			}
			if name == "predicates" && !has {
				t.Error("it has no predicate, so this test looks in the wrong place")
			}
		})
	}
}
