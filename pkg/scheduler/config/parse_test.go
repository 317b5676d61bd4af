// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// homemade is a plugin that takes any argument.
var homemade = framework.PluginSpec{Name: "homemade", Arguments: []framework.Argument{{Name: "*", Type: framework.AnyType}}}

// testCatalogue knows upstream's plugins, one of ours, and the given ones.
func testCatalogue(others ...framework.PluginSpec) *Catalogue {
	return NewCatalogue(append(others, framework.PluginSpec{
		Name: "checked",
		Arguments: []framework.Argument{
			{Name: "checked.level", Type: framework.Int},
			{Name: "checked.mode", Type: framework.String, Enum: []string{"hard", "soft"}},
			{Name: "checked.ratio", Type: framework.Number},
			{Name: "checked.wait", Type: framework.Duration},
			{Name: "checked.names", Type: framework.Strings},
			{Name: "checked.rules", Type: framework.Object},
			{Name: "checked.any", Type: framework.AnyType},
		},
		Validate: func(args framework.Arguments) error {
			switch args["checked.level"] {
			case 7:
				panic("seven")
			case 8:
				return errors.Join(errors.New("level 8 is too high"), errors.New("and 9 is higher"))
			default:
				return nil
			}
		},
	})...)
}

// plugin returns a conf of one plugin; its name is on line 4 and the text below it begins on line 5.
func plugin(name, below string) string {
	text := "actions: allocate\ntiers:\n- plugins:\n  - name: " + name + "\n"
	for line := range strings.Lines(below) {
		text += "    " + line
	}
	return text
}

// with returns a conf of one plugin with arguments, which begin on line 6.
func with(name string, arguments ...string) string {
	return plugin(name, "arguments:\n  "+strings.Join(arguments, "\n  ")+"\n")
}

func TestParseErrors(t *testing.T) {
	cases := map[string]struct {
		conf string
		want string
	}{
		"not YAML": {
			conf: "actions: \"allocate\ntiers: []\n",
			want: `line 3: not valid YAML: found unexpected end of stream`,
		},
		"a tab": {
			conf: "actions: allocate\ntiers:\n\t- plugins: []\n",
			want: `line 3: not valid YAML: found character that cannot start any token`,
		},
		"an alias within itself": {
			conf: "actions: allocate\ntiers: &t [*t]\n",
			want: `line 1: not valid YAML: anchor 't' value contains itself`,
		},
		"two documents": {
			conf: "actions: allocate\n---\nactions: backfill\n",
			want: `line 2: a second YAML document starts here; the file may have only one`,
		},
		"a list": {
			conf: "- allocate\n",
			want: `line 1: the file must be a mapping, found a list`,
		},
		"text": {
			conf: "allocate\n",
			want: `line 1: the file must be a mapping, found string "allocate"`,
		},
		"unknown top-level key": {
			conf: "actions: allocate\ntier:\n- plugins: []\n",
			want: `line 2: key "tier" is unknown; did you mean "tiers"?`,
		},
		"unknown top-level key like none": {
			conf: "actions: allocate\nxyzxyzxyzxyz: 1\n",
			want: `line 2: key "xyzxyzxyzxyz" is unknown; known are actions, configurations, metrics, tiers`,
		},
		"duplicate top-level key": {
			conf: "actions: allocate\ntiers: []\nactions: backfill\n",
			want: `line 3: key "actions" of the file is there twice`,
		},
		"no actions": {
			conf: "tiers: []\n",
			want: `line 1: key "actions" is missing; it names the actions to run, such as "enqueue, allocate, backfill"`,
		},
		"empty actions": {
			conf: "tiers: []\nactions: \"\"\n",
			want: `line 2: actions is empty; name the actions to run, such as "enqueue, allocate, backfill"`,
		},
		"actions of nothing": {
			conf: "actions:\ntiers: []\n",
			want: `line 1: actions is empty; name the actions to run, such as "enqueue, allocate, backfill"`,
		},
		"a list of actions": {
			conf: "actions: [allocate]\n",
			want: `line 1: actions must be a string such as "enqueue, allocate, backfill", found a list`,
		},
		"a comma too many": {
			conf: "actions: \"allocate,, backfill\"\n",
			want: `line 1: actions "allocate,, backfill" has a comma without a name`,
		},
		"unknown action": {
			conf: "actions: \"enqueue, alocate\"\n",
			want: `line 1: action "alocate" is unknown; did you mean "allocate"?`,
		},
		"unknown action like none": {
			conf: "actions: zzzzzzzz\n",
			want: `line 1: action "zzzzzzzz" is unknown; known are allocate, backfill, enqueue, preempt, reclaim, shuffle`,
		},
		"tiers is a mapping": {
			conf: "actions: allocate\ntiers:\n  plugins: []\n",
			want: `line 3: tiers must be a list, found a mapping`,
		},
		"unknown key of a tier": {
			conf: "actions: allocate\ntiers:\n- plugin:\n  - name: gang\n",
			want: `line 3: key "plugin" of a tier is unknown; did you mean "plugins"?`,
		},
		"a tier of nothing": {
			conf: "actions: allocate\ntiers:\n-\n",
			want: `line 3: a tier must be a mapping, found nothing`,
		},
		"plugin names instead of plugins": {
			conf: "actions: allocate\ntiers:\n- plugins: [gang]\n",
			want: `line 3: a plugin must be a mapping, found string "gang"`,
		},
		"a plugin without a name": {
			conf: "actions: allocate\ntiers:\n- plugins:\n  - enableJobOrder: false\n",
			want: `line 4: a plugin has no "name"`,
		},
		"a plugin whose name is a number": {
			conf: plugin("1", ""),
			want: `line 4: the name of a plugin must be a string, found int 1`,
		},
		"unknown plugin": {
			conf: plugin("predicatse", ""),
			want: `line 4: plugin "predicatse" is unknown; did you mean "predicates"?`,
		},
		"unknown plugin in capitals": {
			conf: plugin("GANG", ""),
			want: `line 4: plugin "GANG" is unknown; did you mean "gang"?`,
		},
		"a plugin twice in a tier": {
			conf: plugin("gang", "") + "  - name: gang\n",
			want: `line 5: plugin "gang" is named twice; the first is on line 4`,
		},
		"a plugin twice across tiers": {
			conf: plugin("gang", "") + "- plugins:\n  - name: gang\n",
			want: `line 6: plugin "gang" is named twice; the first is on line 4`,
		},
		"unknown switch": {
			conf: plugin("gang", "enableJobOrdr: false\n"),
			want: `line 5: key "enableJobOrdr" of plugin "gang" is unknown; did you mean "enableJobOrder"?`,
		},
		"a switch spelt as it should be": {
			conf: plugin("gang", "enableClusterOrder: false\n"),
			want: `line 5: key "enableClusterOrder" of plugin "gang" is unknown; did you mean "EnabledClusterOrder"?`,
		},
		"duplicate switch": {
			conf: plugin("gang", "enableJobOrder: false\nenableJobOrder: true\n"),
			want: `line 6: key "enableJobOrder" of a plugin is there twice`,
		},
		"a switch that is text": {
			conf: plugin("gang", "enableJobOrder: \"no\"\n"),
			want: `line 5: key "enableJobOrder" of plugin "gang" must be true or false, found string "no"`,
		},
		"a switch of nothing": {
			conf: plugin("gang", "enableJobOrder:\n"),
			want: `line 5: key "enableJobOrder" of plugin "gang" must be true or false, found nothing`,
		},
		"our switch with a wrong type": {
			conf: plugin("gang", "enablePreBind: 0\n"),
			want: `line 5: key "enablePreBind" of plugin "gang" must be true or false, found int 0`,
		},
		"an argument beside arguments": {
			conf: plugin("overcommit", "arguments:\novercommit-factor: 1.5\n"),
			want: `line 6: key "overcommit-factor" of plugin "overcommit" is unknown; it is an argument: write it under "arguments"`,
		},
		"arguments that are a list": {
			conf: plugin("overcommit", "arguments: [overcommit-factor]\n"),
			want: `line 5: the arguments of plugin "overcommit" must be a mapping, found a list`,
		},
		"unknown argument": {
			conf: with("overcommit", "overcommit-facto: 1.5"),
			want: `line 6: argument "overcommit-facto" of plugin "overcommit" is unknown; did you mean "overcommit-factor"?`,
		},
		"unknown argument of a plugin without any": {
			conf: with("gang", "minimum: 1"),
			want: `line 6: argument "minimum" of plugin "gang" is unknown; it takes none`,
		},
		"an argument of another plugin": {
			conf: with("gang", "overcommit-factor: 1.5"),
			want: `line 6: argument "overcommit-factor" of plugin "gang" is unknown; it is an argument of plugin "overcommit"`,
		},
		"unknown argument like none": {
			conf: with("sla", "q: 1"),
			want: `line 6: argument "q" of plugin "sla" is unknown; known are sla-waiting-time`,
		},
		"unknown argument like a family": {
			conf: with("tdm", "tdm.revocable-zoen.rz1: 10:00-21:00"),
			want: `line 6: argument "tdm.revocable-zoen.rz1" of plugin "tdm" is unknown; did you mean "tdm.revocable-zone.rz1"?`,
		},
		"duplicate argument": {
			conf: with("overcommit", "overcommit-factor: 1.5", "overcommit-factor: 1.6"),
			want: `line 7: key "overcommit-factor" of the arguments of plugin "overcommit" is there twice`,
		},
		"every wrong type": {
			conf: with("checked", "checked.level: 1.5", "checked.mode: lazy", "checked.ratio: \"1/2\"", "checked.wait: 30",
				"checked.names: [a, 1]", "checked.rules: x", "checked.any:"),
			want: `line 6: argument "checked.level" of plugin "checked" must be an integer, found number 1.5
line 7: argument "checked.mode" of plugin "checked" must be "hard" or "soft", found string "lazy"
line 8: argument "checked.ratio" of plugin "checked" must be a number, found string "1/2"
line 9: argument "checked.wait" of plugin "checked" must be a duration such as "30s", found int 30
line 10: argument "checked.names" of plugin "checked" must be a list of strings, found a list
line 11: argument "checked.rules" of plugin "checked" must be a mapping or a list, found string "x"`,
		},
		"a bool argument that is text": {
			conf: with("predicates", "predicate.PodAffinityEnable: \"no\""),
			want: `line 6: argument "predicate.PodAffinityEnable" of plugin "predicates" must be true or false, found string "no"`,
		},
		"a string argument that is a number": {
			conf: with("deviceshare", "deviceshare.KnownGeometriesCMName: 5"),
			want: `line 6: argument "deviceshare.KnownGeometriesCMName" of plugin "deviceshare" must be a string, found int 5`,
		},
		"an argument of nothing": {
			conf: with("predicates", "volumebinding.weight:"),
			want: `line 6: argument "volumebinding.weight" of plugin "predicates" must be an integer, found nothing`,
		},
		"what a plugin's own check finds": {
			conf: with("checked", "checked.level: 8"),
			want: "line 4: plugin \"checked\": level 8 is too high\nline 4: plugin \"checked\": and 9 is higher",
		},
		"a plugin's own check panics": {
			conf: with("checked", "checked.level: 7"),
			want: `line 4: plugin "checked": checking the arguments panicked: seven`,
		},
		"hierarchical drf beside proportion": {
			conf: "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    enableHierarchy: true\n  - name: proportion\n",
			want: `line 5: plugin "drf" with enableHierarchy conflicts with plugin "proportion" (line 6) of the same tier; keep one of them`,
		},
		"no plugin": {
			conf: "actions: allocate\ntiers: []\n",
			want: `line 2: tiers names no plugin; name those that decide where pods go, such as "gang" and "predicates"`,
		},
		"tiers of no plugin": {
			conf: "actions: allocate\ntiers:\n- plugins: []\n- plugins:\n",
			want: `line 2: tiers names no plugin; name those that decide where pods go, such as "gang" and "predicates"`,
		},
		"no tiers": {
			conf: "actions: allocate\n",
			want: `line 1: tiers names no plugin; name those that decide where pods go, such as "gang" and "predicates"`,
		},
		"usage without metrics": {
			conf: plugin("usage", ""),
			want: `line 4: plugin "usage" has no effect without the block "metrics", which says where usage is read from`,
		},
		"usage with a block that says nothing": {
			conf: plugin("usage", "") + "metrics:\n",
			want: `line 4: plugin "usage" has no effect without the block "metrics", which says where usage is read from`,
		},
		"proportion beside capacity, in another tier": {
			conf: plugin("capacity", "") + "- plugins:\n  - name: proportion\n",
			want: `line 6: plugin "proportion" (line 6) conflicts with plugin "capacity" (line 4): each shares the cluster among queues in its own way; keep one of them`,
		},
		"configurations is a mapping": {
			conf: "actions: allocate\nconfigurations:\n  name: allocate\n",
			want: `line 3: configurations must be a list, found a mapping`,
		},
		"unknown configuration": {
			conf: "actions: allocate\nconfigurations:\n- name: bindings\n",
			want: `line 3: configuration "bindings" is unknown; did you mean "binding"?`,
		},
		"a configuration without a name": {
			conf: "actions: allocate\nconfigurations:\n- arguments: {}\n",
			want: `line 3: a configuration has no "name"`,
		},
		"a configuration twice": {
			conf: "actions: allocate\nconfigurations:\n- name: allocate\n- name: allocate\n",
			want: `line 4: configuration "allocate" is there twice; the first is on line 3`,
		},
		"unknown key of a configuration": {
			conf: "actions: allocate\nconfigurations:\n- name: allocate\n  argument: {}\n",
			want: `line 4: key "argument" of a configuration is unknown; did you mean "arguments"?`,
		},
		"unknown argument of an action": {
			conf: "actions: allocate\nconfigurations:\n- name: preempt\n  arguments:\n    enableTopologyAwarePreemtion: true\n",
			want: `line 5: argument "enableTopologyAwarePreemtion" of action "preempt" is unknown; did you mean "enableTopologyAwarePreemption"?`,
		},
		"an action's argument that is a plugin's": {
			conf: "actions: allocate\nconfigurations:\n- name: enqueue\n  arguments:\n    overcommit-factor: 1.5\n",
			want: `line 5: argument "overcommit-factor" of action "enqueue" is unknown; it is an argument of plugin "overcommit"`,
		},
		"an action's argument of a wrong type": {
			conf: "actions: allocate\nconfigurations:\n- name: allocate\n  arguments: {predicateErrorCacheEnable: \"maybe\"}\n",
			want: `line 4: argument "predicateErrorCacheEnable" of action "allocate" must be true or false, found string "maybe"`,
		},
		"a half-bound gang's time that is none": {
			conf: "actions: allocate\nconfigurations:\n- name: binding\n  arguments: {evictHalfBoundAfter: nevr}\n",
			want: `line 4: argument "evictHalfBoundAfter" of configuration "binding" must be a duration such as "30s" or "never", found string "nevr"`,
		},
		"a half-bound gang's time of zero": {
			conf: "actions: allocate\nconfigurations:\n- name: binding\n  arguments: {evictHalfBoundAfter: 0s}\n",
			want: `line 4: configuration "binding": evictHalfBoundAfter must be a duration of 1s or more such as "30s" or "never", found string "0s"`,
		},
		"a half-bound gang's time that is none to speak of": {
			conf: "actions: allocate\nconfigurations:\n- name: binding\n  arguments: {evictHalfBoundAfter: 999ms}\n",
			want: `line 4: configuration "binding": evictHalfBoundAfter must be a duration of 1s or more such as "30s" or "never", found string "999ms"`,
		},
		"metrics that are read all the time": {
			conf: plugin("gang", "") + "metrics:\n  type: prometheus\n  address: http://x\n  interval: 1ns\n",
			want: `line 8: metrics: interval must be a duration of 1s or more such as "30s", found string "1ns"`,
		},
		"a misspelt init parameter": {
			conf: "actions: allocate\nconfigurations:\n- name: init-params\n  arguments: {presetVirtualDevice: maybe}\n",
			want: `line 4: configuration "init-params": presetVirtualDevice must be true or false, found string "maybe"`,
		},
		"metrics": {
			conf: "actions: allocate\nmetrics:\n  type: promtheus\n  interval: 30\n  adress: http://x\n",
			want: `line 3: argument "type" of metrics must be "elasticsearch" or "prometheus" or "prometheus_adaptor", found string "promtheus"
line 4: argument "interval" of metrics must be a duration such as "30s", found string "30"
line 5: argument "adress" of metrics is unknown; did you mean "address"?`,
		},
		"metrics at an address that is none": {
			conf: "actions: allocate\nmetrics:\n  type: prometheus\n  address: prometheus:9090\n",
			want: `line 4: metrics: address must be a URL such as "http://prometheus.monitoring:9090", found string "prometheus:9090"`,
		},
		"metrics at a port that is none": {
			conf: "actions: allocate\nmetrics:\n  type: prometheus\n  address: http://prometheus:99999\n",
			want: `line 4: metrics: address must be a URL such as "http://prometheus.monitoring:9090", found string "http://prometheus:99999"`,
		},
		"metrics without type": {
			conf: "actions: allocate\nmetrics:\n  address: http://x\n",
			want: `line 2: metrics has no "type"; it must be "elasticsearch" or "prometheus" or "prometheus_adaptor"`,
		},
		"metrics without address": {
			conf: "actions: allocate\nmetrics:\n  type: prometheus\n",
			want: `line 2: metrics of type "prometheus" needs an address`,
		},
		"all that is wrong, by line": {
			conf: "actions: alocate\ntiers:\n- plugins:\n  - name: gagn\n    enableJobOrder: 1\n  - name: overcommit\n    arguments:\n      overcommit-factor: many\nmetric: {}\n",
			want: `line 1: action "alocate" is unknown; did you mean "allocate"?
line 4: plugin "gagn" is unknown; did you mean "gang"?
line 5: key "enableJobOrder" of plugin "gagn" must be true or false, found int 1
line 8: argument "overcommit-factor" of plugin "overcommit" must be a number, found string "many"
line 9: key "metric" is unknown; did you mean "metrics"?`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse([]byte(tc.conf), testCatalogue())
			if cfg != nil {
				t.Errorf("Parse returned a configuration beside the error")
			}
			if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("Parse error (-want +got):\n%s\n%s", diff, tc.conf)
			}
		})
	}
}

// Upstream keeps a misspelt argument, says nothing and schedules with the default; a misspelt action or plugin it drops
// in the log, or ends on (volcano#4660, #5749). Each is an error here, with its line and the right spelling.
func TestUnknownConfIgnored(t *testing.T) {
	conf := `actions: "enqueue, alloacte"
tiers:
- plugins:
  - name: ganng
  - name: nodeorder
    enableNodeOrdr: true
    arguments:
      leastrequest.weight: 5
`
	_, err := Parse([]byte(conf), NewCatalogue())
	want := `line 1: action "alloacte" is unknown; did you mean "allocate"?
line 4: plugin "ganng" is unknown; did you mean "gang"?
line 6: key "enableNodeOrdr" of plugin "nodeorder" is unknown; did you mean "enableNodeOrder"?
line 8: argument "leastrequest.weight" of plugin "nodeorder" is unknown; did you mean "leastrequested.weight"?`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("Parse error (-want +got):\n%s", diff)
	}
	var finding *Error
	if !errors.As(err, &finding) || finding.Line != 1 {
		t.Errorf("the error does not give its findings: %#v", err)
	}
}

// TestPeriodsOfASecond are the shortest.
func TestPeriodsOfASecond(t *testing.T) {
	conf := plugin("gang", "") + "configurations:\n- name: binding\n  arguments: {evictHalfBoundAfter: 1s}\n" +
		"metrics:\n  type: prometheus\n  address: http://x\n  interval: 1s\n"
	if _, err := Parse([]byte(conf), NewCatalogue()); err != nil {
		t.Error(err)
	}
}

// TestFindingsAreShort: they repeat names of the file, are logged at each reload, and a name may be as large as the file.
func TestFindingsAreShort(t *testing.T) {
	long := strings.Repeat("n", 900_000)
	for name, conf := range map[string]string{
		"a name": plugin(long, ""), "a value": plugin("gang", "enablePreBind: "+long+"\n"), "what is no YAML": "actions: [" + long + ", *" + long + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(conf), NewCatalogue())
			if err == nil {
				t.Fatal("it is taken")
			}
			if text := (&FileError{Path: "f", Err: err}).Error(); len(text) > 1100 || !strings.HasPrefix(text, "f: line ") {
				t.Errorf("%d bytes are told: %.200s", len(text), text)
			}
		})
	}
}

func TestNeverIsATime(t *testing.T) {
	cfg, err := Parse([]byte(plugin("gang", "")+"configurations:\n- name: binding\n  arguments: {evictHalfBoundAfter: never}\n"), testCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	if after := cfg.EvictHalfBoundAfter(); after != 0 {
		t.Errorf("half-bound gangs are evicted after %s, want never", after)
	}
}

// TestParseTellsTheFirstFindings: a file of 1 MiB in which every line is wrong has a report that people and logs can take.
func TestParseTellsTheFirstFindings(t *testing.T) {
	var conf strings.Builder
	conf.WriteString("actions: allocate\ntiers:\n- plugins:\n")
	for i := range 2_000 {
		fmt.Fprintf(&conf, "  - name: bogus%d\n", i)
	}
	_, err := Parse([]byte(conf.String()), testCatalogue())
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != maxFindings+1 {
		t.Fatalf("%d lines, want %d", len(lines), maxFindings+1)
	}
	if want := `line 4: plugin "bogus0" is unknown`; !strings.HasPrefix(lines[0], want) {
		t.Errorf("the first line is %s, want %s", lines[0], want)
	}
	if want := fmt.Sprintf("line %d: and %d more errors from here on", maxFindings+4, 2_000-maxFindings); lines[maxFindings] != want {
		t.Errorf("the last line is %s, want %s", lines[maxFindings], want)
	}
}
