// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// quotedConf has numbers and booleans in quotes wherever they may occur, as upstream's own tools write them.
const quotedConf = `actions: "allocate, backfill, allocate"
tiers:
- plugins:
  - name: predicates
    enablePredicate: "true"
    enablePreBind: 'False'
    arguments:
      predicate.DynamicResourceAllocationEnable: "true"
      predicate.PodAffinityEnable: 'False'
      volumebinding.weight: "010"
      volumebinding.shape: [{utilization: "0", score: 0}, {"utilization":"100","score":"10"}]
  - name: overcommit
    arguments: {overcommit-factor: "1.5"}
  - name: usage
    arguments: {thresholds: {cpu: "80", "mem": '70'}} # größer: "5"
  - name: rescheduling
    arguments:
      interval: "5m"
      strategies:
      - name: lowNodeUtilization
        params:
          thresholds: &low
            cpu: "20"
          targetThresholds: *low
          nodeFit: "true"
  - name: resource-strategy-fit
    arguments:
      sra: {enable: "true", resources: nvidia.com/gpu, resourceWeight: {nvidia.com/gpu: "2"}}
      proportional: {enable: true, resourceProportion: {nvidia.com/gpu.cpu: "4.5"}}
  - name: checked
    arguments:
      checked.any: "true"
      checked.mode: "hard"
configurations:
- name: allocate
  arguments: {predicateErrorCacheEnable: "false"}
metrics: {type: prometheus, address: "http://prometheus:9090", tls.insecureSkipVerify: "true"}
`

// TestQuotedValues checks that quoted values are accepted. Upstream logs a line and schedules with the default, or
// rejects the file.
func TestQuotedValues(t *testing.T) {
	cfg, err := Parse([]byte(quotedConf), testCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	for _, warning := range cfg.Warnings {
		warnings = append(warnings, warning.Error())
	}
	taken := func(line int, what, as string) string {
		return fmt.Sprintf("line %d: %s is taken as %s; write it without quotes", line, what, as)
	}
	const strategy = `argument "strategies[0].params.`
	wantWarnings := []string{
		`line 1: action "allocate" is named more than once: it runs that often in each cycle`,
		taken(5, `key "enablePredicate" of plugin "predicates"`, "bool true"),
		taken(6, `key "enablePreBind" of plugin "predicates"`, "bool false"),
		taken(8, `argument "predicate.DynamicResourceAllocationEnable" of plugin "predicates"`, "bool true"),
		taken(9, `argument "predicate.PodAffinityEnable" of plugin "predicates"`, "bool false"),
		taken(10, `argument "volumebinding.weight" of plugin "predicates"`, "int 10"),
		taken(11, `argument "volumebinding.shape[0].utilization" of plugin "predicates"`, "int 0"),
		taken(11, `argument "volumebinding.shape[1].score" of plugin "predicates"`, "int 10"),
		taken(11, `argument "volumebinding.shape[1].utilization" of plugin "predicates"`, "int 100"),
		taken(13, `argument "overcommit-factor" of plugin "overcommit"`, "number 1.5"),
		taken(15, `argument "thresholds.cpu" of plugin "usage"`, "int 80"),
		taken(15, `argument "thresholds.mem" of plugin "usage"`, "int 70"),
		taken(23, strategy+`targetThresholds.cpu" of plugin "rescheduling"`, "int 20"),
		taken(23, strategy+`thresholds.cpu" of plugin "rescheduling"`, "int 20"),
		taken(25, strategy+`nodeFit" of plugin "rescheduling"`, "bool true"),
		taken(28, `argument "sra.enable" of plugin "resource-strategy-fit"`, "bool true"),
		taken(28, `argument "sra.resourceWeight.nvidia.com/gpu" of plugin "resource-strategy-fit"`, "int 2"),
		taken(29, `argument "proportional.resourceProportion.nvidia.com/gpu.cpu" of plugin "resource-strategy-fit"`, "number 4.5"),
		taken(36, `argument "predicateErrorCacheEnable" of action "allocate"`, "bool false"),
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	// The result equals that of the same file without those quotes.
	plain := strings.NewReplacer(`"010"`, "10", `"true"`, "true", "'False'", "false", `"false"`, "false", `"0"`, "0", `"100"`, " 100", `"10"`, " 10",
		`"1.5"`, "1.5", `"80"`, "80", "'70'", "70", `"20"`, "20", `"2"`, "2", `"4.5"`, "4.5", `checked.any: "true"`, `checked.any: "true"`).Replace(quotedConf)
	want, err := Parse([]byte(plain), testCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Warnings) != 1 {
		t.Errorf("warnings without quotes: %v", want.Warnings)
	}
	if got := string(cfg.Raw); got != quotedConf || cfg.Hash != hashOf([]byte(quotedConf)) {
		t.Errorf("the effective configuration is\n%s", got)
	}
	for _, c := range []*Config{cfg, want} {
		c.Raw, c.Hash, c.Warnings = nil, "", nil
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("configuration (-without quotes +with):\n%s", diff)
	}
}

// TestQuotedValuesAreChecked checks that quoted values have the same limits as unquoted ones, and that only plain
// quotes are accepted.
func TestQuotedValuesAreChecked(t *testing.T) {
	tests := map[string]struct{ plugin, argument, want string }{
		"a limit":                  {"overcommit", `overcommit-factor: "0.5"`, `line 6: plugin "overcommit": overcommit-factor must be a number of 1 or more, found number 0.5`},
		"a limit inside":           {"usage", `thresholds: {cpu: "800"}`, `line 6: plugin "usage": thresholds.cpu must be an integer between 0 and 100, found string "800"`},
		"another type inside":      {"usage", `thresholds: {cpu: "true"}`, `line 6: plugin "usage": thresholds.cpu must be an integer between 0 and 100, found string "true"`},
		"an escape":                {"predicates", `volumebinding.weight: "\x33"`, `line 6: argument "volumebinding.weight" of plugin "predicates" must be an integer, found string "3"`},
		"more wrong than a quote":  {"usage", `thresholds: {cpu: "80", men: 7}`, `line 6: plugin "usage": key "men" of thresholds is unknown; did you mean "mem"?`},
		"several lines in a block": {"predicates", "volumebinding.weight: |-\n        3", `line 6: argument "volumebinding.weight" of plugin "predicates" must be an integer, found string "3"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := with(tt.plugin, tt.argument)
			if tt.plugin == "usage" { // Without it the argument has no effect.
				text += "metrics: {type: prometheus_adaptor}\n"
			}
			_, err := Parse([]byte(text), testCatalogue())
			if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("Parse error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuotedFieldsOfAList checks that quoted fields of a list are accepted. Plugins declare which fields are numbers
// and booleans, and check the value inside the quotes.
func TestQuotedFieldsOfAList(t *testing.T) {
	var given []any
	spec := framework.PluginSpec{
		Name: "listing",
		Arguments: []framework.Argument{{Name: "listing.rules", Type: framework.Object, Fields: map[string]framework.ArgumentType{
			"limit": framework.Int, "strict": framework.Bool,
		}}},
		Load: func(args framework.Arguments) (framework.Builder, error) {
			given = append(given, args["listing.rules"])
			return nil, nil
		},
	}
	cfg, err := Parse([]byte(with("listing", "listing.rules:", "- {name: \"1\", limit: \"10\"}", "- name: \"true\"", "  strict: 'true'", "- limit: \"x\"")), testCatalogue(spec))
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		map[any]any{"name": "1", "limit": 10},
		map[any]any{"name": "true", "strict": true},
		map[any]any{"limit": "x"},
	}
	if diff := cmp.Diff([]any{want}, given); diff != "" {
		t.Errorf("checked values (-want +got):\n%s", diff)
	}
	var warnings []string
	for _, warning := range cfg.Warnings {
		warnings = append(warnings, warning.Error())
	}
	wantWarnings := []string{
		`line 7: argument "listing.rules[0].limit" of plugin "listing" is taken as int 10; write it without quotes`,
		`line 9: argument "listing.rules[1].strict" of plugin "listing" is taken as bool true; write it without quotes`,
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestAQuotedArgumentThatThePluginsCheckRefuses checks that the plugin gets a quoted argument of any type without its
// quotes if the argument's shape refuses text.
func TestAQuotedArgumentThatThePluginsCheckRefuses(t *testing.T) {
	var given []framework.Arguments
	spec := framework.PluginSpec{
		Name:      "listing",
		Arguments: []framework.Argument{{Name: "listing.name", Type: framework.String}, {Name: "listing.limit", Type: framework.Int}, {Name: "listing.any"}},
		Load: func(args framework.Arguments) (framework.Builder, error) {
			given = append(given, maps.Clone(args))
			return nil, nil
		},
	}
	cat := testCatalogue(spec)
	listing := cat.plugins["listing"]
	listing.shapes = map[string]shape{"listing.any": is(boolean)}
	cat.plugins["listing"] = listing
	cfg, err := Parse([]byte(with("listing", `listing.name: "5"`, `listing.limit: "5"`, `listing.any: "true"`)), cat)
	if err != nil {
		t.Fatal(err)
	}
	want := []framework.Arguments{{"listing.name": "5", "listing.limit": 5, "listing.any": true}}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("checked values (-want +got):\n%s", diff)
	}
	for _, tier := range cfg.Tiers {
		for _, plugin := range tier.Plugins {
			if diff := cmp.Diff(map[string]any(want[0]), plugin.Arguments); plugin.Name == "listing" && diff != "" {
				t.Errorf("effective values (-want +got):\n%s", diff)
			}
		}
	}
}
