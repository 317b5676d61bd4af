// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"slices"

	"volcano.sh/volcano/pkg/scheduler/conf"
)

// PredicateFirst makes the plugin's predicate run before all others, wherever the conf has the plugin. Use it from OnSessionOpen
// for refusals that evictions cannot resolve: upstream calls predicates up to the first refusal, and preempt and reclaim consider
// a node usable after evictions if that refusal is of a resolvable kind, whatever a later plugin would have answered.
func (ssn *Session) PredicateFirst(plugin string) {
	ssn.askFirst(plugin, func(o *conf.PluginOption) **bool { return &o.EnabledPredicate })
}

// EnqueueFirst makes the plugin vote first on whether a gang is admitted, wherever the conf has the plugin. Use it from
// OnSessionOpen to refuse a gang. Upstream's plugins that account for admitted gangs do so when they vote, so a refusal must come
// before theirs; and a permit from an earlier tier ends the vote before later tiers.
func (ssn *Session) EnqueueFirst(plugin string) {
	ssn.askFirst(plugin, func(o *conf.PluginOption) **bool { return &o.EnabledJobEnqueued })
}

// askFirst moves the plugin's extension point, which the switch enables, before all tiers, if the conf enables it.
func (ssn *Session) askFirst(plugin string, enabled func(*conf.PluginOption) **bool) {
	yes := true
	first := conf.PluginOption{Name: plugin}
	*enabled(&first) = &yes
	tiers, moved := []conf.Tier{{Plugins: []conf.PluginOption{first}}}, false
	for _, tier := range ssn.Tiers {
		tier.Plugins = slices.Clone(tier.Plugins) // the profile's own tier, which sessions share
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
		ssn.Tiers = tiers
	}
}
