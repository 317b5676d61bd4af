// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// predicateOption and enqueueOption return the plugin option that enables the plugin's predicate, or its votes on
// admission.
func predicateOption(o *conf.PluginOption) **bool { return &o.EnabledPredicate }
func enqueueOption(o *conf.PluginOption) **bool   { return &o.EnabledJobEnqueued }

// askFirst moves one function of the plugin to a new tier before all others, if the conf enables the function. enabled
// returns the plugin option that enables the function.
func askFirst(all []conf.Tier, plugin string, enabled func(*conf.PluginOption) **bool) []conf.Tier {
	yes := true
	first := conf.PluginOption{Name: plugin}
	*enabled(&first) = &yes
	tiers, moved := []conf.Tier{{Plugins: []conf.PluginOption{first}}}, false
	for _, tier := range all {
		tier.Plugins = slices.Clone(tier.Plugins) // sessions share the profile's tiers, which must not change
		for i := range tier.Plugins {
			option := &tier.Plugins[i]
			if option.Name != plugin {
				continue
			}
			if on := enabled(option); *on != nil && **on {
				*on, moved = nil, true
			}
		}
		tiers = append(tiers, tier)
	}
	if moved {
		return tiers
	}
	return all
}
