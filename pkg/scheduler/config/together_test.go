// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// binds is a plugin that does what predicates does where its switch is on.
var binds = framework.PluginSpec{
	Name:      "binds",
	Arguments: []framework.Argument{{Name: "volumebinding.weight", Type: framework.Int}},
	TakesOver: []framework.Switch{{Plugin: predicatesName, Argument: "predicate.VolumeBindingEnable", Value: false}},
}

// extends is a plugin that does what upstream's does, and more.
var extends = framework.PluginSpec{Name: deviceshareName, Extends: true}

// TestSwitchesThatAreTakenOver: they get their value where the conf names the plugin that takes over, wherever it is, and nowhere else.
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

// TestBothDoIt: what two plugins would do is refused, with the lines of both, and what none would.
func TestBothDoIt(t *testing.T) {
	cases := map[string]struct{ conf, want string }{
		"the switch is on": {
			conf: with("predicates", "predicate.VolumeBindingEnable: true") + "  - name: binds\n",
			want: `line 6: argument "predicate.VolumeBindingEnable" of plugin "predicates" must be false beside plugin "binds" (line 7), which does that; remove the one or the other`,
		},
		"the switch is on, in quotes": {
			conf: plugin("binds", "") + "- plugins:\n  - name: predicates\n    arguments:\n      predicate.VolumeBindingEnable: \"true\"\n",
			want: `line 8: argument "predicate.VolumeBindingEnable" of plugin "predicates" must be false beside plugin "binds" (line 4), which does that; remove the one or the other`,
		},
		"an argument in quotes": {
			conf: with("predicates", "volumebinding.weight: '3'") + "  - name: binds\n",
			want: `line 6: argument "volumebinding.weight" of plugin "predicates" has no effect beside plugin "binds" (line 7); give it to that one`,
		},
		"all that can be wrong": {
			conf: with("predicates", "predicate.VolumeBindingEnable: true", "volumebinding.weight: 3") + "  - name: binds\n",
			want: `line 6: argument "predicate.VolumeBindingEnable" of plugin "predicates" must be false beside plugin "binds" (line 8), which does that; remove the one or the other
line 7: argument "volumebinding.weight" of plugin "predicates" has no effect beside plugin "binds" (line 8); give it to that one`,
		},
		"nobody does it": {
			conf: plugin("predicates", "") + "  - name: binds\n    enablePreBind: false\n",
			want: `line 5: enablePreBind: false beside plugin "binds", which takes over from plugin "predicates" what pods need before they are bound: nobody would do it; remove the one or the other`,
		},
		"nobody looks again": {
			conf: plugin("deviceshare", "") + "    enablePreBind: false\n",
			want: `line 4: enablePreBind: false beside plugin "deviceshare", which looks before the bind whether what it chose still is: nobody would do it; remove it`,
		},
		"an argument of what is not done there any more": {
			conf: with("predicates", "volumebinding.weight: 3") + "  - name: binds\n",
			want: `line 6: argument "volumebinding.weight" of plugin "predicates" has no effect beside plugin "binds" (line 7); give it to that one`,
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
