// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// PredicateFirst makes the plugin's predicate run before all others, wherever the plugin is in the conf. A plugin calls it in
// OnSessionOpen if its refusals cannot be resolved by evictions. Upstream calls predicates up to the first refusal. If evictions
// may resolve that refusal, preempt and reclaim consider the node usable, whatever a later plugin would have answered.
func (ssn *Session) PredicateFirst(plugin string) {
	ssn.Tiers = askFirst(ssn.Tiers, plugin, func(o *conf.PluginOption) **bool { return &o.EnabledPredicate })
}

// EnqueueFirst makes the plugin vote first on whether a gang is admitted, wherever the plugin is in the conf. A plugin that may
// refuse gangs calls it in OnSessionOpen. Some of upstream's plugins count a gang as admitted when they vote for it, so a refusal
// must come before their votes. And a permit from an earlier tier ends the vote before later tiers.
func (ssn *Session) EnqueueFirst(plugin string) {
	ssn.Tiers = askFirst(ssn.Tiers, plugin, func(o *conf.PluginOption) **bool { return &o.EnabledJobEnqueued })
}

// askFirst moves one function of the plugin to a tier before all others, if the conf enables it. enabled returns the
// option that enables the function.
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
