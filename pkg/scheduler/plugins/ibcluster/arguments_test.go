// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
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
