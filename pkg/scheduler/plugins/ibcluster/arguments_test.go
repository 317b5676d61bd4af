// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

func argumentsOf(t *testing.T, text string) framework.Arguments {
	t.Helper()
	args := framework.Arguments{}
	if err := yaml.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	return args
}

func TestArguments(t *testing.T) {
	defaults := func(change func(*settings)) settings {
		s := settings{source: "labels", levels: []string{"ibcluster", "spine", "leaf"}, defaultMode: "none", strategy: "tightest", weight: 1}
		change(&s)
		return s
	}
	tests := map[string]struct {
		args string
		want settings
	}{
		"none": {args: "{}", want: defaults(func(*settings) {})},
		"a preset": {args: "{ibcluster.preset: topograph-core}", want: defaults(func(s *settings) {
			s.levels = []string{"network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"}
		})},
		"label keys": {args: "{ibcluster.levels: [example.com/fabric, rack]}", want: defaults(func(s *settings) {
			s.levels = []string{"example.com/fabric", "rack"}
		})},
		"all tiers": {args: "{ibcluster.source: hypernodes}", want: defaults(func(s *settings) { s.source, s.levels = "hypernodes", nil })},
		"some tiers": {args: "{ibcluster.source: hypernodes, ibcluster.levels: ['3', leaf]}", want: defaults(func(s *settings) {
			s.source, s.levels = "hypernodes", []string{"3", "leaf"}
		})},
		"all else": {
			args: "{ibcluster.defaultMode: preferred, ibcluster.triggerResources: [rdma/hca], ibcluster.strategy: emptiest, ibcluster.weight: 2.5}",
			want: defaults(func(s *settings) {
				s.defaultMode, s.trigger, s.strategy, s.weight = "preferred", []v1.ResourceName{"rdma/hca"}, "emptiest", 2.5
			}),
		},
		"a weight of zero":             {args: "{ibcluster.weight: 0}", want: defaults(func(s *settings) { s.weight = 0 })},
		"no trigger, in so many words": {args: "{ibcluster.triggerResources: []}", want: defaults(func(*settings) {})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := load(argumentsOf(t, tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentErrors(t *testing.T) {
	tests := map[string]struct {
		args string
		want []string
	}{
		"unknown source":   {args: "{ibcluster.source: racks}", want: []string{`ibcluster.source: found "racks", want "labels" or "hypernodes"`}},
		"source no string": {args: "{ibcluster.source: 3}", want: []string{`ibcluster.source: found 3, want "labels" or "hypernodes"`}},
		"unknown preset":   {args: "{ibcluster.preset: slurm}", want: []string{`ibcluster.preset: found "slurm", want "ibcluster" or "topograph" or`}},
		"preset and levels": {args: "{ibcluster.preset: ibcluster, ibcluster.levels: [a]}", want: []string{
			"ibcluster.preset and ibcluster.levels: both are given, want one of them"}},
		"preset of HyperNodes": {args: "{ibcluster.preset: ibcluster, ibcluster.source: hypernodes}", want: []string{
			"ibcluster.preset: presets are sets of label keys, leave it out with ibcluster.source: hypernodes"}},
		"levels no list":  {args: "{ibcluster.levels: leaf}", want: []string{`ibcluster.levels: found "leaf", want a list of strings`}},
		"levels empty":    {args: "{ibcluster.levels: []}", want: []string{"ibcluster.levels: found an empty list, want at least one level"}},
		"level no string": {args: "{ibcluster.levels: [3]}", want: []string{"ibcluster.levels: found 3 in the list, want strings that are not empty"}},
		"level no key":    {args: "{ibcluster.levels: [a b]}", want: []string{`ibcluster.levels: found "a b", want a label key: `}},
		"level twice":     {args: "{ibcluster.levels: [a, a]}", want: []string{`ibcluster.levels: found "a" twice, want each level once`}},
		"levels of one name": {args: "{ibcluster.levels: [a.io/fabric, a.io/leaf, b.io/leaf]}", want: []string{
			`ibcluster.levels: found "a.io/leaf" and "b.io/leaf", want levels that differ behind the slash: an annotation may name a level by that part, "leaf"`}},
		"a level that shadows another": {args: "{ibcluster.levels: [leaf, b.io/leaf]}", want: []string{
			`ibcluster.levels: found "leaf" and "b.io/leaf", want levels that differ behind the slash`}},
		"unknown mode":     {args: "{ibcluster.defaultMode: hard}", want: []string{`ibcluster.defaultMode: found "hard", want "required" or "preferred" or "none"`}},
		"trigger of cpu":   {args: "{ibcluster.triggerResources: [cpu]}", want: []string{`ibcluster.triggerResources: found "cpu", want names of extended resources such as "rdma/hca"`}},
		"unknown strategy": {args: "{ibcluster.strategy: first}", want: []string{`ibcluster.strategy: found "first", want "tightest" or "emptiest"`}},
		"negative weight":  {args: "{ibcluster.weight: -1}", want: []string{"ibcluster.weight: found -1, want a number from 0 to 1000000"}},
		"huge weight":      {args: "{ibcluster.weight: 10000000}", want: []string{"ibcluster.weight: found 1e+07, want a number from 0 to 1000000"}},
		"weight in quotes": {args: `{ibcluster.weight: "1"}`, want: []string{`ibcluster.weight: found "1", want a number from 0 to 1000000`}},
		"all at once": {args: "{ibcluster.source: racks, ibcluster.weight: -1, ibcluster.levels: []}", want: []string{
			"ibcluster.source: ", "ibcluster.weight: ", "ibcluster.levels: "}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := Spec().Validate(argumentsOf(t, tt.args))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is\n%v\nwant it to say\n%s", err, want)
				}
			}
			if _, err := New(argumentsOf(t, tt.args), nil); err == nil {
				t.Error("the plugin is built all the same")
			}
		})
	}
}
