// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// PredicateFirst makes the plugin's predicate run before all others, wherever the plugin is in the conf. A plugin whose
// refusals cannot be resolved by evictions calls it in OnSessionOpen. Upstream stops at the first predicate that
// refuses the node. If evictions may resolve that refusal, preempt and reclaim consider the node usable, although a
// later predicate may refuse it for good.
func (ssn *Session) PredicateFirst(plugin string) {
	ssn.Tiers = askFirst(ssn.Tiers, plugin, func(o *conf.PluginOption) **bool { return &o.EnabledPredicate })
}

// EnqueueFirst makes the plugin vote first on whether a gang is admitted, wherever the plugin is in the conf. A plugin
// that may refuse gangs calls it in OnSessionOpen. Some of upstream's plugins count a gang as admitted when they vote
// for it, so a refusal must come before their votes. Also, if an earlier tier permits the gang, later tiers do not
// vote. The plugin's vote must call SetCurrentJob.
func (ssn *Session) EnqueueFirst(plugin string) {
	ssn.Tiers = askFirst(ssn.Tiers, plugin, func(o *conf.PluginOption) **bool { return &o.EnabledJobEnqueued })
}

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
