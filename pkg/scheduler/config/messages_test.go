// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
)

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
			want: `line 2: key "xyzxyzxyzxyz" is unknown; valid names: actions, configurations, metrics, tiers`,
		},
		"duplicate top-level key": {
			conf: "actions: allocate\ntiers: []\nactions: backfill\n",
			want: `line 3: key "actions" of the file is given twice`,
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
			want: `line 1: action "zzzzzzzz" is unknown; valid names: allocate, backfill, enqueue, preempt, preempt-upstream, reclaim, reclaim-upstream, shuffle`,
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
			want: `line 6: key "enableJobOrder" of a plugin is given twice`,
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
			want: `line 6: argument "q" of plugin "sla" is unknown; valid names: sla-waiting-time`,
		},
		"unknown argument like a family": {
			conf: with("tdm", "tdm.revocable-zoen.rz1: 10:00-21:00"),
			want: `line 6: argument "tdm.revocable-zoen.rz1" of plugin "tdm" is unknown; did you mean "tdm.revocable-zone.rz1"?`,
		},
		"duplicate argument": {
			conf: with("overcommit", "overcommit-factor: 1.5", "overcommit-factor: 1.6"),
			want: `line 7: key "overcommit-factor" of the arguments of plugin "overcommit" is given twice`,
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
			want: `line 2: tiers names no plugin; name the plugins that choose nodes, such as "gang" and "predicates"`,
		},
		"tiers of no plugin": {
			conf: "actions: allocate\ntiers:\n- plugins: []\n- plugins:\n",
			want: `line 2: tiers names no plugin; name the plugins that choose nodes, such as "gang" and "predicates"`,
		},
		"no tiers": {
			conf: "actions: allocate\n",
			want: `line 1: tiers names no plugin; name the plugins that choose nodes, such as "gang" and "predicates"`,
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
			want: `line 4: configuration "allocate" is given twice; the first is on line 3`,
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
		"a partially bound gang's time that is none": {
			conf: "actions: allocate\nconfigurations:\n- name: binding\n  arguments: {evictPartiallyBoundAfter: nevr}\n",
			want: `line 4: argument "evictPartiallyBoundAfter" of configuration "binding" must be a duration such as "30s" or "never", found string "nevr"`,
		},
		"a partially bound gang's time of zero": {
			conf: "actions: allocate\nconfigurations:\n- name: binding\n  arguments: {evictPartiallyBoundAfter: 0s}\n",
			want: `line 4: configuration "binding": evictPartiallyBoundAfter must be a duration of 1s or more such as "30s" or "never", found string "0s"`,
		},
		"a partially bound gang's time that is none to speak of": {
			conf: "actions: allocate\nconfigurations:\n- name: binding\n  arguments: {evictPartiallyBoundAfter: 999ms}\n",
			want: `line 4: configuration "binding": evictPartiallyBoundAfter must be a duration of 1s or more such as "30s" or "never", found string "999ms"`,
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

// TestSwitchesThatAreTakenOver checks that a switch that a plugin takes over gets its value wherever the
// configuration names that plugin, and nowhere else.
func TestSwitchesThatAreTakenOver(t *testing.T) {
	const argument = "predicate.VolumeBindingEnable"
	cases := map[string]struct {
		conf string
		want map[string]any
	}{
		"without the plugin":      {conf: plugin("predicates", "")},
		"after it":                {conf: plugin("binds", "") + "- plugins:\n  - name: predicates\n", want: map[string]any{argument: false}},
		"before it":               {conf: plugin("predicates", "") + "- plugins:\n  - name: binds\n", want: map[string]any{argument: false}},
		"beside other arguments":  {conf: with("predicates", "predicate.NodePortsEnable: false") + "  - name: binds\n", want: map[string]any{argument: false, "predicate.NodePortsEnable": false}},
		"said, too":               {conf: with("predicates", argument+": false") + "  - name: binds\n", want: map[string]any{argument: false}},
		"said in quotes":          {conf: with("predicates", argument+`: "false"`) + "  - name: binds\n", want: map[string]any{argument: false}},
		"said without the plugin": {conf: with("predicates", argument+": true"), want: map[string]any{argument: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse([]byte(tc.conf), testCatalogue(binds))
			if err != nil {
				t.Fatal(err)
			}
			for _, tier := range cfg.Tiers {
				for _, option := range tier.Plugins {
					if option.Name != predicatesName {
						continue
					}
					if diff := cmp.Diff(tc.want, option.Arguments); diff != "" {
						t.Errorf("arguments (-want +got):\n%s", diff)
					}
				}
			}
		})
	}
}

// TestBothDoIt checks that a configuration is rejected if two plugins would do the same work, with the lines of both,
// or if no plugin would do it.
func TestBothDoIt(t *testing.T) {
	cases := map[string]struct{ conf, want string }{
		"the switch is on": {
			conf: with("predicates", "predicate.VolumeBindingEnable: true") + "  - name: binds\n",
			want: `line 6: argument "predicate.VolumeBindingEnable" of plugin "predicates" must be false with plugin "binds" (line 7), which takes this over; remove one of them`,
		},
		"the switch is on, in quotes": {
			conf: plugin("binds", "") + "- plugins:\n  - name: predicates\n    arguments:\n      predicate.VolumeBindingEnable: \"true\"\n",
			want: `line 8: argument "predicate.VolumeBindingEnable" of plugin "predicates" must be false with plugin "binds" (line 4), which takes this over; remove one of them`,
		},
		"an argument in quotes": {
			conf: with("predicates", "volumebinding.weight: '3'") + "  - name: binds\n",
			want: `line 6: argument "volumebinding.weight" of plugin "predicates" has no effect with plugin "binds" (line 7); move it to that plugin`,
		},
		"all that can be wrong": {
			conf: with("predicates", "predicate.VolumeBindingEnable: true", "volumebinding.weight: 3") + "  - name: binds\n",
			want: `line 6: argument "predicate.VolumeBindingEnable" of plugin "predicates" must be false with plugin "binds" (line 8), which takes this over; remove one of them
line 7: argument "volumebinding.weight" of plugin "predicates" has no effect with plugin "binds" (line 8); move it to that plugin`,
		},
		"enablePreBind: false of a plugin whose steps are taken over": {
			conf: plugin("predicates", "") + "  - name: binds\n    enablePreBind: false\n",
			want: `line 5: enablePreBind: false conflicts with plugin "binds", which takes over the pre-bind steps of plugin "predicates"; remove one of them`,
		},
		"enablePreBind: false of a plugin that checks again": {
			conf: plugin("deviceshare", "") + "    enablePreBind: false\n",
			want: `line 4: enablePreBind: false conflicts with plugin "deviceshare", which checks its choice again before the bind; remove it`,
		},
		"an argument of what is not done there any more": {
			conf: with("predicates", "volumebinding.weight: 3") + "  - name: binds\n",
			want: `line 6: argument "volumebinding.weight" of plugin "predicates" has no effect with plugin "binds" (line 7); move it to that plugin`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.conf), testCatalogue(binds, extends))
			if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("Parse error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUpstreamValueErrors compares the errors for values on which upstream's plugins panic, end the process, or
// silently use a default.
func TestUpstreamValueErrors(t *testing.T) {
	cases := map[string]struct {
		plugin, arguments, want string
	}{
		"overcommit below one":      {"overcommit", "overcommit-factor: 0.5", `overcommit-factor must be a number of 1 or more, found number 0.5`},
		"a window that is none":     {"tdm", "tdm.revocable-zone.a: 10-21", `tdm.revocable-zone.a must be a daily window such as "10:00-21:00", found string "10-21"`},
		"a fractional threshold":    {"usage", "thresholds: {cpu: 80.5}", `thresholds.cpu must be an integer between 0 and 100, found number 80.5`},
		"an unknown threshold":      {"usage", "thresholds: {memory: 80}", `key "memory" of thresholds is unknown; did you mean "mem"?`},
		"an unknown strategy":       {"rescheduling", "strategies: [{name: offlineOnly}]", `strategies[0].name must be "lowNodeUtilization", found string "offlineOnly"`},
		"a strategy's threshold":    {"rescheduling", "strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: \"200\"}}}]", `strategies[0].params.thresholds.cpu must be an integer between 0 and 100, found string "200"`},
		"strategies of a mapping":   {"rescheduling", "strategies: {name: x}", `strategies must be a list, found a mapping`},
		"an asterisk alone":         {"resource-strategy-fit", "resources: {\"*\": {weight: 1}}", `resource "*" of resources must end in its only asterisk, such as "example.com/*"`},
		"an unknown scoring":        {"resource-strategy-fit", "resources: {cpu: {type: Most}}", `resources.cpu.type must be "LeastAllocated" or "MostAllocated", found string "Most"`},
		"a misspelt nested key":     {"resource-strategy-fit", "sra: {enabled: true}", `key "enabled" of sra is unknown; did you mean "enable"?`},
		"a weight without effect":   {"binpack", "binpack.resources.nvidia.com/gpu: 2", `binpack.resources.nvidia.com/gpu has no effect: add nvidia.com/gpu to binpack.resources`},
		"a negative weight":         {"binpack", "binpack.cpu: -1", `binpack.cpu must be an integer between 0 and 1000000, found int -1`},
		"both ways of sharing GPUs": {"deviceshare", "{deviceshare.GPUSharingEnable: true, deviceshare.GPUNumberEnable: true}", `deviceshare.GPUNumberEnable conflicts with deviceshare.GPUSharingEnable; keep one of them true`},
		"vGPU beside whole GPUs":    {"deviceshare", "{deviceshare.VGPUEnable: true, deviceshare.GPUNumberEnable: true}", `deviceshare.VGPUEnable conflicts with deviceshare.GPUNumberEnable; keep one of them true`},
		"vGPU beside shared GPUs":   {"deviceshare", "{deviceshare.VGPUEnable: true, deviceshare.GPUSharingEnable: true}", `deviceshare.VGPUEnable conflicts with deviceshare.GPUSharingEnable; keep one of them true`},
		"a weight beyond reckoning": {"binpack", "binpack.weight: 9223372036854775807", `binpack.weight must be an integer between 0 and 1000000, found int 9223372036854775807`},
		"seconds beyond reckoning":  {"predicates", "volumebinding.bindTimeoutSeconds: 9223372036854775807", `volumebinding.bindTimeoutSeconds must be an integer between 0 and 2147483647, found int 9223372036854775807`},
		"a negative score":          {"nodeorder", "leastrequested.weight: -1", `leastrequested.weight must be an integer between 0 and 1000000, found int -1`},
		"a negative share of usage": {"usage", "memory.weight: -1", `memory.weight must be an integer between 0 and 1000000, found int -1`},
		"a negative NUMA score":     {"numa-aware", "weight: -2", `weight must be an integer between 0 and 1000000, found int -2`},
		"a service without a host":  {"extender", "extender.urlPrefix: /predicates", `extender.urlPrefix must be a URL such as "http://prometheus.monitoring:9090", found string "/predicates"`},
		"a path without a service":  {"extender", "extender.predicateVerb: predicate", `extender.predicateVerb requires extender.urlPrefix`},
		"no time for an answer":     {"extender", "{extender.urlPrefix: http://x, extender.httpTimeout: 0s}", `extender.httpTimeout must be a duration over zero such as "30s", found string "0s"`},
		"evictions without a pause": {"rescheduling", "interval: -5m", `interval must be a duration over zero such as "30s", found string "-5m"`},
		"no time to wait":           {"sla", "sla-waiting-time: -1h", `sla-waiting-time must be a duration over zero such as "30s", found string "-1h"`},
		"a shape without points":    {"predicates", "volumebinding.shape: []", `volumebinding.shape must have at least one item`},
		"a shape that falls":        {"predicates", "volumebinding.shape: [{utilization: 50, score: 1}, {utilization: 20, score: 2}]", `volumebinding.shape[1].utilization must be more than the 50 before it, found int 20`},
		"a shape with equal points": {"predicates", "volumebinding.shape: [{score: 1}, {score: 2}]", `volumebinding.shape[1].utilization must be more than the 0 before it, found int 0`},
		"a shape over its score":    {"predicates", "volumebinding.shape: [{utilization: 0, score: 100}]", `volumebinding.shape[0].score must be an integer between 0 and 10, found int 100`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text := with(tc.plugin, tc.arguments)
			if tc.plugin == usageName {
				text += "metrics: {type: prometheus_adaptor}\n"
			}
			_, err := Parse([]byte(text), NewCatalogue())
			want := fmt.Sprintf("line 6: plugin %q: %s", tc.plugin, tc.want)
			if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
				t.Errorf("Parse error (-want +got):\n%s", diff)
			}
		})
	}
}
