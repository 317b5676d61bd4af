// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	defaults "github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"
)

// TestPluginThatBindsVolumes checks that volumebinding binds volumes by default and with the chart's configuration.
// With upstream's configurations, predicates does, as in upstream.
func TestPluginThatBindsVolumes(t *testing.T) {
	type binders struct {
		Named bool
		// Predicates is the argument of plugin predicates that makes it bind volumes; nil stands for its default, true.
		Predicates any
	}
	for name, tc := range map[string]struct {
		conf string
		want binders
	}{
		"built in":                    {conf: "", want: binders{Named: true, Predicates: false}},
		"the chart's":                 {conf: defaults.DefaultConf, want: binders{Named: true, Predicates: false}},
		"the chart's, for upstream's": {conf: defaults.UpstreamConf()},
		"upstream's":                  {conf: vcscheduler.DefaultSchedulerConf},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse([]byte(tc.conf), config.NewCatalogue(PluginSpecs()...))
			if err != nil {
				t.Fatal(err)
			}
			var got binders
			for _, tier := range cfg.Tiers {
				for _, option := range tier.Plugins {
					switch option.Name {
					case volumebinding.Name:
						got.Named = true
					case predicates.PluginName:
						got.Predicates = option.Arguments[predicates.VolumeBindingEnable]
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("who binds volumes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheChartReadsSettingsOfGangs checks that the chart's configuration names the plugin that reads settings of
// gangs. Modes and groups that users of Koordinator write used to be ignored silently.
func TestTheChartReadsSettingsOfGangs(t *testing.T) {
	cfg, err := config.Parse([]byte(defaults.DefaultConf), config.NewCatalogue(PluginSpecs()...))
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range cfg.Tiers {
		for _, option := range tier.Plugins {
			if option.Name == coscheduling.Name {
				return
			}
		}
	}
	t.Error("the chart's conf does not name coscheduling")
}

// TestUpstreamKnowsItsConf checks that the configuration for upstream's scheduler names only plugins that upstream has.
func TestUpstreamKnowsItsConf(t *testing.T) {
	if _, err := config.Parse([]byte(defaults.UpstreamConf()), config.NewCatalogue()); err != nil {
		t.Error(err)
	}
}
